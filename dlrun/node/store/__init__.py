"""The data sets on this node: built, published, resumed, recognised and removed.

Read in this order: `target` and `area` (the staging directory), `layout` (files or one tar file), `build` (a set until it
is published), `resume`, `versions` (what a new version shares with the published one), `warm` (recognise a published set),
`early` (use a set during its copy), `eviction` and `uses` (removal), `destination` (results).
"""
