"""TACC's `ibrun`, which starts ranks in the layout of the `#SBATCH` lines.

As in TACC/TACC-Docs@1d94ecf (docs/hpc/stampede3.md, docs/hpc/frontera/ml.md): `-n` and `-o` select a part of that layout. So a
role has either as many processes per node as there are ranks, or one (`TACC_TASKS_PER_NODE=1`, docs/hpc/vista.md, NVIDIA MPS).
The MPIs under it bind ranks by default; `rank.sh` binds them again by the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers import hydra, intelmpi
from dlrun.launchers.protocol import Step
from dlrun.model.plan import Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text

NAME = "ibrun"
IDENTITY = hydra.IDENTITY
MPI = True
CHOOSES_NODES = False
ONE_LAYOUT = True
PROGRAMS = ("ibrun",)


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`ibrun -n COUNT -o 0`; one process per node in a job of several ranks per node also sets TACC_TASKS_PER_NODE."""
    one_each = step.nodes > 1 and step.per_node == 1 and (step.ranks_per_node or 1) > 1
    words = (
        *(("env", "TACC_TASKS_PER_NODE=1") if one_each else ()),
        *(site.program or "ibrun", "-n", str(step.count), "-o", "0", *site.arguments),
    )
    return tuple(map(Text.of, words))


def variables(site: LauncherSite) -> Sequence[Variable]:
    """Intel MPI's pinning off, as under mpiexec.hydra."""
    return (intelmpi.UNPINNED,)
