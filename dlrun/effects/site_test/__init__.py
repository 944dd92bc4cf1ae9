"""`dlrun site test`: small jobs that hold each fact of a profile against the nodes and the scheduler.

Read `fact` (a verdict on one key), `places` (which jobs), `job` (one of them), `answers` (what nodes printed), then the
comparisons, which are pure: `hardware`, `surroundings` and `limits`; `run` does all of it.
"""
