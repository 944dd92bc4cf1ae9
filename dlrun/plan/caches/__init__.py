"""Directories on each node for what compilers keep: `table` (the tools, as data), `decide` (which ones a job gets)."""
