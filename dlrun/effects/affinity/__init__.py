"""Apply, measure and verify placements on a node: `inputs` (node and job), `bind`, `measure`, `verify`.

`load` and `report_load` run as ranks.
"""
