"""Placements applied, measured and read back on a node: `inputs` (where it starts), `bind`, `measure`, `verify`.

`load` is run as ranks.
"""
