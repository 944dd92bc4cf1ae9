"""`dlrun tune`: short runs of a training with different settings, in one allocation.

`tuning` is the directory (settings, candidates, trials), `begin` creates one from a spec, `trial` runs one trial, `race`
runs all in this process, and `allocation` submits a job that does so.
"""
