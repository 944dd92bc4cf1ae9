"""Slurm: `slurm` is the back end; `directives` writes `#SBATCH` lines within `rules`, `states` reads squeue and sacct.

`refusals` has what sbatch and its fellows print when they refuse, with advice.
"""
