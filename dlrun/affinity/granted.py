"""The placement of ranks on what was granted of this machine: the plan of the whole node, or what the library that binds ranks
(`templates/lib/divide.sh`) makes of the grant. It is asked, so that a table and `--verify` have what `--exec` does."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace

from dlrun.affinity.actions import PlacementTask
from dlrun.affinity.bind import launcher_variable, library, local_rank, rank_of
from dlrun.affinity.execute import for_grant, node_of, shown_gpus
from dlrun.affinity.settings import BindingContext, visibility
from dlrun.errors import OperationFailed
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import AppliedRule, MemoryBinding, Placement, RankPlacement
from dlrun.model.topology import Topology
from dlrun.render.grant import grant_words
from dlrun.render.shell import quote

_ASK = r"""
_dlrun_taskset() { :; }
_dlrun_note_node() { printf 'note|%s\n' "$1"; }
_dlrun_record_division() { # called with what dlrun_grant has found out
  local rank name names=() visible=() position
  printf 'grant|%s|%s|%s|%s\n' "$_dlrun_allowed_list" "$DLRUN_THREADS" "$_dlrun_alone" "$_dlrun_cpus"
  IFS=, read -ra names <<<"$_dlrun_gpu_names"
  if [[ -n $_dlrun_gpus_by ]]; then IFS=, read -ra visible <<<"${!_dlrun_gpus_by-}"; fi
  for name in ${names[@]+"${names[@]}"}; do
    position=${_dlrun_gpu_index[$name]-}
    for rank in ${visible[@]+"${!visible[@]}"}; do
      if [[ -z $position && ${visible[rank]} == "$name" ]]; then position=$rank; fi
    done
    printf 'gpu|%s\n' "${position:-0}"
  done
  for ((rank = 0; rank < DLRUN_LOCAL_SIZE; rank++)); do
    printf 'rank|%s|%s|%s\n' "${cpus_of[rank]-}" "${comm_of[rank]-}" "${loader_of[rank]-}"
  done
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """What the library answers: CPU list and threads, and for each rank its CPUs, communication and loader cores as lists.

    gpus: those of all ranks in order, empty where the plan's count; own: the CPUs of this rank where those of the others are
    unknown; notes: its lines for the log.
    """

    granted: str
    threads: int
    own: str
    ranks: tuple[tuple[str, str, str], ...]
    gpus: tuple[int, ...]
    notes: tuple[str, ...]


def placed(task: PlacementTask) -> Placement:
    """The placement that `--exec` has: on another node and where all was granted, the plan.

    Raises Invalid if the request cannot be met, OperationFailed without bash.
    """
    here = task.start.live or task.options["verify"] or task.options["measure"]
    if not here:
        return task.placement()
    number, node = local_rank(), node_of(task)
    placement = for_grant(task, node, alone=number is None)
    if number is not None:
        rank_of(placement, number)
    division = _ask(task, placement, number)
    return placement if division is None else divided(placement, node, division, number or 0)


def printed(task: PlacementTask) -> Placement:
    """The placement to print: the wrapper divides the grant itself, where it runs, and starts from the plan of the whole node."""
    if task.start.live and task.options["form"] == "wrapper" and not task.options["explain"]:
        return for_grant(task, node_of(task), alone=local_rank() is None)
    return placed(task)


def _ask(task: PlacementTask, placement: Placement, number: int | None) -> Division | None:
    """The library's answer; None if ranks have the plan's cores and GPUs."""
    script = question(placement, task.job, number, launcher_variable())
    environment = {**os.environ, **shown_gpus(task, placement)}
    try:
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reason = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else error.strerror
        raise OperationFailed(f"bash cannot find out what was granted: {reason}") from None
    return answer(done.stdout)


def question(placement: Placement, job: BindingContext, number: int | None, variable: str | None) -> str:
    """The script that asks: as local rank `number` by the launcher's `variable`, None without a launcher."""
    words = grant_words(placement, visibility(placement, job))
    lines = ["set -uo pipefail", library(), f"DLRUN_LOCAL_RANK={number or 0}"]
    lines += [f"_dlrun_rank_name={variable or ''}", _ASK, f"dlrun_find_local_size {len(placement.ranks)}"]
    return "\n".join([*lines, f"dlrun_grant {' '.join(map(quote, words))}", ""])


def answer(text: str) -> Division | None:
    """What the script has printed; None if ranks have the plan's cores and GPUs."""
    lines = [line.split("|") for line in text.splitlines()]
    grants = [words for kind, *words in lines if kind == "grant"]
    if not grants:
        return None
    ((granted, threads, alone, cpus),) = grants
    return Division(
        granted=granted,
        threads=int(threads),
        own=cpus if alone else "",
        ranks=tuple((words[0], words[1], words[2]) for kind, *words in lines if kind == "rank"),
        gpus=tuple(int(words[0]) for kind, *words in lines if kind == "gpu"),
        notes=tuple("|".join(words) for kind, *words in lines if kind == "note"),
    )


def divided(placement: Placement, node: Topology, division: Division, number: int) -> Placement:
    """The plan with what its ranks have of the grant; `number` is this process's local rank."""
    ranks = [
        _rank(placement.ranks[min(i, len(placement.ranks) - 1)], i, node, division)
        for i in range(len(division.ranks))
    ]
    if division.own:  # the others have what only they can see
        ranks[number] = _on(ranks[number], node, parse_list(division.own))
    cores = node.cores_of(parse_list(division.granted))
    used = {core.pus for rank in ranks for core in node.cores_of((*rank.mask, *rank.comm, *rank.loader))}
    notes = list(division.notes)
    if idle := len(cores) - len(used):
        notes.append(
            f"{idle} of {len(cores)} granted cores stay idle ({100 * idle / len(cores):.0f} %): all ranks have equally many, "
            "and none crosses a NUMA node or leaves its GPUs for more"
        )
    return replace(
        placement,
        node=replace(placement.node, usable_cores=len(cores)),
        ranks=tuple(ranks),
        warnings=tuple(notes),
        steps=(*placement.steps, *(AppliedRule(rule="granted", because=note) for note in division.notes)),
    )


def _rank(planned: RankPlacement, number: int, node: Topology, division: Division) -> RankPlacement:
    cpus, comm, loader = (parse_list(text) for text in division.ranks[number])
    each = len(division.gpus) // len(division.ranks)
    siblings = tuple(
        tuple(pu for pu in core.pus if pu != cpu) for cpu in comm for core in node.cores_of((cpu,))
    )
    rank = replace(
        planned,
        rank=number,
        threads=division.threads,
        comm=comm,
        comm_siblings=siblings,
        loader=loader,
        gpus=division.gpus[number * each : (number + 1) * each] if each else planned.gpus,
        memory=MemoryBinding(),
        spare=(),
    )
    # With fewer cores than ranks, all ranks have all of them.
    return _on(rank, node, cpus or parse_list(division.granted))


def _on(rank: RankPlacement, node: Topology, mask: tuple[int, ...]) -> RankPlacement:
    """The rank with these hardware threads."""
    cores = node.cores_of(mask)
    return replace(
        rank,
        cores=tuple(sorted(min(pu for pu in core.pus if pu in mask) for core in cores)),
        mask=tuple(sorted(mask)),
        numa=tuple(sorted({core.numa for core in cores})),
    )
