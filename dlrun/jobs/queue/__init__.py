"""Submitted jobs: state, control, results.

`selection` parses `JOB:POINTS`, `status` queries any number of jobs at once, `attempts` finds reruns, `recover` completes
interrupted submissions. `control` cancels, holds and releases jobs, `rerun` and `replan` submit them again, `watch` waits
for their end, `results` reads their logs.
"""
