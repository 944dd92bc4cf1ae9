"""Plan -> text: the job's pages and the plan as JSON (`script`), quoted for the shell (`shell`). Pure.

`affinity` writes placements, `scaling` scaling studies.
"""
