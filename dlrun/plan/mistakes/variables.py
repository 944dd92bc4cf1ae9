"""Variables of the spec that reach no library, or that take each rank's own value away from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun import backends
from dlrun.fabrics.known_variables import misspelt
from dlrun.frameworks.protocol import Role
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text, digits, lazy_pattern
from dlrun.model.topology import VISIBILITY
from dlrun.plan import reserved_names
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_OF_A_RANK = lazy_pattern(r"DLRUN_(?:LOCAL_RANK|NODE_RANK|RANK|OWN_ADDRESS)\b")
"""Expansions that differ between ranks."""
_SIZE = lazy_pattern(r"(?:^|_)(?:SIZE|TRAINERS_NUM)$")
"""Variables with a number of ranks; other constants, such as a choice of a library, are the user's to change."""
_OF_SCHEDULER = lazy_pattern(
    r"SLURM_(?:NTASKS(?:_PER_NODE)?|NPROCS|NNODES|JOB_NUM_NODES|PROCID|LOCALID|NODEID|JOB_ID|JOBID|(?:JOB_)?NODELIST)|"
    r"PBS_(?:JOBID|NODEFILE|NODENUM|TASKNUM)|OMPI_COMM_WORLD_\w+|PMIX?_(?:RANK|SIZE)|MPI_LOCAL\w+"
)
"""Variables with which a scheduler or launcher describes the job to its own programs."""
_OF_A_NODE = ("NODE_RANK", "GROUP_RANK", "MACHINE_RANK")
_BY_DLRUN = ("RAY_ADDRESS",)
_SHARED = ("MASTER_ADDR", "MASTER_PORT")
"""Variables of the rendezvous that are the same for all ranks, but known only when the job runs."""


def check(
    spec: Spec, site: Site, layout: Layout, roles: Sequence[Role], values: Mapping[str, Text], ledger: Ledger
) -> None:
    """Add a problem for each variable of the spec (`values`: its value) that is misspelt, reserved, or for dlrun to set."""
    reserved_names.check(spec, site, ledger)
    for name in (*spec.environment.variables, *spec.environment.drop):
        if (correction := misspelt(name)) is not None:
            library, near = correction
            ledger.problem(
                "DLR120", f"`{name}` is not a variable of {library}, which ignores it", f"environment.variables.{name}",
                "environment.drop", help=f"the nearest is `{near}`", warning=True,
            )  # fmt: skip
    for name in values:
        if _OF_SCHEDULER.fullmatch(name):
            ledger.problem(
                "DLR121", f"`{name}` is set by the scheduler or the launcher, and their programs in the job read it",
                f"environment.variables.{name}", help="remove it; sizes are under `resources:`", warning=True,
            )  # fmt: skip
        elif name in _OF_A_NODE and digits(values[name].literal or ""):
            ledger.problem(
                "DLR121", f"`{name}: {values[name].literal}` gives all nodes the same value", f"environment.variables.{name}",
                help=f"remove it, or write `{name}: \"{{{{ node_rank }}}}\"`", warning=True,
            )  # fmt: skip
    for role in roles:
        for setting in (variable for variable in role.variables if variable.name in values):
            if role.place == "rank":
                _own(setting.name, Text.of(setting.value), values[setting.name], ledger)
            elif setting.name in _BY_DLRUN:
                ledger.problem(
                    "DLR121", f"`{setting.name}` is set by hand, so it is not that of this job",
                    f"environment.variables.{setting.name}",
                    help=f"remove it: dlrun sets `{setting.name}` when the job starts", warning=True,
                )  # fmt: skip
    if layout.ranks_per_node > 1 or not backends.scheduler(site.scheduler.type).ON_THIS_MACHINE:
        for name in (*VISIBILITY.values(), "HIP_VISIBLE_DEVICES"):
            if name in values and values[name].literal not in (None, "", "-1"):
                ledger.problem(
                    "DLR122", f"`{name}` is set by hand, to the same GPUs for all ranks of a node",
                    f"environment.variables.{name}",
                    help="remove it: with `gpus_per_node` the job gets its GPUs, and each rank its own",
                    warning=True,
                )  # fmt: skip


def _own(name: str, own: Text, value: Text, ledger: Ledger) -> None:
    """Check a variable that dlrun sets for each rank and the spec sets, too: then dlrun leaves the spec's value."""
    written = value.literal
    if written is None or written == own.literal:
        return
    key = f"environment.variables.{name}"
    if own.literal is not None and _SIZE.search(name):
        ledger.problem(
            "DLR121", f"`{name}: {written}` is not the value of this job, which is {own.literal}", key,
            help=f"remove it: dlrun sets `{name}` from `resources`",
        )  # fmt: skip
    elif name in _SHARED:
        ledger.problem(
            "DLR121", f"`{name}` is set by hand, so it is not the node of this job's rank 0 and a free port on it", key,
            help=f"remove it: dlrun sets `{name}` when the job starts", warning=True,
        )  # fmt: skip
    elif any(isinstance(part, Shell) and _OF_A_RANK.search(part.code) for part in own.parts):
        ledger.problem(
            "DLR121", f"`{name}: {written}` gives all ranks the same value, but each rank needs its own", key,
            help=f"remove it: dlrun sets `{name}` in each rank",
        )  # fmt: skip
