"""Jobs, from a plan to their results: all that touches job directories and schedulers.

Read in this order: `submission` (from spec to submission), `records` (job directories), `clusters` (a scheduler's clients),
`queue` (submitted jobs), `logs`; then `remote` (jobs on a login node) and `running` (`dlrun run`: jobs in this shell's
allocation or on this machine). `staging` serves `dlrun stage-data`, `explain` the command of that name.
"""
