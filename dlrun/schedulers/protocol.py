"""The interface of a scheduler back end: a module with these names that builds and parses text and runs no program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from dlrun.model.job import Accounted, Ending, JobStatus
from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.record import record
from dlrun.model.site import GpuRequest, SchedulerSite
from dlrun.model.text import Shell, Text
from dlrun.schedulers.options import OptionTable
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.schedulers.taken import Taken


@record(frozen=True, slots=True, kw_only=True)
class Granted:
    """What an allocation has: its hosts in order, and on each of them at least so many CPUs (as the scheduler counts them)
    and GPUs; the tasks per node that were asked for; `partition` and its end (`ends`, local time as `2026-11-25T22:10:00`).
    None: unknown, or not asked for."""

    hosts: tuple[str, ...]
    cpus: int | None = None
    gpus: int | None = None
    tasks: int | None = None
    partition: str | None = None
    ends: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The command that gives a shell an allocation (`start`), and the variables in it with the job's id and nodes.

    The nodes are a number (`nodes`) or a file whose lines begin with host names (`hosts`); where there is no variable for
    them, `count` are the arguments of a client that prints their number.

    `size` and `gpus` are the options of `start` for an allocation, with `{nodes}`, `{ranks}` and `{node_cpus}` (on each node),
    `{cpus}` (of a rank), `{total}` (ranks) and `{gpus}` (on each node). `query` are the arguments of a client that prints what
    an allocation has, before its id, and `parse` reads that. `library`: parts of the bash library for jobs inside.
    `without`: directives that `start` does not take; None if it cannot run a command. `then`: the command that ends the
    line, where the shell of `start` alone has none of these variables.
    """

    start: str
    job_id: str
    nodes: str | None = None
    hosts: str | None = None
    count: tuple[str, ...] = ()
    size: str = ""
    gpus: str = ""
    query: tuple[str, ...] = ()
    parse: Callable[[str], Granted] | None = None
    library: tuple[str, ...] = ()
    without: tuple[str, ...] | None = None
    then: str = ""

    def line(self, size: str = "") -> str:
        """The command line for an allocation of a size."""
        return " ".join(filter(None, (self.start, size, self.then)))


@record(frozen=True, slots=True, kw_only=True)
class Components:
    """How one job has nodes of several types, all from the same moment on: a component for each type.

    `hosts`: shell command that prints the hosts of all components, in their order, and `library` its parts of the bash
    library. `join`: the directives of the job from those of a job for each component; raises InvalidFile.
    """

    hosts: str
    join: Callable[[Sequence[Sequence[Directive]]], Sequence[Directive]]
    library: tuple[str, ...] = ()


@record(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Reasons why a job would be rejected, and the text to report if there are none (`accepted`)."""

    problems: Sequence[str]
    accepted: str


@record(frozen=True, slots=True, kw_only=True)
class Probe:
    """One short job on one node, on `host` and in `queue` if given, with a GPU if `gpu`.

    Its walltime is `minutes`; it is abandoned after `wait` seconds in the queue; its output is the file `log`.
    """

    host: str | None
    queue: str | None
    gpu: bool
    minutes: int
    wait: int
    log: str


class Acceptance(Protocol):
    """Prediction of acceptance, for schedulers whose clients have no test mode."""

    def questions(self, request: Request) -> Sequence[Sequence[str]]:
        """The argument lists of the clients to run."""
        ...

    def judge(self, request: Request, answers: Sequence[str], user: str, groups: Sequence[str]) -> Judgement:
        """The verdict on a job of `user`, from the outputs in the order of `questions`; a failed client's is empty."""
        ...


class Accounting(Protocol):
    """The scheduler's own measurement of a job."""

    def ask(self, job_id: str) -> list[str]:
        """Arguments that print it, for a job or an array task (`12[3]`)."""
        ...

    def read(self, text: str) -> Accounted | None:
        """The usage in that output; None if it is not there."""
        ...


class Scheduler(Protocol):
    """A module of `dlrun.schedulers`, completed by `dlrun.schedulers.defaults`: it writes what differs from the defaults.

    Shell code works in bash under `set -euo pipefail`; expansions are valid inside double quotes.
    """

    NAME: str
    PREFIX: str
    """Beginning of directive lines (`#SBATCH`); empty: the scheduler reads no directives."""
    CLIENT: str
    """The program that submits jobs; named in the message when it is not installed."""
    BY_HAND: str
    """The command for submitting by hand, without the script's name."""
    JOB_ID: Shell
    """Expansion for the job id at submission, inside the job; the same for all tasks of an array."""
    ID: str
    """Regular expression of its job ids; records with any other id are rejected as damaged."""
    ARRAY_INDEX: Shell
    """Expansion for the array task's index from 0, inside the job; empty outside arrays."""
    RESTARTS: Shell
    """Expansion for the number of restarts (requeues), inside the job."""
    LIBRARY: tuple[str, ...]
    """Parts of the bash library used by these expansions and `REQUEUE`.

    Those of `templates/lib` by name, those that stand beside the scheduler by absolute path without `.sh`.
    """
    HOSTS: str
    """Shell command that prints the granted hosts, one per line, beginning with the host of rank 0."""
    REQUEUE: str | None
    """Shell command by which a job or array task requeues itself; None: it submits the script again instead."""
    HIDES_ENVIRONMENT: bool
    """True if the submission environment is hidden from other users, so that it may contain secrets."""
    SIGNALS_EARLY: bool
    """True if the scheduler sends `request.signal` before the walltime; else the job script does."""
    IDS_NAME_CLUSTER: bool
    """True if job ids contain the cluster's name, so that no query is needed."""
    WRITES_IN_PLACE: bool
    """True if the scheduler writes the log to its final path while the job runs; else the job script does."""
    PATTERNS: str | None
    """Regular expression of what the scheduler replaces in the path of a log, also where the directory is named so."""
    REPORTS_LOST_NODES: bool
    """True if the job is informed of a dead node; else it tests each node by ssh after a failure."""
    OUTLIVES_FIRST_NODE: bool
    """True if a job that outlives its nodes also outlives its script's node, so that another node must end it."""
    REPLACES_FIRST_NODE: bool
    """True if the scheduler can start a job once more that has lost its script's node; else only a script can request that."""
    ON_THIS_MACHINE: bool
    """True if jobs are processes on this machine under dlrun's supervisor instead of a scheduler."""
    MOST_NODES: int | None
    """Maximum number of nodes of a job; None: the site's limits apply."""
    WHOLE_NODES: bool
    """True if jobs always have whole nodes, also without `exclusive`."""
    POINTS_INSIDE: bool
    """True if the points of a sweep can run inside one job (`sweep.nodes`)."""
    ROLES_INSIDE: bool
    """True if several programs can run in one job (`roles`), each on nodes of its own."""
    COMPONENTS: Components | None
    """Jobs whose roles are on nodes of several types; None if there are none, for the reason `NO_COMPONENTS`."""
    NO_COMPONENTS: str
    """The reason why `COMPONENTS` is None."""
    FINDER: str
    """The path of the script, without `.sh`, that finds a job by its submission directory."""
    STEPS: str | None
    """The launcher whose processes are steps of the scheduler; None if there is none."""
    LAUNCHER: str
    """Default launcher of new site profiles."""
    CLUSTER_KEY: Literal["cluster_name", "pbs_server"]
    """The key under `recognise:` of a site profile for the cluster's name."""
    GPUS: GpuRequest
    """Default of `scheduler.gpus` in a site profile."""
    LISTED_GPUS: GpuRequest
    """Default of `scheduler.gpus` where the scheduler lists the GPUs of its nodes."""
    ACCOUNT_OPTION: str | None
    """The account option that new site profiles contain; None: the scheduler's default option."""
    HISTORY_DELAY: int
    """Seconds after a job's end during which both the queue and the accounting may not list it."""
    QUESTIONS: Mapping[str, str]
    """Keys under `scheduler:` specific to it -> the question about each when a profile is made."""
    SEVERAL_QUEUES: bool
    """True if a job can name several queues, separated by commas, and starts in the first that has room."""
    FEATURES: bool
    """True if jobs select nodes by features (`resources.constraint`)."""
    WHOLE_MEMORY: bool
    """True if a job can request all memory of its nodes without giving a size."""
    NETWORK: str | None
    """Beginning of the option for network settings (`--network=`); None if there is none."""
    EXCLUDE: str | None
    """Beginning of the option that excludes nodes (`--exclude=`); None if there is none."""
    EXCLUDE_REQUEUED: str | None
    """The function of `templates/lib` that excludes nodes from the next run of a requeued job; None if there is none."""
    NO_EXCLUDE: str
    """The message where `EXCLUDE` is None: the reason and what the job does instead."""
    ALLOCATION: Allocation | None
    """Interactive allocations, in which a shell can run a job; None if there are none."""
    OPTIONS: OptionTable
    """The options of its clients: what each means in a spec, and which of them dlrun writes."""
    REFUSALS: Mapping[str, str]
    """Regular expressions for what its clients print when they reject a job -> the help for it."""
    accounting: Accounting | None
    """The accounting of one job's usage; None if there is none."""
    ACCEPTANCE: Acceptance | None
    """Prediction of acceptance; None where `submit(check=True)` exists or no job is rejected."""

    def directives(
        self,
        request: Request,
        site: SchedulerSite,
        output: str,
        origins: Mapping[str, Origin] | None = None,
    ) -> Sequence[Directive]:
        """The directives of a request at a site; raises InvalidFile for requests that it cannot express.

        CPUs of the request are already in the site's unit (cores or hardware threads).
        `output` is the log file's path relative to the submission directory; `{index}` in it stands for the array
        task's index. `origins`: field of the request -> where it was written.
        """
        ...

    def array(self, points: int, at_once: int | None) -> str:
        """The directive, without its prefix, of an array of `points` tasks.

        At most `at_once` of them run at the same time. Empty where the scheduler has no arrays.
        """
        ...

    def submit(
        self, script: str, *, check: bool = False, points: int | None = None, at_once: int | None = None
    ) -> Sequence[str]:
        """Arguments that submit a script from its directory; with `check` they only verify that it would be accepted.

        `points` and `at_once` describe a sweep, for schedulers where each point is a job. Raises Invalid for a
        check where the scheduler has none.
        """
        ...

    def in_queue(self, arguments: Sequence[str], queue: str) -> Sequence[str]:
        """`arguments` of a check, with one queue instead of the script's several; only where a job can name several."""
        ...

    def submitted(self, stdout: str) -> str:
        """The job id in the output of the submission; raises OperationFailed if there is none."""
        ...

    def recorded(self, word: str) -> str | None:
        """A job id that its clients print in several forms, in that of records; None if there is one form, or for other words."""
        ...

    def cluster(self, text: str) -> str | None:
        """The cluster's name in a job id or in the output of the submission; None if it is not there."""
        ...

    def identify(self) -> Sequence[str]:
        """Arguments that print the name of the cluster; empty if there is no such query."""
        ...

    def identified(self, stdout: str) -> str | None:
        """The cluster's name in the output of `identify`; None if there is none."""
        ...

    def estimate(self, output: str) -> str | None:
        """The expected start in the output (stdout and stderr) of an accepted check; None if unknown."""
        ...

    def taken(self, job_id: str) -> Sequence[str]:
        """Arguments that show what a submitted job was taken as; empty where no client shows it."""
        ...

    def parse_taken(self, stdout: str) -> Taken | None:
        """What the job was taken as, from the output of `taken`; None if it does not show it."""
        ...

    def queue_rules(self) -> Sequence[str]:
        """Arguments that show what each partition or queue allows; empty where no client shows it."""
        ...

    def parse_queue_rules(self, stdout: str) -> list[QueueRules]:
        """The rules of each partition in the output of `queue_rules`."""
        ...

    def queue(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Arguments that query any number of jobs in one call; empty if there is no queue."""
        ...

    def parse_queue(self, stdout: str) -> Sequence[JobStatus]:
        """The jobs in the output of `queue`; jobs unknown to it are absent."""
        ...

    def remarks(self, jobs: Sequence[JobStatus]) -> Sequence[str]:
        """Arguments that ask what `queue` does not have of these jobs, such as why they wait; empty if that is nothing."""
        ...

    def parse_remarks(self, jobs: Sequence[JobStatus], stdout: str) -> Sequence[JobStatus]:
        """The jobs with what the output of `remarks` has about them."""
        ...

    def pending(self, job_id: str) -> Sequence[str]:
        """Arguments that explain why one job is pending, where `queue` has no reasons; empty elsewhere."""
        ...

    def parse_pending(self, text: str) -> str | None:
        """The reason in the output (stdout and stderr) of `pending`; None without one."""
        ...

    def way_in(self, own: str, answering: str) -> Sequence[str]:
        """Words before a command line for sh that runs a client in an instance inside a job; empty if what answers cannot."""
        ...

    def ending(self, job_id: str) -> Sequence[str]:
        """Arguments that print who ended one job, where queue and accounting do not have that; empty elsewhere."""
        ...

    def parse_ending(self, stdout: str) -> Ending | None:
        """Who ended it, from the output of `ending`; None if no user did."""
        ...

    def history(self, job_ids: Sequence[str]) -> Sequence[str] | None:
        """Arguments that query the accounting of ended jobs; None if there is none."""
        ...

    def parse_history(self, stdout: str) -> Sequence[JobStatus]:
        """The jobs in the output of `history`."""
        ...

    def probe(self, asked: Probe) -> Sequence[str]:
        """Arguments that run a program on one node, without the program, which gets the standard input of the command.

        Where `STEPS` is None: arguments that submit a script, without its name.
        """
        ...

    def unknown_jobs(self, stderr: str, code: int) -> bool:
        """True if a query failed only because the jobs are no longer known, or there is no accounting."""
        ...

    def tasks(self, job_id: str) -> Sequence[str]:
        """The job ids of a sweep's points, where each point is a job and `job_id` lists them; empty elsewhere."""
        ...

    def task_id(self, job_id: str, task: int) -> str:
        """The id of one array task, for `cancel`, `hold` and `release`."""
        ...

    def step_inside(self, job_id: str, host: str, *, terminal: bool) -> Sequence[Text] | None:
        """Arguments before a command that runs it on a host of a running job, beside what runs there, with this standard input
        and output; job_id: of the job or array task (`task_id`); terminal: it gets one. None: ssh does it, where a site allows.
        """
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
        """Help for a rejection, by the client's message; None if the message is unknown."""
        ...

    def accounts(self, stderr: str, user: str) -> Sequence[str]:
        """Arguments that list a user's accounts, one per line; empty if the rejection is not about them or there is no list."""
        ...
