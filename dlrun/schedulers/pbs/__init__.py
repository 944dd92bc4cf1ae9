"""The PBS family: `openpbs` and `torque` are the back ends, each with its directives.

`components` are nodes of several types in one job of OpenPBS. Common to both: `clients` (ids, qdel, qhold, rejections),
`directives` (`#PBS` lines), `qstat` and `states` (output of qstat).
"""
