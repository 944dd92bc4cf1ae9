"""`dlrun stage-data`: copy data sets to nodes without a training: `plan` (as for a training job), then `run` (the node
program on this machine or in an allocation).
"""
