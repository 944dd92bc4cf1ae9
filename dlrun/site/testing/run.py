"""Run all jobs of a profile's test, and judge each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from dlrun import backends
from dlrun.config import sites
from dlrun.config.load import LoadedSite
from dlrun.errors import DlrunError, Invalid
from dlrun.model.nearest import nearest
from dlrun.model.units import Duration, many
from dlrun.schedulers.facts import Cluster, Nodes, queue_of
from dlrun.site.profile.query import ask_cluster
from dlrun.site.testing import job as site_job, limits, places
from dlrun.site.testing.cost import JobCost, job_costs, lines_of
from dlrun.site.testing.fact import Fact, merged
from dlrun.site.testing.hardware import hardware
from dlrun.site.testing.job import PlaceReport
from dlrun.site.testing.surroundings import surroundings
from dlrun.site.verify.report import grouped
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import Machine, load_site

AT_ONCE = 4
"""Maximum number of jobs in the queue at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """The profile, the verdicts on its keys with their places in the file, the number of jobs, and the nodes that answered."""

    loaded: LoadedSite
    facts: Sequence[Fact]
    jobs: int
    hosts: frozenset[str] = frozenset()


def test_profile(
    name: str,
    *,
    partitions: tuple[str, ...],
    sets: Sequence[str],
    wait: Duration,
    notice: Callable[[str], None],
) -> Verdicts:
    """Report the cost of all jobs, run them, and compare. Raises InvalidFile for an invalid profile, Invalid for an unknown
    partition."""
    here = Machine()
    loaded = _loaded(name, partitions, here)
    for line in lines_of(job_costs(loaded, partitions, sets)):
        notice(line)
    cluster = _cluster(loaded, here, notice)
    chosen = places.places(loaded.site, partitions)
    path = str(loaded.path)
    unknown = _unknown(loaded, cluster)
    runnable = [
        place for place in chosen if place.partition not in unknown and places.is_run(place, partitions)
    ]
    ask = site_job.TestOptions(site=path, sets=sets, wait=wait, notice=notice)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        try:
            reports = list(pool.map(lambda place: site_job.run(place, ask), runnable))
        except BaseException:
            ask.stop.set()  # the threads cancel their jobs before they end
            raise
    facts = [
        *_of_scheduler(loaded, cluster, chosen=chosen, path=path, sets=sets, unknown=unknown, reports=reports)
    ]
    for report in reports:
        facts += _of_place(report, loaded, cluster)
    hosts = frozenset(host for report in reports for host in report.nodes)
    return Verdicts(loaded=loaded, facts=merged(facts), jobs=len(runnable), hosts=hosts)


def jobs_of(name: str, *, partitions: tuple[str, ...], sets: Sequence[str]) -> list[JobCost]:
    """The jobs that `test_profile` would submit, with their cost; raises like it."""
    return job_costs(_loaded(name, partitions, Machine()), partitions, sets)


def _loaded(name: str, partitions: tuple[str, ...], here: Machine) -> LoadedSite:
    loaded = load_site(name, here=here)
    for wanted in partitions:
        if wanted not in loaded.site.partitions:
            near = nearest(wanted, loaded.site.partitions)
            listed = ", ".join(loaded.site.partitions) or "none"
            raise Invalid(
                f"site `{loaded.site.name}` has no partition `{wanted}`",
                help=f"the nearest is `{near}`" if near else f"it has {listed}",
            )
    return loaded


def _cluster(loaded: LoadedSite, here: Machine, notice: Callable[[str], None]) -> Cluster | None:
    """The scheduler's facts; None if it did not answer, or if jobs are processes of this machine."""
    if backends.scheduler(loaded.site.scheduler.type).ON_THIS_MACHINE:
        return None
    try:
        return ask_cluster(here)
    except DlrunError as error:
        notice(f"limits were not compared with the scheduler: {error.message}")
        return None


def _unknown(loaded: LoadedSite, cluster: Cluster | None) -> set[str | None]:
    """Partitions unknown to the scheduler, where no job can be submitted."""
    if cluster is None:
        return set()
    live = {queue.name for queue in cluster.queues}
    return {
        name
        for name, partition in loaded.site.partitions.items()
        if (queue := queue_of(name, partition.queue)) is not None and queue not in live
    }


def _of_scheduler(
    loaded: LoadedSite, cluster: Cluster | None, chosen: Sequence[places.Place], path: str,
    sets: Sequence[str], unknown: set[str | None], reports: Iterable[PlaceReport],
) -> Iterator[Fact]:  # fmt: skip
    if cluster is None:
        return
    at = _WithOrigin(loaded)
    yield from map(at, limits.of_scheduler(loaded.site, cluster))
    of_kind = {
        report.place.node_type: nodes
        for report in reports
        if report.place.node_type is not None and (nodes := _live(report, cluster)) is not None
    }
    yield from map(at, limits.counts(loaded.site, of_kind))
    for place in chosen:
        if place.partition is None:
            continue
        partition = loaded.site.partitions[place.partition]
        yield from map(at, limits.of_partition(place.partition, partition, cluster))
        if place.partition in unknown:
            continue

        def accepts(resources: dict[str, object], place: places.Place = place) -> str | None:
            return site_job.accepts(place, path, sets, **{"cpus_per_rank": 1, **resources})

        yield from map(at, limits.by_acceptance(place.partition, partition, accepts))  # type: ignore[arg-type]


class _WithOrigin:
    """Adds the place in the profile to facts: that of the key, else of the nearest parent."""

    def __init__(self, loaded: LoadedSite) -> None:
        self._origins = loaded.profile.origins

    def __call__(self, fact: Fact) -> Fact:
        key = fact.key
        while key and key not in self._origins:
            key = key.rpartition(".")[0]
        return replace(fact, origin=self._origins.get(key)) if key else fact


def _live(report: PlaceReport, cluster: Cluster | None) -> Nodes | None:
    """The scheduler's kind of nodes on which a job ran, or None."""
    hosts = set(report.nodes)
    for kind in cluster.nodes if cluster is not None else ():
        if hosts & {host.partition(".")[0] for host in kind.hosts}:
            return kind
    return None


def _of_place(report: PlaceReport, loaded: LoadedSite, cluster: Cluster | None) -> Iterator[Fact]:
    place = report.place
    profile = sites.at(loaded.profile, place.partition, place.node_type)
    site = profile.site or loaded.site
    here = replace(loaded, site=site, profile=profile)
    at = _WithOrigin(here)
    yield from map(at, _of_job(report))
    nodes = list(report.nodes.values())
    if place.node_type is not None and (kind := site.node_types.get(place.node_type)) is not None:
        planned = topology_for_site(here, place.node_type)
        yield from map(at, hardware(place.node_type, kind, planned, nodes, _live(report, cluster)))
    yield from map(at, surroundings(site, nodes))


def _of_job(report: PlaceReport) -> Iterator[Fact]:
    """Facts shown by the job itself: the request, the launcher, and the connections between ranks."""
    place = report.place
    where = str(place)
    request = f"partitions.{place.partition}" if place.partition else "scheduler"
    if report.refused is not None:
        yield Fact(
            key=request, verdict="differs", seen=f"the scheduler refuses a job: {report.refused}", where=where
        )
        return
    if report.waited is not None:
        yield Fact(key=request, verdict="not seen", seen=report.waited, where=where)
        return
    if report.without_gpus is not None:
        observed = f"a job that requests the GPUs of the profile is refused: {report.without_gpus}"
        yield Fact(key="scheduler.gpus", verdict="differs", seen=observed, where=where)
    elif any(checked.planned.gpus for checked in report.ranks):
        yield Fact(
            key="scheduler.gpus", verdict="holds", seen="a job with its GPUs was accepted", where=where
        )
    started = [checked for checked in report.ranks if checked.report is not None]
    if len(started) < len(report.ranks):
        fewer = f"{len(started)} of {many(len(report.ranks), 'rank')} began; the job's log ends with: {report.log or 'nothing'}"
        if not report.nodes:
            fewer = f"the job printed nothing; its log ends with: {report.log or 'nothing'}"
        yield Fact(key="launcher", verdict="differs", seen=fewer, where=where)
        return
    hosts = sorted({str(checked.report["host"]) for checked in started if checked.report is not None})
    yield Fact(key="launcher", verdict="holds", seen=f"ranks began on {', '.join(hosts)}", where=where)
    if report.transport is not None and report.place.nodes > 1:
        yield Fact(key="fabric.expect", verdict="not seen", seen=report.transport, where=where)
    trips = [
        checked.report["round_trip"]
        for checked in started
        if checked.report is not None and "round_trip" in checked.report
    ]
    for who, difference in grouped(report.ranks):
        observed = f"{who}: {difference.what}; likely: {difference.cause}"
        yield Fact(
            key="fabric" if "rank 0" in difference.what else "launcher",
            verdict="differs",
            seen=observed,
            where=where,
        )
    if trips and not any(checked.differences for checked in report.ranks):
        observed = f"1 MiB to rank 0 in {max(trips) * 1000:.1f} ms"
        yield Fact(key="rendezvous", verdict="holds", seen=observed, where=where)
