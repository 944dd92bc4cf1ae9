"""Jobs that were handed over: their state, their control, their results.

`selection` reads `JOB:RUNS`, `status` asks about any number of jobs at once; `attempts` about those that ran
again, `recover` about those whose submission broke off; `control`, `rerun`, `watch` and `results` serve
the commands that are named so.
"""
