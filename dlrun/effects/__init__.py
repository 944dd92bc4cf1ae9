"""Everything that touches the world: files, processes, connections, jobs.

Read in this order: `inputs` (what a user wrote), `jobs` (from spec to submission), `records` (job directories), `clusters`
(a scheduler's clients), `queue` (submitted jobs), `logs`, `diagnosis`; then `remote` with `transport` (the same on a login
node). `site`, `site_test`, `affinity`, `verify`, `scaling`, `tuning`, `usage`, `staging`, `report` and `explain` each serve one
command. `process` runs programs.
"""
