"""The unit of work: a block is a run of small files or a chunk of a large one, and is identified by its number.

Read in this order: `blocks`, `hashing`, `reader` and `writer` (a block and its files), `buffer` (a block in memory),
`journal` (which blocks are on disk), `progress_board` (what the processes of a copy share).
"""
