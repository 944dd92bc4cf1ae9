"""dlrun's cores beside those of LLNL's mpibind, by the expected results of its own tests.

    python -m tests.oracles.mpibind CHECKOUT

CHECKOUT is a clone of https://github.com/LLNL/mpibind with `test-suite/expected` and `topo-xml`. Compared is which cores each
rank has; not how many threads of them mpibind would use. Prints every mapping that differs; ends with 1 if there is one that
is not argued in docs/concepts/placement.md.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list, parse_list
from dlrun.model.placement import PlacementOptions
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place
from dlrun.plan.binding import request_of
from dlrun.system.inputs.topology import topology_from

ARGUED = {
    ("epyc-corona", 48, 0): "two ranks on each of 24 cores, and 24 cores idle",
    ("epyc-corona", 7, 16): "ranks of 12 and of 6 cores",
}
"""Machine, ranks and threads asked for -> what mpibind does and dlrun does not."""


@dataclass(frozen=True)
class Mapping:
    """One test of mpibind: its parameters, and the hardware threads of each rank."""

    machine: str
    ranks: int
    threads: int
    smt: int
    with_gpus: bool
    allowed: tuple[int, ...] | None
    numa: bool
    cpus: tuple[tuple[int, ...], ...]

    def node(self, whole: Topology) -> Topology:
        """The machine, restricted to the test's CPUs or NUMA nodes."""
        if self.allowed is None:
            return whole
        wanted = set(self.allowed)
        numbers = [
            pu for core in whole.cores for pu in core.pus if (core.numa if self.numa else pu) in wanted
        ]
        return replace(whole, allowed=tuple(sorted(numbers)))


def mappings(checkout: Path) -> Iterator[Mapping]:
    """Those of all machines."""
    for path in sorted((checkout / "test-suite" / "expected").glob("expected.*")):
        if path.suffix == ".v1":
            continue
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
        for number, line in enumerate(lines):
            if '{"params"' not in line:
                continue
            asked = json.loads(line[line.index("{") :])["params"]
            restricted = asked["restr_set"]
            yield Mapping(
                machine=path.name.removeprefix("expected."),
                ranks=asked["ntasks"],
                threads=asked["in_nthreads"],
                smt=asked["smt"],
                with_gpus=bool(asked["gpu_optim"]),
                allowed=None if restricted is None else tuple(parse_list(restricted)),
                numa=bool(asked["restrict_type"]),
                cpus=tuple(tuple(parse_list(part)) for part in lines[number + 3].strip('"').split(";")),
            )


def machine(checkout: Path, name: str) -> Topology:
    """The machine that the test of this name uses."""
    text = (checkout / "test-suite" / f"{name}.c").read_text()
    (file,) = re.findall(r'topology_file = "\.\./topo-xml/([^"]+)"', text)
    return topology_from(checkout / "topo-xml" / file)


def difference(one: Mapping, whole: Topology) -> str | None:
    """How the default placement differs; None if every rank has the same cores."""
    node = one.node(whole)
    core_of = {pu: core.pus[0] for core in whole.cores for pu in core.pus}
    theirs = sorted(sorted({core_of[pu] for pu in cpus}) for cpus in one.cpus)
    wanted = request_of(
        PlacementOptions(),
        node,
        ranks_per_node=one.ranks,
        comm_cores=0,
        gpus_per_rank=None if one.with_gpus else 0,
    )
    try:
        mine = sorted(sorted({core_of[pu] for pu in rank.mask}) for rank in place(node, wanted).ranks)
    except Invalid as refused:
        return str(refused)
    return (
        None
        if mine == theirs
        else f"{'; '.join(map(format_list, mine))} instead of {'; '.join(map(format_list, theirs))}"
    )


def main(words: list[str]) -> int:
    """Print what was found."""
    checkout = Path(words[0])
    same = argued = shared = wrong = 0
    for one in mappings(checkout):
        whole = machine(checkout, one.machine)
        cores = {core.pus for core in one.node(whole).cores if set(core.pus) & set(one.allowed or core.pus)}
        what = difference(one, whole)
        if what is None:
            same += 1
        elif one.allowed is not None and len(cores) < one.ranks:
            shared += 1  # mpibind lets ranks share a core, dlrun wants `oversubscribe` for that
        elif (one.machine, one.ranks, one.threads) in ARGUED:
            argued += 1
            print(f"{one.machine}, {one.ranks} ranks: {ARGUED[one.machine, one.ranks, one.threads]}: {what}")
        else:
            wrong += 1
            print(f"differs: {one}: {what}", flush=True)
    print(
        f"{same + argued + shared + wrong} mappings: {same} the same, {argued} argued, "
        f"{shared} with more ranks than cores, {wrong} that differ"
    )
    return 1 if wrong or not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
