"""Data sets brought to nodes by hand: `plan` (what a job would stage), `run` (here or in an allocation)."""
