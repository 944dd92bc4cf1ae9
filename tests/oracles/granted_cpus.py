"""The cores of each rank where a job was granted others than the plan's: the rule once more, from the plan and the grant alone.

    python -m tests.oracles.granted_cpus [NODE...]

Every subset of 12 cores in three nodes, for 1 to 4 ranks without and with communication and loader cores; and every mask of
one core, one NUMA node, one package and all that a launcher may have left a rank, under a launcher that is a process of the
user, Slurm, and a daemon of another user. Of each case one rank is asked, in turn: its own cores, and what it knows of all.
Prints the numbers of cases of each node and those that differ; ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dlrun.affinity.bind import library
from dlrun.model.cpuset import format_list, parse_list
from tests.oracles.batches import differ

SCRIPT = r"""
_dlrun_taskset() { :; }
_dlrun_system=$SYSTEM _dlrun_groups=$SYSTEM/groups
_dlrun_allowed_cpus() { # the case's, without what the kernel says of this process and its launcher
  local numbers=()
  _dlrun_allowed_list=$_dlrun_granted _dlrun_owner=$UID _dlrun_parent=1
  if [[ -n $own ]]; then _dlrun_allowed_list=$own; fi
  if (($#)); then _dlrun_allowed_list=$above; fi
  if [[ $launcher == daemon ]]; then _dlrun_owner=$((UID + 1)); fi
  _dlrun_expand "$_dlrun_allowed_list"
  allowed=("${numbers[@]}")
}
# What is read of the node is the same for all cases with one grant, and takes half of the time.
eval "_dlrun_first$(declare -f _dlrun_read_cores)"
_dlrun_read_cores() {
  if [[ ${allowed[*]} != "${last-}" ]]; then _dlrun_first_dlrun_read_cores; fi
  last=${allowed[*]}
}
_dlrun_record_division() { # what this rank has decided for all, in the form of a line
  local rank names per
  IFS=, read -ra names <<<"$_dlrun_gpu_names"
  per=$((${#names[@]} / DLRUN_LOCAL_SIZE))
  for rank in "${!cpus_of[@]}"; do
    printf -v gpus ',%s' ${names[@]+"${names[@]:rank*per:per}"}
    all+="|${cpus_of[rank]};$DLRUN_THREADS;${comm_of[rank]};${loader_of[rank]};${gpus#,}"
  done
}
whole=
declare -A _dlrun_gpu_name _dlrun_gpu_index
while IFS='|' read -r _dlrun_granted ranks DLRUN_LOCAL_SIZE only node visible launcher own above rows; do
  IFS='/' read -ra row <<<"$rows"
  line= all=
  if [[ -n $own ]]; then # the launcher has bound the rank: what was granted is in the files of the control group
    if [[ $_dlrun_granted != "$whole" ]]; then
      whole=$_dlrun_granted
      echo "$whole" >"$SYSTEM/groups/cpuset.cpus.effective"
      echo "$whole" >"$SYSTEM/groups/cpuset/cpuset.cpus"
    fi
    _dlrun_granted=
  fi
  SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=$above
  for ((DLRUN_LOCAL_RANK = ${only:-0}; DLRUN_LOCAL_RANK < ${only:-$DLRUN_LOCAL_SIZE-1} + 1; DLRUN_LOCAL_RANK++)); do
    _dlrun_shared= _dlrun_cpus= _dlrun_gpus= _dlrun_gpu_name=() _dlrun_gpu_index=()
    unset -v DLRUN_COMM_CPUS DLRUN_LOADER_CPUS CUDA_VISIBLE_DEVICES
    if [[ $visible != - ]]; then CUDA_VISIBLE_DEVICES=$visible; fi
    dlrun_grant "$ranks" $node
    IFS=';' read -r bind comm loader gpus <<<"${row[DLRUN_LOCAL_RANK]-}"
    if [[ -n $bind ]]; then
      dlrun_bind $bind
      dlrun_other_cores "$comm" "$loader"
      if [[ -n $gpus ]]; then dlrun_show_gpus CUDA_VISIBLE_DEVICES "$gpus"; fi
    fi
    line+="|$_dlrun_cpus;$DLRUN_THREADS;${DLRUN_COMM_CPUS-};${DLRUN_LOADER_CPUS-};${CUDA_VISIBLE_DEVICES-}"
  done
  line=${line#|}
  if [[ -n $only ]]; then line+=$all; fi
  echo "$line"
done 2>/dev/null
"""


@dataclass(frozen=True)
class Node:
    """A node of packages with NUMA nodes with cores, numbered in this order; second hardware threads come last."""

    packages: int
    numa: int
    cores: int
    threads: int

    @property
    def count(self) -> int:
        return self.packages * self.numa * self.cores

    def pus(self, core: int) -> list[int]:
        return [core + thread * self.count for thread in range(self.threads)]

    def list(self, cores: Iterable[int]) -> str:
        """The hardware threads of cores, as the kernel writes them."""
        return format_list(sorted(pu for core in cores for pu in self.pus(core)))

    def write(self, root: Path) -> None:
        """As the kernel shows it."""
        whole = [pu for core in range(self.count) for pu in self.pus(core)]
        (root / "cpu").mkdir(parents=True)
        (root / "groups" / "cpuset").mkdir(parents=True)
        (root / "cpu" / "online").write_text(format_list(sorted(whole)) + "\n")
        for core in range(self.count):
            domain = core // self.cores
            package = domain // self.numa
            per = self.numa * self.cores
            beside = [pu for other in range(package * per, (package + 1) * per) for pu in self.pus(other)]
            for pu in self.pus(core):
                place = root / "cpu" / f"cpu{pu}" / "topology"
                place.mkdir(parents=True)
                (place / "thread_siblings_list").write_text(format_list(self.pus(core)) + "\n")
                (place / "core_siblings_list").write_text(format_list(sorted(beside)) + "\n")
                (place / "physical_package_id").write_text(f"{package}\n")
        for domain in range(self.packages * self.numa):
            inside = [
                pu for core in range(domain * self.cores, (domain + 1) * self.cores) for pu in self.pus(core)
            ]
            (root / "node" / f"node{domain}").mkdir(parents=True)
            (root / "node" / f"node{domain}" / "cpulist").write_text(format_list(sorted(inside)) + "\n")


@dataclass(frozen=True)
class Row:
    """A rank: its hardware threads, number of threads, communication and loader cores, GPUs."""

    cpus: tuple[int, ...]
    threads: int
    comm: tuple[int, ...] = ()
    loader: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()

    def words(self) -> str:
        lists = (",".join(map(str, self.comm)), format_list(self.loader), ",".join(self.gpus))
        return f"{self.threads} {format_list(self.cpus)};{';'.join(lists)}"


@dataclass(frozen=True)
class Case:
    """A grant (cores of the node), a plan's rows, the ranks that run, the visible GPUs, and the one rank that is asked.

    With a mask (cores), the launcher has bound that rank: a user's process (`parent`), Slurm, which names the masks of all ranks,
    or a daemon of another user, whose own mask is that of the node. `kept` are cores that no rank may have.
    """

    node: Node
    granted: tuple[int, ...]
    rows: tuple[Row, ...]
    local: int
    visible: tuple[str, ...] | None = None
    only: int | None = None
    mask: tuple[int, ...] = ()
    launcher: str = ""
    kept: tuple[int, ...] = ()

    def line(self) -> str:
        first = self.rows[0]
        whole = sorted(pu for row in self.rows for pu in (*row.cpus, *row.comm, *row.loader))
        compute = len(first.cpus) // self.node.threads
        kept = f"/{self.node.list(self.kept)}" if self.kept else ""
        words = [f"{format_list(whole)}{kept}", compute, len(first.comm), len(first.loader), first.threads]
        if first.gpus:
            words += ["CUDA_VISIBLE_DEVICES", ",".join(gpu for row in self.rows for gpu in row.gpus)]
        shown = "-" if self.visible is None else ",".join(self.visible)
        node = " ".join(map(str, words))
        rows = "/".join(row.words() for row in self.rows)
        only = "" if self.only is None else self.only
        own = self.node.list(self.mask) if self.mask else ""
        bound = f"{self.launcher}|{own}|{self.above()}"
        granted = self.node.list(self.granted)
        return f"{granted}|{len(self.rows)}|{self.local}|{only}|{node}|{shown}|{bound}|{rows}"

    def above(self) -> str:
        """What is known above the rank: the mask of the launcher, or Slurm's masks of all tasks, here of one NUMA node each."""
        if self.launcher == "slurm":
            at = sorted({core // self.node.cores for core in self.granted})
            parts = [[core for core in self.granted if core // self.node.cores == one] for one in at]
            return ",".join(
                hex(sum(1 << pu for core in part for pu in self.node.pus(core))) for part in parts
            )
        return self.node.list(range(self.node.count) if self.launcher == "daemon" else self.granted)


def plan(node: Node, ranks: int, comm: int = 0, loader: int = 0, gpus: int = 0) -> tuple[Row, ...]:
    """Equal consecutive parts of the node."""
    size, rows = node.count // ranks, []
    for rank in range(ranks):
        own = list(range(rank * size, (rank + 1) * size))
        compute = own[: size - comm - loader]
        rows.append(
            Row(
                cpus=tuple(sorted(pu for core in compute for pu in node.pus(core))),
                threads=len(compute),
                comm=tuple(own[size - comm :][::-1]),
                loader=tuple(own[size - comm - loader : size - comm]),
                gpus=tuple(str(gpu) for gpu in range(rank * gpus, (rank + 1) * gpus)),
            )
        )
    return tuple(rows)


def run(folder: Path, node: Node, every: Sequence[Case], *, under: str = "bash") -> list[list[Row]]:
    """What the ranks of each case get from the library, in one bash, whose parent has the name `under`."""
    root = folder / "system"
    if not root.exists():
        node.write(root)
        (folder / "slurmstepd").symlink_to(shutil.which("bash") or "/bin/bash")
    cases = folder / "cases"  # bash would read a pipe byte by byte
    cases.write_text("".join(f"{case.line()}\n" for case in every))
    script = f"set -uo pipefail\n{library()}\n{SCRIPT}"
    parent = folder / "slurmstepd" if under == "slurmstepd" else under
    with cases.open() as lines:
        done = subprocess.run(
            [parent, "-c", 'bash -c "$0"; exit $?', script],
            stdin=lines,
            env={"PATH": os.environ["PATH"], "SYSTEM": str(root)},
            capture_output=True,
            text=True,
            check=True,
            timeout=3000,
        )
    rows = [[row_of(text) for text in line.split("|")] for line in done.stdout.splitlines()]
    assert len(rows) == len(every), done
    return rows


def row_of(text: str) -> Row:
    cpus, threads, comm, loader, gpus = text.split(";")
    return Row(
        cpus=tuple(sorted(parse_list(cpus))) if cpus else (),
        threads=int(threads),
        comm=tuple(int(pu) for pu in comm.split(",") if pu),
        loader=tuple(parse_list(loader)) if loader else (),
        gpus=tuple(gpus.split(",")) if gpus else (),
    )


def alone(case: Case) -> bool:
    """The rank knows its own mask only: above it is no process of its user."""
    return bool(case.mask) and case.launcher == "daemon" and case.mask != case.granted


def oracle(case: Case) -> list[Row]:
    """The rule, once more: largest equal parts; within NUMA nodes, else packages, where that idles at most a core a
    rank, and a quarter of all unless a wider place has no more for them."""
    node, first = case.node, case.rows[0]
    have = {pu for core in (case.mask if alone(case) else case.granted) for pu in node.pus(core)}
    wanted = {pu for row in case.rows for pu in (*row.cpus, *row.comm, *row.loader)}
    if wanted <= have and case.local <= len(case.rows):
        return list(case.rows[: case.local])
    if alone(case):  # what the others have cannot be known: the rank stays where it is
        return [Row(cpus=tuple(sorted(have)), threads=len(case.mask))] * case.local
    cores, ranks = sorted(case.granted), case.local
    if len(cores) < ranks:
        return [Row(cpus=(), threads=1)] * ranks
    per_numa, per_package = node.cores, node.cores * node.numa
    for width in (per_numa, per_package, node.count):
        groups = [[core for core in cores if core // width == at] for at in range(node.count // width)]
        groups = [group for group in groups if group]
        fits = [s for s in range(1, len(cores) + 1) if sum(len(group) // s for group in groups) >= ranks]
        idle = len(cores) - ranks * fits[-1] if fits else len(cores)
        if idle <= ranks and (idle <= len(cores) / 4 or fits[-1] == len(cores) // ranks):
            break
    size = fits[-1]
    quotas = [ranks * len(group) / len(cores) for group in groups]
    shares = [min(int(quota + 1e-9), len(group) // size) for quota, group in zip(quotas, groups, strict=True)]
    while sum(shares) < ranks:
        room = [i for i, group in enumerate(groups) if shares[i] < len(group) // size]
        shares[max(room, key=lambda i: (round(quotas[i] - shares[i], 9), -i))] += 1
    parts = []
    for group, share in zip(groups, shares, strict=True):
        start = 0
        for left in range(share, 0, -1):
            parts.append(group[start : start + size])
            start += -(-(len(group) - start) // left)
    total = len(first.cpus) // node.threads + len(first.comm) + len(first.loader)
    scale = min(1.0, size / total)
    comm, loader = int(len(first.comm) * scale + 1e-9), int(len(first.loader) * scale + 1e-9)
    rows = []
    for part in parts:
        compute = part[: size - comm - loader]
        rows.append(
            Row(
                cpus=tuple(sorted(pu for core in compute for pu in node.pus(core))),
                threads=len(compute),
                comm=tuple(part[size - comm :][::-1]),
                loader=tuple(part[size - comm - loader : size - comm]),
            )
        )
    return rows


def sound(case: Case, rows: list[Row]) -> Iterator[str]:
    """A core twice, one that was not granted, more idle than one a rank, unequal ranks."""
    have = {pu for core in case.granted for pu in case.node.pus(core)}
    used = [pu for row in rows for pu in (*row.cpus, *row.comm, *row.loader)]
    if len(used) != len(set(used)):
        yield f"{case}: ranks share a core"
    if not set(used) <= have:
        yield f"{case}: a core was not granted"
    idle = len(case.granted) - len({pu % case.node.count for pu in used})
    if rows[0].cpus and rows != list(case.rows[: case.local]):
        least = len(case.granted) % case.local  # which equal ranks cannot share
        if idle > case.local or (idle > least and 4 * idle > len(case.granted)):
            yield f"{case}: {idle} granted cores are idle"
        if len({row.threads for row in rows}) != 1:
            yield f"{case}: ranks are unequal"


NODES = {"smt": Node(2, 2, 3, 2), "plain": Node(2, 2, 3, 1), "one": Node(1, 2, 6, 2)}


def grants(node: Node):
    return [g for size in range(1, node.count + 1) for g in itertools.combinations(range(node.count), size)]


def combinations(node: Node, commons=((0, 0), (1, 0), (1, 1))) -> list[tuple[int, int, int]]:
    """Ranks of a plan, and communication and loader cores of each, that leave it a core at least."""
    return [
        (ranks, comm, loader)
        for ranks in (1, 2, 3, 4)
        for comm, loader in commons
        if node.count // ranks > comm + loader
    ]


LAUNCHERS = {"parent": "bash", "slurm": "slurmstepd", "daemon": "bash"}
"""Those of `Case`, with the name of the process above the rank."""


def divided(node: Node, subsets: Iterable[tuple[int, ...]]) -> Iterator[Case]:
    """Every number of ranks on each of these grants, one rank asked in turn."""
    for number, granted in enumerate(subsets):
        for ranks, comm, loader in combinations(node):
            yield Case(node, granted, plan(node, ranks, comm, loader), ranks, only=number % ranks)


def masked(node: Node, subsets: Iterable[tuple[int, ...]], launcher: str) -> Iterator[Case]:
    """Every mask that a launcher may have left a rank within these grants; 1 to 4 ranks, one asked, in turn."""
    for number, granted in enumerate(subsets):
        widths = (1, node.cores, node.cores * node.numa, node.count)
        parts = {
            tuple(core for core in granted if core // width == at)
            for width in widths
            for at in range(node.count // width)
        }
        for place, mask in enumerate(sorted(part for part in parts if part)):
            ranks, comm, loader = combinations(node)[(number + place) % len(combinations(node))]
            rows = plan(node, ranks, comm, loader)
            yield Case(node, granted, rows, ranks, only=number % ranks, mask=mask, launcher=launcher)


def faults(folder: Path, every: Sequence[Case], under: str = "bash") -> Iterator[str]:
    """What differs from the oracle, or is not sound."""
    for case, (own, *recorded) in zip(every, run(folder, every[0].node, every, under=under), strict=True):
        expected = oracle(case)
        assert case.only is not None
        if own != expected[case.only]:
            yield f"{case}: has {own} instead of {expected[case.only]}"
        nothing = expected == list(case.rows[: case.local]) or not expected[0].cpus or alone(case)
        if recorded != ([] if nothing else expected):
            yield f"{case}: knows of {recorded} instead of {expected}"
        if not alone(case):
            yield from sound(case, expected)


def main(words: list[str]) -> int:
    """Print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.granted_cpus")
    parser.add_argument("nodes", nargs="*", metavar="NODE", help=f"of {', '.join(NODES)}; default: all")
    wrong = 0
    for name in parser.parse_args(words).nodes or NODES:
        node = NODES[name]
        with tempfile.TemporaryDirectory() as folder:
            for what, under, stream in (
                ("every subset", "bash", divided(node, grants(node))),
                *((f"masks, {by}", under, masked(node, grants(node), by)) for by, under in LAUNCHERS.items()),
            ):
                found = partial(faults, Path(folder), under=under)
                wrong += differ(f"{name}: {what}", stream, found, batch=20_000)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
