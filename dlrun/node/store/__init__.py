"""The data sets on this node: built, published, resumed, recognised and removed.

Read in this order: `area` (the staging directory), `layout` (files or one tar file), `build` (a set until it is published),
`resume`, `warm` (recognising a published set), `eviction` and `uses` (removal), `destination` (results).
"""
