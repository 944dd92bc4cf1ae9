"""Schedulers: build directives and argument lists, parse what clients print; run nothing.

Begin with `protocol`. `slurm`, `pbs` and `local` have the back ends, a family in a folder;
`directive_list`, `refusals` and `numbers` serve all.
"""
