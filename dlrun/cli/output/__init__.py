"""Output of commands: tables (`table`; `terminal` draws them), progress (`bar`), JSON (`json`).

`summary` is a plan as a page, `cost` what a job costs, `colour` decides whether there is any.
"""
