"""The PBS family: `openpbs` and `torque` are the back ends, each with its directives.

Common to both: `clients` (ids, qdel, qhold, rejections), `directives` (`#PBS` lines), `qstat` and `states` (output of qstat).
"""
