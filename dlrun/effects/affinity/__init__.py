"""Apply, measure and verify placements on a node: `inputs` (node and job), `bind`, `measure`, `verify`, `report`.

`load` and `report_load` are programs that run as ranks, for `measure` and `report`.
"""
