"""Schedulers: directives, argument lists and parsers of client output; no module here runs a program.

Begin with `protocol`. The back ends are `local` and the folders, one per family;
`directive_list`, `options` and `refusals` are common to all.
"""
