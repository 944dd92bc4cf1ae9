"""Plan -> text: the job's scripts and the plan as JSON (`script`), with shell quoting (`shell`). Pure.

`grant` renders which of a node's cores and GPUs a job has been granted.
"""
