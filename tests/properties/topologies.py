"""Hypothesis strategies for nodes of every shape and for what a job may ask of them."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from dlrun.model.placement import PlacementRequest, Reserve
from dlrun.model.topology import Core, Gpu, Nic, NumaNode, Topology


@st.composite
def topologies(draw, gpus: bool = True) -> Topology:
    """Nodes with 1-8 packages, SMT 1-8, uneven NUMA nodes and caches, holes in every numbering, memory-only
    nodes, reserved, isolated, offline and forbidden CPUs, and devices anywhere."""
    smt = draw(st.sampled_from([1, 2, 2, 3, 4, 8]))
    places: list[dict[str, int]] = []
    numa = l3 = 0
    one_node = draw(st.booleans()) and draw(st.booleans())
    rng = random.Random(draw(st.integers(0, 2**32)))
    for package in range(draw(st.sampled_from([1, 1, 2, 2, 2, 3, 4, 8]))):
        core_id = 0
        for _ in range(draw(st.sampled_from([1, 1, 2, 4]))):
            for _ in range(rng.choice([1, 1, 2, 3])):
                for _ in range(rng.randint(1, 5)):
                    core_id += rng.choice([1, 1, 1, 2, 5])
                    places.append(
                        {"package": package, "numa": 0 if one_node else numa, "l3": l3, "core_id": core_id}
                    )
                l3 += 1
            numa += 1
    adapter = draw(st.sampled_from(["hsi", "mlx5_"]))
    ids = list(range(len(places) * smt + draw(st.integers(0, 9))))
    rng.shuffle(ids)
    cores = [Core(pus=tuple(ids[i * smt : i * smt + smt]), **place) for i, place in enumerate(places)]
    nodes = sorted({core.numa for core in cores})
    only = [
        NumaNode(id=nodes[-1] + 1 + i, kind=k, near=(nodes[i],))
        for i, k in enumerate(draw(_kinds(len(nodes))))
    ]
    where = st.one_of(st.none(), st.sampled_from(nodes))
    pus = [pu for core in cores for pu in core.pus]

    def some(chance: list[int]) -> tuple[int, ...]:
        """A few PUs, in most cases none."""
        return tuple(rng.sample(pus, min(draw(st.sampled_from(chance)), len(pus) // 3)))

    granted = draw(st.sampled_from([0, 0, 1, 3, len(cores) // 2, len(cores)]))
    allowed = sorted(pu for core in rng.sample(cores, min(granted, len(cores))) for pu in core.pus)
    return Topology(
        cores=tuple(cores),
        numa_nodes=(*(NumaNode(id=n) for n in nodes), *only),
        gpus=tuple(Gpu(index=i, numa=n) for i, n in enumerate(draw(st.lists(where, max_size=8))))
        if gpus
        else (),
        nics=tuple(
            Nic(name=f"{adapter}{i}", numa=n) for i, n in enumerate(draw(st.lists(where, max_size=4)))
        ),
        allowed=tuple(allowed) or None,
        reserved=some([0, 0, 1, 4, 20]),
        isolated=some([0, 0, 0, 1, 4]),
        offline=some([0, 0, 0, 1, 9]),
    )


def _kinds(most: int):
    return st.lists(st.sampled_from(["hbm", "cxl", "gpu"]), max_size=most)


def requests(gpus: bool = True):
    """What a job may ask: everything that the command has an option for."""
    return st.builds(
        PlacementRequest,
        ranks_per_node=st.one_of(st.integers(1, 4), st.integers(1, 16)),
        comm_cores=st.sampled_from([0, 0, 1, 1, 2, 3]),
        loader_cores=st.sampled_from([0, 0, 1, 2]),
        comm_policy=st.sampled_from(["own", "spread"]),
        smt=st.sampled_from(["one", "all"]),
        reserve=st.builds(Reserve, per_l3=st.sampled_from([0, 0, 1]), per_node=st.sampled_from([0, 0, 1, 2])),
        rank_order=st.sampled_from(["gpu", "numa"]),
        membind=st.sampled_from(["strict", "preferred", "none"]),
        gpus_per_rank=st.sampled_from([None, None, 0, 1]) if gpus else st.just(0),
        locality=st.sampled_from(["strict", "strict", "balance"]),
        l3_borders=st.sampled_from(["free", "free", "strict"]),
    )
