"""Slurm: `slurm` is the back end; `directives` writes `#SBATCH` lines and checks them by `rules`.

`components` are jobs with nodes of several types, `states` parses squeue and sacct, `refusals` has the help for rejections.
"""
