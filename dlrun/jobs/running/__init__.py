"""Jobs that run where this shell is: in its allocation, or on this machine (`dlrun run`).

`command` makes the spec of a command line, `allocation` fits a spec to what was granted, `shortage` reports what is missing;
`start` plans and starts the job, `ending` ends it. `interactive` gets an allocation first.
"""
