"""One copy on a node: the files that are fetched or made for it, and the worker processes.

Read in this order: `local` (a copy by one node), `task` (the blocks to copy), `workers` and `worker`
(the processes), `read_blocks` and `write_blocks`, then `send_blocks` and `receive_blocks` (between two nodes).
Sources that are not files: `remote_source` (a URL) and `remote_delta`, `made_source`, `archive_source` and `unpack`,
`image_source`. What is copied of a changed set: `plan_delta`; the digests of its content: `content`.
"""
