"""Intel MPI's mpiexec.hydra, with its own binding turned off, because `rank.sh` binds the ranks.

`I_MPI_PIN=0` also removes `I_MPI_PIN_INFO`, from which oneCCL derives the affinity of its workers; dlrun therefore always
sets it from the placement. Under Slurm, `-ppn` is ignored unless
`I_MPI_JOB_RESPECT_PROCESS_PLACEMENT=0` (Intel MPI Developer Reference, Hydra environment variables).
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers import hydra
from dlrun.launchers.protocol import Step
from dlrun.model.plan import Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text

NAME = "intelmpi"
IDENTITY = hydra.IDENTITY
UNSET = (*hydra.UNSET, "I_MPI_PIN_DOMAIN", "I_MPI_PIN_PROCESSOR_LIST")
MPI = True
LIBRARIES = ("intel-mpi",)
PROGRAMS = ("mpirun", "mpiexec", "mpiexec.hydra")
VERSION = r"Intel\(R\) MPI"
_REFERENCE = "Intel MPI Library Developer Reference"

UNPINNED = Variable(
    name="I_MPI_PIN",
    value=Text.of("0"),
    rule="launcher-unbound",
    because="ranks are started unbound; rank.sh binds them",
    source=_REFERENCE,
)
"""Intel MPI's own binding off; also used by other launchers that start its ranks."""


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`mpiexec.hydra` over the job's host list; Intel MPI's pinning is on only where the launcher binds (`bind: scheduler`)."""
    # `-genv` overrides I_MPI_PIN=0 of `variables`, which holds for every other step of the job.
    return hydra.arguments(step, site, ("-genv", "I_MPI_PIN", "1") if step.bound else ())


def variables(site: LauncherSite) -> Sequence[Variable]:
    """Pinning off, and `-ppn` of the command line in force under every scheduler."""
    return (
        UNPINNED,
        Variable(
            name="I_MPI_JOB_RESPECT_PROCESS_PLACEMENT",
            value=Text.of("0"),
            rule="launcher-layout",
            because="makes -ppn take precedence over the layout of the scheduler",
            source=_REFERENCE,
        ),
    )
