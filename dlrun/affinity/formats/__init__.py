"""A placement as options or variables of tools: `registry` finds a format, each `as_*` module is one.

`logical` has hwloc's logical core numbers, which some formats need.
"""

FORMATS = (
    "env",
    "wrapper",
    "srun",
    "openmpi",
    "rankfile",
    "intelmpi",
    "hydra",
    "pals",
    "flux",
    "numactl",
    "json",
)
"""Names of the formats for `tune-affinity --format`; each is a module `as_NAME`."""
