"""Jobs that were handed over: their state, their control, their results.

`selection` reads `JOB:RUNS`, `status` asks about any number of jobs at once; `control`, `rerun`, `watch` and `results` serve
the commands that are named so.
"""
