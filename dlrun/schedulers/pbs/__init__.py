"""The PBS family: `openpbs` and `torque` are back ends, each with its own directives.

What they share: `clients` (ids, qdel, qhold, refusals), `directives` (`#PBS` lines), `qstat` and `states` (its output).
"""
