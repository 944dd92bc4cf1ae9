"""`dlrun tune`: short runs of a training under different settings, in one allocation.

`tuning` is the directory (settings, candidates, trials), `begin` makes one from a spec, `trial` runs one trial, `race` runs them
all where it stands, and `allocation` submits a job that does so.
"""
