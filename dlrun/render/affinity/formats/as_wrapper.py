"""A bash script that binds a rank, sets its memory policy and variables, and becomes its command.

It finds its local rank in the variable of whichever launcher started it, so one script serves all of
them; start it with the launcher's own binding off.
"""

from __future__ import annotations

import shlex

from dlrun.model.local_rank import LOCAL_RANK, STEP
from dlrun.model.placement import Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.affinity.formats import as_env, as_numactl
from dlrun.render.affinity.settings import Job, Setting, settings

NOTE = (
    "start it before the command with the launcher's own binding off: `srun --cpu-bind=none`, "
    "`mpirun --bind-to none` (Open MPI), `-bind-to none` (MPICH), `I_MPI_PIN=0`"
)

HEAD = """\
#!/usr/bin/env bash
# Binds a rank to its cores and memory, then runs the command: {name} COMMAND [ARGUMENT...]
set -euo pipefail
dlrun_local_rank= # as the innermost launcher counts: it hands on the variables of those around it unchanged
for dlrun_name in {names}; do
  if [[ ${{!dlrun_name-}} =~ ^[0-9]+$ && ($dlrun_name != SLURM_LOCALID || -n ${{{step}-}}) ]]; then
    dlrun_local_rank=${{!dlrun_name}}
    break
  fi
done
"""

TAIL = """\
'')
  echo "dlrun: no launcher has set a local rank; start it as in: srun $0 COMMAND" >&2
  exit 2
  ;;
*)
  echo "dlrun: local rank $dlrun_local_rank is not one of the {count} that were placed" >&2
  exit 2
  ;;
esac
dlrun_policy=()
if [[ -n $dlrun_memory ]] && command -v numactl >/dev/null; then
  dlrun_policy=(numactl "$dlrun_memory" --)
elif [[ -n $dlrun_memory ]]; then
  echo "dlrun: numactl is not installed: memory policy $dlrun_memory is left out" >&2
fi
exec taskset --cpu-list "$DLRUN_CPUS" "${{dlrun_policy[@]}}" "$@"
"""


def emit(placement: Placement, _topology: Topology, job: Job) -> str:
    """The script; a variable that is set where it runs is left alone by the caller's `job.given` only."""
    found = settings(placement, job)
    lines = [HEAD.format(name="./bind.sh", names=" ".join(LOCAL_RANK), step=STEP).rstrip("\n")]
    lines += [as_env.export(setting) for setting in found if setting.rank is None]
    lines.append("case $dlrun_local_rank in")
    for rank in placement.ranks:
        lines += _case(rank, [setting for setting in found if setting.rank == rank.rank])
    return "\n".join(lines) + "\n" + TAIL.format(count=len(placement.ranks))


def _case(rank: RankPlacement, own: list[Setting]) -> list[str]:
    memory = shlex.quote(as_numactl.memory_option(rank.memory))
    return [
        f"{rank.rank})",
        *(f"  {as_env.export(setting)}" for setting in own),
        f"  dlrun_memory={memory}",
        "  ;;",
    ]
