"""A placement in the words of each tool that can apply it: `registry` finds a format, each `as_*` module is one.

`logical` has hwloc's core numbers for the formats that need them.
"""
