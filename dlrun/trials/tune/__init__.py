"""`dlrun tune`: short runs of a training with different settings, in one allocation.

`command` is the command line, with `output` and `progress`. `record` is the directory (settings, candidates, trials),
`begin` creates one from a spec, `run` runs all trials in this process, and `allocation` submits a job that does so. Pure:
`candidates` (settings worth a trial) and `race` (next trial, and result).
"""
