"""`dlrun tune-affinity`: find, print, apply, measure and verify the binding of ranks on a node.

`command` is the command line, `actions` and `execute` what its options do. `inputs` (node and job), `bind`, `measure`,
`verify` and `report_run` touch the node; `load` and `report_load` are programs that run as ranks, for `measure` and
`report_run`. Pure: `settings` (what a launcher needs), `formats` (one module a launcher), `report` and `drawing` (pictures),
`override` (a placement as keys of a spec).
"""
