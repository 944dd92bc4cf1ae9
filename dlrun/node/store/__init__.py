"""What is on this node: sets that are published, built, resumed, recognised and removed.

Read in this order: `area` (the staging directory), `layout` (files or one tar file), `build` (a set until it is published),
`resume`, `warm` (a published set recognised), `eviction` and `uses` (who may remove what), `destination` (results).
"""
