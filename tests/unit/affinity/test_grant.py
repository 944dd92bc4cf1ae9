"""What the ranks of a node do with a grant that is not the plan's: every subset of a small node, against a second
implementation in Python that knows the plan and the grant alone."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from dataclasses import dataclass

import pytest

from dlrun.affinity.bind import library
from dlrun.model.cpuset import format_list, parse_list
from tests.examples import examples

SCRIPT = r"""
_dlrun_taskset() { :; }
_dlrun_system=$SYSTEM
_dlrun_allowed_cpus() { # the case's, without what the kernel says of this process
  local numbers
  _dlrun_allowed_list=$_dlrun_granted
  _dlrun_expand "$_dlrun_granted"
  allowed=("${numbers[@]}")
}
# What is read of the node is the same for all cases with one grant, and takes half of the time.
eval "_dlrun_first$(declare -f _dlrun_read_cores)"
_dlrun_read_cores() {
  if [[ $_dlrun_granted != "${last-}" ]]; then _dlrun_first_dlrun_read_cores; fi
  last=$_dlrun_granted
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
while IFS='|' read -r _dlrun_granted ranks DLRUN_LOCAL_SIZE only node visible rows; do
  IFS='/' read -ra row <<<"$rows"
  line= all=
  for ((DLRUN_LOCAL_RANK = ${only:-0}; DLRUN_LOCAL_RANK < ${only:-$DLRUN_LOCAL_SIZE-1} + 1; DLRUN_LOCAL_RANK++)); do
    _dlrun_shared= _dlrun_cpus= _dlrun_gpus=
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

    def write(self, root) -> None:
        """As the kernel shows it."""
        whole = [pu for core in range(self.count) for pu in self.pus(core)]
        (root / "cpu").mkdir(parents=True)
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
    """A grant (cores of the node), a plan's rows, the ranks that run, the visible GPUs, and the one rank that is asked."""

    node: Node
    granted: tuple[int, ...]
    rows: tuple[Row, ...]
    local: int
    visible: tuple[str, ...] | None = None
    only: int | None = None

    def line(self) -> str:
        first = self.rows[0]
        whole = sorted(pu for row in self.rows for pu in (*row.cpus, *row.comm, *row.loader))
        compute = len(first.cpus) // self.node.threads
        words = [format_list(whole), compute, len(first.comm), len(first.loader), first.threads]
        if first.gpus:
            words += ["CUDA_VISIBLE_DEVICES", ",".join(gpu for row in self.rows for gpu in row.gpus)]
        granted = format_list(sorted(pu for core in self.granted for pu in self.node.pus(core)))
        shown = "-" if self.visible is None else ",".join(self.visible)
        node = " ".join(map(str, words))
        rows = "/".join(row.words() for row in self.rows)
        only = "" if self.only is None else self.only
        return f"{granted}|{len(self.rows)}|{self.local}|{only}|{node}|{shown}|{rows}"


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


def run(tmp_path, node: Node, every: list[Case]) -> list[list[Row]]:
    """What the ranks of each case get from the library, in one bash."""
    root = tmp_path / "system"
    if not root.exists():
        node.write(root)
    cases = tmp_path / "cases"  # bash would read a pipe byte by byte
    cases.write_text("".join(f"{case.line()}\n" for case in every))
    with cases.open() as lines:
        done = subprocess.run(
            ["bash", "-c", f"set -uo pipefail\n{library()}\n{SCRIPT}"],
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


def oracle(case: Case) -> list[Row]:
    """The rule, once more: largest equal parts; within NUMA nodes, else packages, where that idles no more than a core a rank."""
    node, first = case.node, case.rows[0]
    have = {pu for core in case.granted for pu in node.pus(core)}
    wanted = {pu for row in case.rows for pu in (*row.cpus, *row.comm, *row.loader)}
    if wanted <= have and case.local <= len(case.rows):
        return list(case.rows[: case.local])
    cores, ranks = sorted(case.granted), case.local
    if len(cores) < ranks:
        return [Row(cpus=(), threads=1)] * ranks
    per_numa, per_package = node.cores, node.cores * node.numa
    for width in (per_numa, per_package, node.count):
        groups = [[core for core in cores if core // width == at] for at in range(node.count // width)]
        groups = [group for group in groups if group]
        fits = [s for s in range(1, len(cores) + 1) if sum(len(group) // s for group in groups) >= ranks]
        if fits and len(cores) - ranks * fits[-1] <= ranks:
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


def sound(case: Case, rows: list[Row]) -> None:
    """No core twice, none that was not granted, and none idle beyond one a rank."""
    have = {pu for core in case.granted for pu in case.node.pus(core)}
    used = [pu for row in rows for pu in (*row.cpus, *row.comm, *row.loader)]
    assert len(used) == len(set(used)), case
    assert set(used) <= have, case
    taken = {pu % case.node.count for pu in used}
    if rows[0].cpus and rows != list(case.rows[: case.local]):
        assert len(case.granted) - len(taken) <= case.local, (case, rows)
        assert len({row.threads for row in rows}) == 1


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


@pytest.mark.parametrize("name", NODES)
def test_each_rank_takes_its_part_by_the_rule(tmp_path, name):
    node = NODES[name]
    every = [
        Case(node, granted, plan(node, ranks, comm, loader), local)
        for granted in random.Random(name).sample(grants(node), examples(400))
        for ranks, comm, loader in combinations(node)
        for local in {ranks, max(1, ranks - 1)}
    ]
    every = random.Random(name).sample(every, examples(400))
    for case, rows in zip(every, run(tmp_path, node, every), strict=True):
        assert rows == oracle(case), case
        sound(case, rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
def test_every_subset_of_a_node_is_divided_by_the_rule(tmp_path, name):
    """For each subset one rank, in turn, says what all get, and takes its own part of it."""
    node = NODES[name]
    every = [
        Case(node, granted, plan(node, ranks, comm, loader), ranks, only=number % ranks)
        for number, granted in enumerate(grants(node))
        for ranks, comm, loader in combinations(node, ((0, 0), (1, 1)))
    ]
    for case, (own, *recorded) in zip(every, run(tmp_path, node, every), strict=True):
        expected = oracle(case)
        assert own == expected[case.only], case
        nothing = expected == list(case.rows) or not expected[0].cpus  # the plan holds, or each may use all
        assert recorded == ([] if nothing else expected), case
        sound(case, expected)


def gpu_oracle(visible: tuple[str, ...] | None, ranks: int, each: int) -> list[tuple[str, ...]]:
    """Each rank's GPUs: those of the plan if all are visible, else equal parts of what is, in the order of the variable."""
    planned = [tuple(str(gpu) for gpu in range(rank * each, (rank + 1) * each)) for rank in range(ranks)]
    if visible is None or {gpu for row in planned for gpu in row} <= set(visible):
        return planned
    if len(visible) <= each:
        return [visible] * ranks
    if len(visible) >= ranks * each:
        return [visible[rank * each : (rank + 1) * each] for rank in range(ranks)]
    starts = [min(rank * len(visible) // ranks, len(visible) - each) for rank in range(ranks)]
    return [visible[start : start + each] for start in starts]


def ordered_subsets(count):
    every = [s for size in range(1, 9) for s in itertools.permutations(map(str, range(8)), size)]
    return every if count == 0 else random.Random(8).sample(every, count)


def of_gpus(count: int, alone: bool) -> list[tuple[Case, list[tuple[str, ...]]]]:
    """Cases in which GPUs are visible, or are not those of the plan, and the GPUs of each rank by the rule; `alone`: one rank,
    in turn, is asked."""
    node, every = Node(1, 1, 8, 1), []
    odd = (("1", "3"), ("1", "2"), ("3", "0"), ("1", "2", "3", "4"))
    for number, visible in enumerate((*ordered_subsets(count), *odd)):
        for ranks, each in ((1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (2, 2), (4, 2)):
            only = number % ranks if alone else None
            case = Case(node, tuple(range(8)), plan(node, ranks, gpus=each), ranks, visible, only)
            every.append((case, gpu_oracle(visible, ranks, each)))
    return every


def test_ranks_of_a_node_have_gpus_of_their_own_whichever_were_granted(tmp_path):
    every = of_gpus(examples(600), alone=False)
    for (case, gpus), rows in zip(every, run(tmp_path, every[0][0].node, [c for c, _ in every]), strict=True):
        assert [row.gpus for row in rows] == gpus, case
        flat = [gpu for row in gpus for gpu in row]
        if len(case.visible) >= len(flat):
            assert len(set(flat)) == len(flat)


@pytest.mark.slow
def test_each_rank_knows_the_gpus_of_all(tmp_path):
    every = of_gpus(4000, alone=True)
    divided = 0
    for (case, gpus), (own, *recorded) in zip(
        every, run(tmp_path, every[0][0].node, [case for case, _ in every]), strict=True
    ):
        assert own.gpus == gpus[case.only], case
        if recorded and recorded[0].gpus:
            divided += 1
            assert [row.gpus for row in recorded] == gpus, case
    assert divided > 1000


@pytest.mark.parametrize("kind", ["GPU-{}aaaa-bbbb", "MIG-{}cccc"])
def test_gpus_by_name_are_distinct_too(tmp_path, kind):
    node, every = Node(1, 1, 8, 1), []
    for visible in ordered_subsets(40):
        names = tuple(kind.format(name) for name in visible)
        every += [Case(node, tuple(range(8)), plan(node, ranks, gpus=1), ranks, names) for ranks in (1, 2, 4)]
    for case, rows in zip(every, run(tmp_path, node, every), strict=True):
        shown = [gpu for row in rows for gpu in row.gpus]
        assert set(shown) <= set(case.visible)
        if len(case.visible) >= len(rows):
            assert len(set(shown)) == len(rows), (case, rows)
        else:
            assert set(shown) == set(case.visible), "none is idle"
