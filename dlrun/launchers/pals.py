"""HPE's Parallel Application Launch Service: `mpiexec` on Cray systems under PBS, such as Polaris and Aurora.

Options and variables as in argonne-lcf/user-guides@7d04a3f9 (docs/polaris/running-jobs, docs/aurora/running-jobs-aurora.md).
It copies the environment to every rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "pals"
IDENTITY = Identity(
    rank=Shell("$PMI_RANK"),
    local_rank=Shell("${PALS_LOCAL_RANKID:-$PMI_LOCAL_RANK}"),
    local_size=Shell("${PALS_LOCAL_SIZE:-${PMI_LOCAL_SIZE-}}"),
    node=Shell("${PALS_NODEID-}"),
)
MPI = True
CHOOSES_NODES = False
PROGRAMS = ("mpiexec.pals", "mpiexec")
VERSION = r"PALS|Cray"


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`mpiexec` over the job's host list, unbound unless the launcher is to bind."""
    # `none` is explicit, because PALS has a binding of its own by default.
    bind = (
        ("--cpu-bind", "depth", "--depth", str(step.cpus))
        if step.bound and step.cpus
        else ("--cpu-bind", "none")
    )
    return (
        Text.of(site.program or "mpiexec"),
        *map(Text.of, ("-n", str(step.count), "--ppn", str(step.per_node), "--hostfile")),
        Text.of(Shell("$DLRUN_HOSTS"), "-first" if step.first_only else ""),
        *map(Text.of, (*bind, *site.arguments)),
    )
