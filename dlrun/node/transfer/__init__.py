"""The steps of one copy on a node, and its worker processes.

Read in this order: `staging` (the steps), `local` (a copy by one node), `task` (the blocks to copy), `workers` and `worker`
(the processes), `read_blocks` and `write_blocks`, then `send_blocks` and `receive_blocks` (between two nodes).
"""
