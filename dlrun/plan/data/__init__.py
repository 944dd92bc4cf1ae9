"""Data sets of a plan: begin with `sets` (location of each set and path for the program); `strategy` selects the staging
strategy, `storage` has the request for node-local storage, `stage_arguments` the arguments of the node program.
"""
