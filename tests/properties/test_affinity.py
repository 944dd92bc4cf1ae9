"""What every placement must keep, whatever the machine: invariants I1 to I18 over generated topologies.

The numbers are those of the design's facts, §6. A refusal is an answer too, but a job that plainly fits
must not be refused.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings, strategies as st

from dlrun.errors import Invalid
from dlrun.model.cpuset import parse_list
from dlrun.model.placement import Placement, PlacementRequest, Reserve
from dlrun.model.topology import Topology
from dlrun.plan.affinity import place
from dlrun.plan.affinity.devices import distance, place_of
from dlrun.plan.affinity.slots import near, share_gpus
from dlrun.plan.affinity.usable import numa_spans_packages, usable_cores
from tests.examples import examples
from tests.properties.topologies import requests, topologies

FAR = re.compile("no usable core is next to GPU|is on the other package")
MANY = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def placed(topology: Topology, request: PlacementRequest) -> Placement:
    """The placement, for jobs that have one."""
    try:
        return place(topology, request)
    except Invalid:
        assume(False)
        raise


def threads(topology: Topology, request: PlacementRequest) -> int:
    """Threads of each rank, 0 if the job is refused."""
    try:
        return place(topology, request).ranks[0].threads
    except Invalid:
        return 0


def core_of(topology: Topology) -> dict[int, int]:
    return {pu: i for i, core in enumerate(topology.cores) for pu in core.pus}


@MANY
@given(topologies(), requests())
def test_i1_to_i5_cores_are_usable_exclusive_and_equal(topology, request):
    placement = placed(topology, request)
    number = core_of(topology)
    blocked = {*topology.reserved, *topology.isolated, *request.reserve.pus(topology)}
    forbidden = {number[pu] for pu in blocked}
    allowed = set(topology.pus() if topology.allowed is None else topology.allowed) - set(topology.offline)
    used: Counter[int] = Counter()
    for rank in placement.ranks:
        assert rank.cores  # I3
        assert len(rank.comm) == request.comm_cores  # I4
        assert len(rank.loader) == request.loader_cores
        siblings = [pu for core in rank.comm_siblings for pu in core]
        pus = [*rank.mask, *rank.comm, *siblings, *rank.loader, *rank.spare]
        assert allowed.issuperset(pus)  # I2
        assert not forbidden.intersection(number[pu] for pu in pus)
        used.update({number[pu] for pu in rank.mask})
        used.update(number[pu] for pu in (*rank.comm, *rank.loader, *rank.spare))
    assert set(used.values()) == {1}  # I1
    assert len({rank.threads for rank in placement.ranks}) == 1  # I5
    assert [rank.rank for rank in placement.ranks] == list(range(request.ranks_per_node))


@MANY
@given(topologies(gpus=False), requests(gpus=False))
def test_i6_i7_cpu_ranks_stay_in_one_numa_node_and_package_where_there_are_enough(topology, request):
    placement = placed(topology, replace(request, locality="strict"))
    number = core_of(topology)
    cores = usable_cores(topology, request.reserve).cores
    numa_count, packages = len({c.numa for c in cores}), len({c.package for c in cores})
    for rank in placement.ranks:
        mine = [topology.cores[number[pu]] for pu in rank.cores]
        if request.ranks_per_node >= numa_count:
            assert len({core.numa for core in mine}) == 1
            assert len({core.package for core in mine}) == 1 or numa_spans_packages(topology)
        if request.ranks_per_node >= packages:
            assert len({core.package for core in mine}) == 1


@MANY
@given(topologies(gpus=False), requests(gpus=False))
def test_i8_own_communication_cores_are_on_the_ranks_package(topology, request):
    ranks = max(request.ranks_per_node, len(topology.packages()))
    placement = placed(topology, replace(request, comm_policy="own", ranks_per_node=ranks, locality="strict"))
    number = core_of(topology)
    for rank in placement.ranks:
        packages = {topology.cores[number[pu]].package for pu in rank.cores}
        assert {topology.cores[number[pu]].package for pu in rank.comm} <= packages


@MANY
@given(topologies(), requests())
def test_i9_gpu_ranks_have_cores_next_to_their_gpus(topology, request):
    request = replace(request, gpus_per_rank=None, locality="strict")
    first = topology.cpu_nodes()[0]
    gpus = tuple(replace(gpu, numa=first if gpu.numa is None else gpu.numa) for gpu in topology.gpus)
    topology = replace(topology, gpus=gpus)
    assume(gpus)
    placement = placed(topology, request)
    shares = share_gpus(topology, request)
    usable = usable_cores(topology, request.reserve).cores
    spread = (
        {pu for rank in placement.ranks for pu in rank.comm} if request.comm_policy == "spread" else set()
    )
    left = tuple(core for core in usable if spread.isdisjoint(core.pus))
    for rank in placement.ranks:
        assert rank.gpus in shares
        if rank.gpus:
            local = {
                pu
                for i in rank.gpus
                for core in near(topology, topology.cores, topology.gpus[i])
                for pu in core.pus
            }
            if not all(near(topology, left, topology.gpus[i]) for i in rank.gpus):
                assert any(FAR.search(warning) for warning in placement.warnings)
                continue
            assert local.issuperset(rank.mask)
            assert local.issuperset(rank.comm) or request.comm_policy == "spread"


@MANY
@given(topologies(), requests())
def test_i10_i11_threads_are_compute_cores_times_smt(topology, request):
    placement = placed(topology, request)
    number = core_of(topology)
    for rank in placement.ranks:
        assert len({number[pu] for pu in rank.cores}) == len(rank.cores)
        assert {number[pu] for pu in rank.cores} == {number[pu] for pu in rank.mask}
        if request.smt == "one":
            assert rank.threads == len(rank.cores)
        else:
            assert rank.threads == min(len(other.mask) for other in placement.ranks)


@MANY
@given(topologies(), requests(), st.integers(1, 6))
def test_i12_spread_communication_cores_are_balanced_over_packages(topology, request, comm):
    placement = placed(topology, replace(request, comm_policy="spread", comm_cores=comm))
    number = core_of(topology)

    def counts(pus) -> list[int]:
        got = Counter(topology.cores[number[pu]].package for pu in pus)
        return [got[package] for package in packages]

    allowed = topology.pus() if topology.allowed is None else topology.allowed
    packages = {topology.cores[number[pu]].package for pu in allowed if pu not in topology.offline}
    total = counts(pu for rank in placement.ranks for pu in rank.comm)
    assert max(total) - min(total) <= 1
    for rank in placement.ranks:
        assert max(counts(rank.comm)) - min(counts(rank.comm)) <= 1
        assert list(rank.comm) == sorted(rank.comm, reverse=True) or len(packages) == 1


def kept(placement, topology):
    """The CPUs of the node that no rank may have; beside them numbers that are none's are named."""
    return set(parse_list(placement.node.kept_free)).intersection(topology.pus())


@MANY
@given(topologies(), requests(), st.integers(0, 2**32))
def test_i13_renumbering_the_cpus_renumbers_the_answer_and_nothing_else(topology, request, seed):
    before = placed(topology, request)
    ids = list(range(max(topology.pus()) + 40))
    random.Random(seed).shuffle(ids)

    def moved(pus):
        return tuple(ids[pu] for pu in pus)

    renumbered = replace(
        topology,
        cores=tuple(replace(core, pus=moved(core.pus)) for core in topology.cores),
        allowed=None if topology.allowed is None else moved(topology.allowed),
        reserved=moved(topology.reserved),
        isolated=moved(topology.isolated),
        offline=moved(topology.offline),
    )
    after = place(renumbered, request)
    numbered = {"gpu_cpus": (), "kept_free": ""}
    assert replace(after.node, **numbered) == replace(before.node, **numbered)
    assert sorted(moved(kept(before, topology))) == sorted(kept(after, renumbered))
    for old, new in zip(before.node.gpu_cpus, after.node.gpu_cpus, strict=True):
        assert sorted(moved(parse_list(old))) == sorted(parse_list(new))
    for old, new in zip(before.ranks, after.ranks, strict=True):
        for name in ("cores", "mask", "comm", "loader", "spare"):
            assert sorted(moved(getattr(old, name))) == sorted(getattr(new, name)), name
        for name in ("threads", "numa", "memory", "gpus", "nic"):
            assert getattr(old, name) == getattr(new, name)


@MANY
@given(topologies(), requests())
def test_i14_masks_hold_no_communication_pu(topology, request):
    placement = placed(topology, request)
    masks = {pu for rank in placement.ranks for pu in rank.mask}
    for rank in placement.ranks:
        assert masks.isdisjoint(rank.comm)
        assert masks.isdisjoint(pu for siblings in rank.comm_siblings for pu in siblings)


@MANY
@given(topologies(), requests())
def test_i16_the_same_question_has_the_same_answer(topology, request):
    reordered = replace(topology, cores=topology.cores[::-1], nics=topology.nics)
    assert placed(topology, request) == place(Topology.from_json(topology.to_json()), request)
    assert placed(topology, request).ranks == place(reordered, request).ranks


def far(topology, request) -> bool:
    """True if a rank got cores that are not beside its GPU, for none of those was left: there may be more of them."""
    return any(FAR.search(warning) for warning in place(topology, request).warnings)


@MANY
@given(topologies(), requests(), st.data())
def test_i17_reserving_more_never_gives_more_threads(topology, request, data):
    request = replace(request, reserve=Reserve())
    more = data.draw(st.lists(st.sampled_from(topology.pus()), min_size=1, max_size=len(topology.cores)))
    fewer = replace(request, reserve=Reserve(cpus=tuple(more)))
    widths = {len({*core.pus} - {*topology.offline}) for core in topology.cores} - {0}
    assert threads(topology, fewer) <= threads(topology, request) or (
        (request.smt == "all" and len(widths) > 1) or far(topology, fewer)
    )


@MANY
@given(topologies(), requests(), st.integers(1, 3))
def test_i17_more_communication_or_loader_cores_never_give_more_threads(topology, request, more):
    base = threads(topology, request)
    for fewer in (
        replace(request, comm_cores=request.comm_cores + more),
        replace(request, loader_cores=request.loader_cores + more),
    ):
        assert threads(topology, fewer) <= base or far(topology, fewer)


@MANY
@given(topologies(), requests())
def test_i18_no_equally_loaded_adapter_is_nearer(topology, request):
    placement = placed(topology, request)
    number = core_of(topology)
    load: Counter[str] = Counter()
    nics = {nic.name: nic for nic in topology.nics}
    for rank in placement.ranks:
        if not nics:
            assert rank.nic is None
            continue
        pus = (
            {*rank.mask, *rank.comm, *rank.loader, *rank.spare}
            if request.comm_policy == "own"
            else set(rank.mask)
        )
        mine = [topology.cores[i] for i in sorted({number[pu] for pu in pus})]
        gpus = [gpu for gpu in topology.gpus if gpu.index in rank.gpus]  # the traffic is theirs
        mine = [core for gpu in gpus for core in near(topology, topology.cores, gpu)] or mine
        if request.comm_policy == "own":
            chosen = distance(place_of(topology, nics[rank.nic]), mine)
            equal = [nic for nic in nics.values() if load[nic.name] <= load[rank.nic]]
            assert all(distance(place_of(topology, nic), mine) >= chosen for nic in equal)
        load[rank.nic] += 1


@MANY
@given(topologies(gpus=False), st.integers(1, 16))
def test_a_job_with_a_core_for_every_rank_is_never_refused(topology, ranks):
    try:
        cores = usable_cores(topology, Reserve()).cores
    except Invalid:
        return
    request = PlacementRequest(ranks_per_node=ranks)
    assert (threads(topology, request) > 0) == (ranks <= len(cores))
    shared = place(topology, replace(request, oversubscribe=True))
    assert len(shared.ranks) == ranks
    assert {pu for rank in shared.ranks for pu in rank.mask} <= {pu for core in cores for pu in core.pus}
