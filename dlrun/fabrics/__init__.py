"""Fabric settings as data: `data/*.csv` has name, value, when, because and source of each.

Begin with `rules` (which settings hold for a job); `table` reads the data, `libraries` selects those that a job uses,
`versions` compares theirs.
"""
