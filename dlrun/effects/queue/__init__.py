"""Submitted jobs: state, control, results.

`selection` parses `JOB:RUNS`, `status` queries any number of jobs at once; `attempts` finds reruns, `recover` completes
interrupted submissions; `control`, `rerun`, `watch` and `results` implement the commands of these names.
"""
