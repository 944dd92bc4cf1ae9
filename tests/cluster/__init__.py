"""A real multi-node Slurm, OpenPBS, Flux or Grid Engine on one machine, every host in namespaces of its own.

`with Cluster(ClusterSpec(), name="mine") as cluster:` and then
`cluster.on("login", ["srun", "-N4", "hostname"])`.
"""

from __future__ import annotations

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError
from tests.cluster.flux import why_not as why_no_flux
from tests.cluster.gridengine import why_not as why_no_gridengine
from tests.cluster.install import install, why_not
from tests.cluster.pbs import why_not as why_no_pbs
from tests.cluster.spec import Account, ClusterSpec, NodeType, Partition, Qos, lumi_g_like

__all__ = [
    "Account",
    "Cluster",
    "ClusterError",
    "ClusterSpec",
    "NodeType",
    "Partition",
    "Qos",
    "install",
    "lumi_g_like",
    "why_no_flux",
    "why_no_gridengine",
    "why_no_pbs",
    "why_not",
]
