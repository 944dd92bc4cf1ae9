"""Schedulers: build directives and argument lists, parse what clients print; run nothing.

Begin with `protocol`. `slurm`, `openpbs`, `torque` and `local` are the back ends; `slurm_*`, `pbs_*` and `qstat` are their
parts, `directive_list` and `refusals` serve all.
"""
