"""A placement as options or variables of tools: `registry` finds a format, each `as_*` module is one.

`logical` has hwloc's logical core numbers, which some formats need.
"""
