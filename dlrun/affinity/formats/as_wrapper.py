"""A bash script that binds a rank, sets its memory policy and variables, and `exec`s its command.

It reads the local rank from the variables of all known launchers, whose own binding must be off. The binding code is the
same as in jobs (`templates/lib/bind.sh`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dlrun.affinity.formats import as_env
from dlrun.affinity.settings import BindingContext, RankVariable, at_run_time, settings, visibility
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.binding_variables import COUNT_CORES, NAME_CORES
from dlrun.render.grant import grant_words
from dlrun.render.shell import quote

NOTE = (
    "start it before the command with the launcher's own binding off: `srun --cpu-bind=none`, "
    "`mpirun --bind-to none` (Open MPI), `-bind-to none` (MPICH), `I_MPI_PIN=0`"
)
HEAD = """\
#!/usr/bin/env bash
# Binds a rank to its cores and memory, then runs the command: ./bind.sh COMMAND [ARGUMENT...]
set -uo pipefail

"""
IDENTIFY = """\

# --- Local rank ---

dlrun_find_local_rank
"""

TAIL = """\
'')
  echo "dlrun: no launcher has set a local rank; start it as in: srun $0 COMMAND" >&2
  exit 2
  ;;
*)
  echo "dlrun: local rank $DLRUN_LOCAL_RANK is not one of the {count} that were placed" >&2
  exit 2
  ;;
esac
"""


def emit(placement: Placement, _topology: Topology, job: BindingContext) -> str:
    """The script for all ranks; variables set by the user (`job.given`) are not changed."""
    return HEAD + _library(job) + IDENTIFY + _body(placement, job, placement.ranks)


def for_rank(
    placement: Placement, job: BindingContext, rank: RankPlacement, variable: str | None = None
) -> str:
    """The script for one known rank; `variable` is the launcher's with the local rank, None without a launcher."""
    known = f"\nDLRUN_LOCAL_RANK={rank.rank}\n_dlrun_rank_name={variable or ''}\n"
    return HEAD + _library(job) + known + _body(placement, job, [rank])


def _library(job: BindingContext) -> str:
    return re.sub(r"(?m)^# shellcheck .*\n", "", job.library)


def _body(placement: Placement, job: BindingContext, ranks: Sequence[RankPlacement]) -> str:
    variables = settings(placement, at_run_time(placement, job))
    mine = [setting for setting in variables if setting.name not in COUNT_CORES]
    shown = visibility(placement, job)
    lines = [f"dlrun_find_local_size {len(placement.ranks)}", ""]
    lines += ["# --- Cores, memory, GPUs and adapter of each rank " + "-" * 70, ""]
    lines += [as_env.export(setting) for setting in mine if setting.rank is None]
    lines.append(f"dlrun_grant {' '.join(map(quote, grant_words(placement, shown)))}")
    lines.append("case $DLRUN_LOCAL_RANK in")
    for rank in ranks:
        lines += _case(rank, [setting for setting in mine if setting.rank == rank.rank], shown)
    lines += TAIL.format(count=len(placement.ranks)).rstrip("\n").split("\n")
    lines.append("export DLRUN_CPUS=$_dlrun_cpus  # the CPUs of the rank")
    lines += [f"export {name}=$DLRUN_THREADS" for name in _names(variables, COUNT_CORES)]
    if named := [name for name in _names(variables, NAME_CORES) if name not in _OTHER]:
        lines.append(f"dlrun_fit_cores {' '.join(named)}  # their values are core ids of the plan")
    lines.append('exec ${_dlrun_memory[@]+"${_dlrun_memory[@]}"} "$@"')
    return "\n".join(lines) + "\n"


_OTHER = ("DLRUN_COMM_CPUS", "DLRUN_LOADER_CPUS")
"""The arguments of `dlrun_other_cores`."""


def _names(variables: Iterable[RankVariable], of: frozenset[str]) -> list[str]:
    return list(dict.fromkeys(setting.name for setting in variables if setting.name in of))


def _case(rank: RankPlacement, own: list[RankVariable], shown: str | None) -> list[str]:
    memory = rank.memory.numactl()
    lines = [f"{rank.rank})"]
    if rank.comm or rank.loader:
        values = {setting.name: setting.value for setting in own}
        lines.append(f"  dlrun_other_cores {' '.join(quote(values.get(name, '')) for name in _OTHER)}")
    for setting in own:
        if setting.name in _OTHER:
            continue
        if setting.name == "DLRUN_CPUS":
            words = ["dlrun_bind", str(rank.threads), setting.value, *([quote(memory)] if memory else [])]
            lines.append(f"  {' '.join(words)}  # {setting.because}")
        elif setting.name == shown:
            lines.append(f"  dlrun_show_gpus {setting.name} {setting.value}  # {setting.because}")
        else:
            lines.append(f"  {as_env.export(setting)}")
    return [*lines, "  ;;"]
