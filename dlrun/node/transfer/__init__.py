"""One copy on a node: where the data comes from, and the worker processes.

Read in this order: `local` (a copy by one node), `task` (the blocks to copy), `workers` and `worker`
(the processes), `read_blocks` and `write_blocks`, then `send_blocks` and `receive_blocks` (between two nodes).
"""
