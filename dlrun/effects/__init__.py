"""Effects: all code with access to files, processes, connections and schedulers.

Read in this order: `inputs` (spec and profiles), `jobs` (from spec to submission), `records` (job directories), `clusters`
(a scheduler's clients), `queue` (submitted jobs), `logs`, `diagnosis`; then `remote` with `transport` (jobs on a login
node). `site`, `site_test`, `affinity`, `verify`, `scaling`, `tuning`, `usage`, `staging`, `report` and `explain` each serve one
command. `process` runs programs, `paths` reads files named by users, `signals` delays signals.
"""
