"""Copying from node to node: a chain (or tree) in which each node forwards the blocks that it receives.

Read in this order: `member` (the steps of one node), `state` (its data and status), `leader`, `upstream` and
`downstream` (the connections to its neighbours), `rates` (of links), `messages`, `shapes` (chain or tree).
"""
