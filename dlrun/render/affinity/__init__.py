"""Placements as text: `table` for people, `formats` in the words of each tool that can apply one, `drawing` as pictures.

`settings` and `variables` have the environment of ranks, `override` writes what a measurement found.
"""
