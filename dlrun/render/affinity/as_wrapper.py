"""A bash script that binds a rank, sets its memory policy and variables, and becomes its command.

It finds its local rank in the variable of whichever launcher started it, so one script serves all of
them; start it with the launcher's own binding off.
"""

from __future__ import annotations

import re
import shlex

from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.affinity import as_env, as_numactl
from dlrun.render.affinity.formats import RankView
from dlrun.render.affinity.settings import Job, Setting, settings

NOTE = (
    "start it before the command with the launcher's own binding off: `srun --cpu-bind=none`, "
    "`mpirun --bind-to none` (Open MPI), `-bind-to none` (MPICH), `I_MPI_PIN=0`"
)
SAYS = (*as_env.SAYS, "memory")

HEAD = """\
#!/usr/bin/env bash
# Binds a rank to its cores and memory, then runs the command: {name} COMMAND [ARGUMENT...]
set -euo pipefail
local_rank=${{DLRUN_LOCAL_RANK:-${{SLURM_LOCALID:-${{OMPI_COMM_WORLD_LOCAL_RANK:-\
${{MPI_LOCALRANKID:-${{PALS_LOCAL_RANKID:-${{LOCAL_RANK:-}}}}}}}}}}}}
"""

TAIL = """\
*)
  echo "bind: local rank '$local_rank' is not one of the {count} that were placed" >&2
  exit 2
  ;;
esac
policy=()
if [[ -n $memory ]] && command -v numactl >/dev/null; then
  policy=(numactl "$memory" --)
elif [[ -n $memory ]]; then
  echo "bind: numactl is not here: memory policy $memory left out" >&2
fi
exec taskset --cpu-list "$DLRUN_CPUS" "${{policy[@]}}" "$@"
"""


def emit(placement: Placement, _topology: Topology, job: Job) -> str:
    """The script; a variable that is set where it runs is left alone by the caller's `job.given` only."""
    found = settings(placement, job)
    lines = [HEAD.format(name="./bind.sh").rstrip("\n")]
    lines += [as_env.export(setting) for setting in found if setting.rank is None]
    lines.append("case $local_rank in")
    for rank in placement.ranks:
        lines += _case(rank, [setting for setting in found if setting.rank == rank.rank])
    return "\n".join(lines) + "\n" + TAIL.format(count=len(placement.ranks))


def _case(rank: RankPlacement, own: list[Setting]) -> list[str]:
    memory = shlex.quote(as_numactl.memory_option(rank.memory))
    return [
        f"{rank.rank})",
        *(f"  {as_env.export(setting)}" for setting in own),
        f"  memory={memory}",
        "  ;;",
    ]


def parse(text: str, topology: Topology) -> tuple[RankView, ...]:
    """What each branch of the script sets."""
    common: dict[str, str] = {}
    ranks: list[dict[str, str]] = []
    memories = []
    for line in text.splitlines():
        if re.fullmatch(r"\d+\)", line):
            ranks.append({})
        elif match := as_env.LINE.fullmatch(line):
            (ranks[-1] if ranks else common)[match[1]] = " ".join(shlex.split(match[2]))
        elif match := re.fullmatch(r"  memory=(.*)", line):
            words = f"taskset --cpu-list 0 {' '.join(shlex.split(match[1]))}"
            memories.append(as_numactl.parse(words, topology)[0]["memory"])
    found = as_env.views(common, ranks, topology)
    return tuple({**rank, "memory": memory} for rank, memory in zip(found, memories, strict=True))
