"""`dlrun site test`: small jobs that compare each fact of a profile with the nodes and the scheduler.

Read `fact` (the verdict on a key), `places` (the jobs), `cost` (their cost), `job` (one job), `answers` (output of nodes),
then the pure comparisons `hardware`, `surroundings` and `limits`; `run` combines them, and
`recorded` writes what holds.
"""
