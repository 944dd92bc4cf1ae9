"""Data sets copied to nodes by hand: `plan` (what a training job would stage), then `run` (the node program here or in
an allocation).
"""
