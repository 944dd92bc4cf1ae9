"""Node to node: the chain (or tree) in which each node passes on what it receives.

Read in this order: `chain`, `member` (the steps of one node), `state` (what it knows and reports), `leader`, `upstream` and
`downstream` (the connections to its neighbours), `messages` (what goes over them), `shapes` (chain or tree).
"""
