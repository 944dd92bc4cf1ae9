"""What a scheduler back end is: a module with these names. It builds text and parses text, and runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from dlrun.model.job import JobStatus
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.record import record
from dlrun.model.site import GpuRequest, SchedulerSite
from dlrun.model.text import Shell


@record(frozen=True, slots=True, kw_only=True)
class Allocation:
    """How a shell gets an allocation (`start`), and which variables name it there: the job's id, and its nodes.

    The latter as a number (`nodes`) or as a file whose lines begin with their names (`hosts`); where no variable does,
    `count` are the arguments of a client that prints their number.
    """

    start: str
    job_id: str
    nodes: str | None = None
    hosts: str | None = None
    count: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Objections to a job, as far as it can be known without submitting it, and what to report if nothing does."""

    problems: Sequence[str]
    accepted: str


@record(frozen=True, slots=True, kw_only=True)
class Probe:
    """One short job on one node: of `host` and `queue`, if they are given, with a GPU if `gpu`.

    It runs for `minutes`, waits in the queue for `wait` seconds, and prints into `log`.
    """

    host: str | None
    queue: str | None
    gpu: bool
    minutes: int
    wait: int
    log: str


class Trial(Protocol):
    """How to find out beforehand whether a job would be accepted, where no client of the scheduler can check one."""

    def questions(self, request: Request) -> Sequence[Sequence[str]]:
        """The clients to ask, by their arguments."""
        ...

    def judge(self, request: Request, answers: Sequence[str], user: str, groups: Sequence[str]) -> Judgement:
        """What the answers, in the order of `questions`, say about a job of `user`; a client that failed answered nothing."""
        ...


class Scheduler(Protocol):
    """A module of `dlrun.schedulers`; `NAME`, `PREFIX` and the shell expansions are data.

    Shell code works in bash under `set -euo pipefail`; expansions are valid inside double quotes.
    """

    NAME: str
    PREFIX: str
    """How directive lines begin (`#SBATCH`); empty: the scheduler reads none from the script."""
    CLIENT: str
    """The program that submits, for the message when it is not installed."""
    BY_HAND: str
    """How a person submits a script by it, up to the script's name."""
    JOB_ID: Shell
    """The job's id as it was submitted, inside the job; tasks of an array share it."""
    ID: str
    """Regular expression of the ids that it gives; a record with another is not believed."""
    ARRAY_INDEX: Shell
    """The array task's index inside the job, or the empty string."""
    RESTARTS: Shell
    """How often the job was requeued, inside the job."""
    LIBRARY: tuple[str, ...]
    """Parts of the bash library (`templates/lib`) that these expansions and `REQUEUE` use."""
    HOSTS: str
    """Shell command that prints the granted hosts, one a line, rank 0's first."""
    REQUEUE: str | None
    """Shell command by which a job (or array task) puts itself back; None: resubmit the script instead."""
    HIDES_ENVIRONMENT: bool
    """True if other users cannot see the submission environment (so that secrets may travel in it)."""
    SIGNALS_EARLY: bool
    """True if the scheduler itself sends `request.signal`; else the job script must do it in time."""
    IDS_NAME_CLUSTER: bool
    """True if the ids of jobs name their cluster, so that no query is needed."""
    WRITES_IN_PLACE: bool
    """True if the log asked for is there, and grows, while the job runs; else only the job script can do that."""
    TELLS_OF_LOST_NODES: bool
    """True if the scheduler reports to a job that one of its nodes died; else the job tests each by ssh after a failure."""
    ON_THIS_MACHINE: bool
    """True if jobs are processes of this machine under dlrun's supervisor, and not handed to a scheduler's clients."""
    MOST_NODES: int | None
    """The most nodes that a job can have; None if the site decides."""
    WHOLE_NODES: bool
    """True if a job has its nodes to itself, also where it does not ask for that."""
    FINDER: str
    """The script (`dlrun/effects/transport/scripts`) that finds a job by the directory it was submitted from."""
    STEPS: str | None
    """The launcher whose processes are steps of the scheduler's own; None if it starts none."""
    LAUNCHER: str
    """The usual launcher of its sites."""
    CLUSTER_KEY: Literal["cluster_name", "pbs_server"]
    """The key of `recognise:` that has its cluster's name."""
    GPUS: GpuRequest
    """How its sites usually ask for GPUs (`scheduler.gpus`)."""
    LISTED_GPUS: GpuRequest
    """How a site asks for GPUs whose scheduler lists those of its nodes."""
    ACCOUNT_OPTION: str | None
    """The option that its sites usually name an account with, where it is not the scheduler's first; for new profiles."""
    HISTORY_DELAY: int
    """Seconds after a job's end in which neither its queue nor its accounting may know it."""
    QUESTIONS: Mapping[str, str]
    """Keys of `scheduler` in the profile that only its sites have, with the question about each; for new profiles."""
    FEATURES: bool
    """True if jobs ask for nodes by the features that these have (`constraint`)."""
    WHOLE_MEMORY: bool
    """True if a job can ask for all memory of its nodes, however much that is."""
    NETWORK: str | None
    """The option for the network's own settings, up to their names; None if it has none."""
    EXCLUDE: str | None
    """The option that keeps nodes from a job, up to their names; None if there is none."""
    EXCLUDE_REQUEUED: str | None
    """The function of `lib/` that keeps nodes from the next run of a job that is put back; None if nothing can."""
    NO_EXCLUDE: str
    """Why there is none, and what is done instead."""
    ALLOCATION: Allocation | None
    """Allocations in which a shell can run a job; None if there are none."""
    TRIAL: Trial | None
    """How to find out whether a job would be accepted; None where `submit` can ask for a check, or nothing is rejected."""

    def directives(
        self,
        request: Request,
        site: SchedulerSite,
        output: str,
        origins: Mapping[str, Origin] | None = None,
    ) -> Sequence[Directive]:
        """The directives for a request in this site's dialect; InvalidFile for what it cannot express.

        CPUs are counted as the site counts them (cores or threads): the request is already in its unit.
        `output` is the log file's path, seen from where the job is submitted; `{index}` in it is replaced by
        the array task's index. `origins` is where fields of the request were written, by their names.
        """
        ...

    def array(self, points: int, at_once: int | None) -> str:
        """The directive that makes an array of tasks numbered from 0, as written in the script.

        At most `at_once` of them run at the same time. Empty where the scheduler reads no directives.
        """
        ...

    def submit(
        self, script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
    ) -> Sequence[str]:
        """Arguments that submit a script from its directory, or only ask whether it would be accepted.

        `points` and `at_once` are those of a sweep, for schedulers where each point is a job. Raises Invalid for a
        check where the scheduler offers none.
        """
        ...

    def submitted(self, stdout: str) -> str:
        """The job id in what the submission printed; raises OperationFailed if there is none."""
        ...

    def cluster(self, text: str) -> str | None:
        """The cluster that a job id, or what the submission printed, names; None if neither does."""
        ...

    def identify(self) -> Sequence[str]:
        """Arguments that ask which cluster answers; none: there is no such query."""
        ...

    def identified(self, stdout: str) -> str | None:
        """The name of the cluster in what `identify` printed; None if it printed none."""
        ...

    def estimate(self, output: str) -> str | None:
        """When and where an accepted check (its stdout and stderr) reports that the job would start."""
        ...

    def queue(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Arguments that ask the queue for any number of jobs in one call; none: there is no queue."""
        ...

    def parse_queue(self, stdout: str) -> Sequence[JobStatus]:
        """What the queue answered; jobs that it no longer knows are missing."""
        ...

    def history(self, job_ids: Sequence[str]) -> Sequence[str] | None:
        """Arguments that ask accounting, or None if this scheduler has none."""
        ...

    def parse_history(self, stdout: str) -> Sequence[JobStatus]:
        """What accounting answered."""
        ...

    def probe(self, asked: Probe) -> Sequence[str]:
        """Arguments that run a program on one node, up to the program, which reads this command's standard input.

        Where `STEPS` is None, those that submit a script, up to its name.
        """
        ...

    def knows_nothing(self, stderr: str, code: int) -> bool:
        """True if a query failed only because the scheduler has forgotten the jobs, or keeps no accounts."""
        ...

    def tasks(self, job_id: str) -> Sequence[str]:
        """The ids of a sweep's points, where each is a job of its own and `job_id` names them all; none elsewhere."""
        ...

    def task_id(self, job_id: str, task: int) -> str:
        """How `cancel`, `hold` and `release` call one task of an array."""
        ...

    def cancel(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Arguments that cancel jobs."""
        ...

    def hold(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Arguments that hold jobs."""
        ...

    def release(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Arguments that release held jobs."""
        ...

    def advice(self, stderr: str) -> str | None:
        """What to do about a refusal, from the words that the client used; None if unknown."""
        ...

    def accounts(self, stderr: str, user: str) -> Sequence[str]:
        """Arguments that list a user's accounts, one a line; none if this refusal is not about them, or there is no such list."""
        ...
