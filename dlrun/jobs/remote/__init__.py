"""Jobs on login nodes: each step is one exchange over a transport, which may be interrupted at any point.

Begin with `submit`: for a login node (`destination`) it queries facts (`steps`), recognises the site (`site`) and
plans (`plan`), collects files (`files`), and submits or resumes by its record (`submission`, `record`); `recover` finds the
result of an interrupted submission. `copies` and `fetch` copy files of jobs; `confined` restricts writes to one directory.
"""
