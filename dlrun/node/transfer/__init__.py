"""One node's copying processes, and the steps of one copy.

Read in this order: `staging` (the steps), `local` (a copy by one node alone), `workers` and `worker` (the processes),
`read_blocks` and `write_blocks`, then `send_blocks` and `receive_blocks` (between two nodes).
"""
