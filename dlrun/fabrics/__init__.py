"""Fabric settings as data: `data/*.csv` has name, value, when, because and source of each.

Begin with `rules` (selection of the settings of a job, its communication libraries, their versions); `table` reads the data.
"""
