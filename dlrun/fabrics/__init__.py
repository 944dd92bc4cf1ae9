"""Fabric settings as data: `data/*.csv` says what, when, why and by whose word; `rules` selects."""
