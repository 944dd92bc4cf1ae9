"""Schedulers: directives, argument lists and parsers of client output; no module here runs a program.

Begin with `protocol`. `slurm`, `pbs`, `flux`, `gridengine` and `local` are the back ends, one folder per family;
`directive_list`, `options` and `refusals` are common to all.
"""
