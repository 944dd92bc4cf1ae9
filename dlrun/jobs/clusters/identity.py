"""Compare the cluster of a job with the one that answers: the same job id exists on both.

Home directories are shared between clusters, and profiles, `SLURM_CONF` and ssh aliases change. So a job's record has the
name of its cluster, which is compared before each query or action.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlrun import backends
from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.jobs.clusters import batch, clients, control
from dlrun.jobs.records import submitter
from dlrun.jobs.records.jobs import Job
from dlrun.model.plan import Plan
from dlrun.model.site import Site
from dlrun.system.process import NoAnswer, Runner


def of(job: Job) -> str | None:
    """The cluster of a job: Slurm's ClusterName, the PBS server, or a host name; None if its record has none."""
    return job.cluster or control.of(job.scheduler).cluster(job)


def answering(job: Job, runner: Runner | None = None) -> str | None:
    """The cluster that answers queries about a job; None if not reported. Raises OperationFailed without an answer."""
    return control.of(job.scheduler).answering(job, runner)


def is_certain(job: Job, runner: Runner | None = None) -> bool:
    """Whether what answers queries about a job is certainly what has it, and shows it to this user.

    Only then a job that it does not know has ended. False without an answer.
    """
    if job.user not in (None, submitter.user()):
        return False
    try:
        own, there = of(job), answering(job, runner)
    except DlrunError:
        return False
    return own is not None and there is not None and (same(own, there) or _reached(job, own, there))


def is_doubtful(job: Job, runner: Runner | None = None) -> bool:
    """Whether something else may answer queries about a job than what has it, or hide it from this user.

    False for a job whose cluster is not recorded: then there is nothing to compare.
    """
    hidden = job.user not in (None, submitter.user())
    return (hidden or of(job) is not None) and not is_certain(job, runner)


def known(scheduler: str, runner: Runner) -> str | None:
    """The cluster that answers, or None after an error, which what comes next will report.

    Raises NoAnswer if nothing came within the runner's time limit: then what comes next would wait as long, or longer.
    """
    try:
        with clients.named(scheduler):
            return control.of(scheduler).name(scheduler, runner)
    except NoAnswer:
        raise
    except DlrunError:
        return None


def same(cluster: str | None, other: str | None) -> bool:
    """True unless both are known and differ; a host's short name matches its long one."""
    if cluster is None or other is None:
        return True
    a, b = cluster.casefold(), other.casefold()
    # Two long names with the same first component are different hosts.
    return a == b or (
        a.partition(".")[0] == b.partition(".")[0] and "." in a + b and not ("." in a and "." in b)
    )


def elsewhere(job: Job, answering: str | None) -> str | None:
    """The cluster of a job if it is another one than that which answers and cannot be reached from here, else None."""
    own = of(job)
    return None if same(own, answering) or _reached(job, own, answering) else own


def unreachable(job: Job, runner: Runner) -> str | None:
    """The cluster of a job that queries from here do not reach, else None; nothing is asked if none is recorded."""
    return elsewhere(job, answering(job, runner)) if of(job) is not None else None


def _reached(job: Job, own: str | None, answering: str | None) -> bool:
    """Whether what answers passes queries on to another cluster, or to an instance inside a job of its own."""
    return own is not None and (_found_by_id(job, own, answering) or bool(batch.way_in(job, answering)))


def _found_by_id(job: Job, own: str | None, answering: str | None) -> bool:
    """True for a job whose queue is `NAME@SERVER`, if a PBS server answers: PBS's clients ask the server in the job's id."""
    if answering is None or not backends.scheduler(job.scheduler).IDS_NAME_CLUSTER:
        return False
    try:
        server = (job.plan().request.partition or "").partition("@")[2]
    except DlrunError:
        # Without a plan the queue is unknown, and with it the server.
        return False
    return bool(server) and same(server, own)


def require(jobs: Iterable[Job], word: str) -> None:
    """Raise OperationFailed if one of the jobs belongs to another cluster than the one that answers.

    If job ids contain the cluster, a cluster without a name is another one: Slurm's `qdel` wrapper ends its own job 5 for
    `5.server`. word: the command, for the help line.
    """
    for job in jobs:
        if job.job_id is None or of(job) is None:
            continue
        there = answering(job)
        nameless = there is None and backends.scheduler(job.scheduler).IDS_NAME_CLUSTER
        if (own := of(job) if nameless else elsewhere(job, there)) is not None:
            here = f"`{there}` answers" if there else f"no {job.scheduler} server answers"
            raise OperationFailed(
                f"`{job.directory.name}` is a job of cluster `{own}`, and {here} here; nothing was done",
                help=_way_out(job, own, word),
            )


def _way_out(job: Job, own: str, word: str) -> str:
    if job.remote is not None:
        return f"`{job.remote.host}` led to `{own}` when the job was submitted: see your ssh configuration"
    return f"run `dlrun {word} {job.directory.name}` on {control.of(job.scheduler).where(job, own)}"


def _described(site: Site) -> tuple[str, ...]:
    """The profile's names of the cluster: several for several PBS servers."""
    scheduler = backends.scheduler(site.scheduler.type)
    if scheduler.ON_THIS_MACHINE:  # its cluster is this machine
        return ()
    named: str | tuple[str, ...] | None = getattr(site.recognise, scheduler.CLUSTER_KEY)
    return (named,) if isinstance(named, str) else named or ()


def mismatch(site: Site, there: str | None) -> str | None:
    """A warning if the profile describes another cluster than the one that answers, else None."""
    own = _described(site)
    cluster = there.partition("/")[0] if there is not None else None  # without the instance
    if not own or any(same(name, cluster) for name in own):
        return None
    return (
        f"site `{site.name}` describes cluster `{'` or `'.join(own)}`, and `{there}` answers here: partitions, limits and fabric "
        "may differ; `dlrun site detect` names the profile of this cluster"
    )


def expected(plan: Plan, site: Site | None) -> bool:
    """Whether the profile, or a job under `after`, determines the cluster of a submission."""
    named = site is not None and bool(_described(site))
    return named or any(dependency.cluster is not None for dependency in plan.request.after)


def check_dependencies(plan: Plan, there: str | None) -> None:
    """Raise Invalid if a job under `after` belongs to another cluster: its id means another job here."""
    for dependency in plan.request.after:
        if not same(dependency.cluster, there):
            raise Invalid(
                f"job {dependency.job_id} in `after` is a job of cluster `{dependency.cluster}`, and `{there}` answers here",
                help="a scheduler waits only for jobs of its own cluster: remove it from `after`",
            )
