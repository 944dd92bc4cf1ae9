"""Plan -> text: the job's scripts and the plan as JSON (`script`), with shell quoting (`shell`). Pure.

`affinity` renders placements, `scaling` scaling studies, `job_page` the HTML page of a job.
"""
