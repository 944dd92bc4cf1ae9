"""Fabric settings as data: `data/*.csv` has name, value, when, because and source of each.

Begin with `rules` (selection of the settings of a job, versions of libraries); `table` reads the data, `libraries` derives the
communication libraries of a job.
"""
