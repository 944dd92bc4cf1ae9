"""Data sets of a plan: `sets` (where each lies and the path that the program sees) begins; `strategy` chooses how nodes
get one, `storage` adds up what a node must hold, `stage_arguments` are the node program's arguments.
"""
