"""Plan -> text: the job script, the rank script, the plan as JSON. Pure."""
