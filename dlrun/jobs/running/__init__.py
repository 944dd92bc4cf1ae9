"""Jobs that run where this shell is: in its allocation, or on this machine (`dlrun run`).

`command` makes the spec of a command line; `own_allocation` gets an allocation, `allocation` fits a spec to one, and `shortage`
reports what it lacks; `start` plans and starts the job, and `ending` ends it.
"""
