"""Jobs that run where this shell is: in its allocation, or on this machine (`dlrun run`).

`command` makes the spec of a command line, `start` gets an allocation, fits a spec to what was granted, plans and starts the
job, or reports what the allocation lacks; `ending` ends it.
"""
