"""What is copied: the source is walked once and becomes a manifest.

Read in this order: `manifest` (a data set as a list of entries), `selection` (what the user names), `walk` and `listing`
(many calls in flight), `survey` (the walk made into a manifest), `subset` (one node's shard), `part` (what of it fits a node).
"""
