"""Placements as text: `table` for people, `formats` as options of tools that can apply one, `drawing` as pictures.

`settings` and `variables` have the environment of ranks, `override` renders the result of a measurement.
"""
