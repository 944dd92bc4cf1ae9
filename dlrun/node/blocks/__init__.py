"""The unit of work: a block is a group of consecutive small files, or a chunk of a large file; its number is its id.

Read in this order: `blocks`, `hashing`, `reader` and `writer` (a block and its files), `buffer` (a block in memory),
`journal` (which blocks are on disk), `progress_board` (shared memory of the processes of a copy).
"""
