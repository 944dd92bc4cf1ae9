"""What a back end of a scheduler has unless its module writes it: a module names only what differs.

The defaults are those that hold for a scheduler of which nothing is known: the job script itself signals, writes the log to
its place, tests lost nodes, and submits itself again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

from dlrun.errors import OperationFailed
from dlrun.model.job import Ending, JobStatus
from dlrun.model.site import GpuRequest
from dlrun.model.text import Shell, Text
from dlrun.schedulers.options import OptionTable
from dlrun.schedulers.protocol import Acceptance, Allocation, Components, Probe, Scheduler
from dlrun.schedulers.queue_rules import QueueRules
from dlrun.schedulers.refusals import advice_for
from dlrun.schedulers.taken import Taken


class Defaults:
    """The members of `dlrun.schedulers.protocol.Scheduler` that a back end may leave out; their meaning is described there."""

    # Of the back end itself.
    ID: str
    CLIENT: str

    ARRAY_INDEX = Shell("")
    RESTARTS = Shell("0")
    LIBRARY: tuple[str, ...] = ()
    REQUEUE: str | None = None
    HIDES_ENVIRONMENT = False
    SIGNALS_EARLY = False
    IDS_NAME_CLUSTER = False
    WRITES_IN_PLACE = False
    PATTERNS: str | None = None
    REPORTS_LOST_NODES = False
    OUTLIVES_FIRST_NODE = False
    REPLACES_FIRST_NODE = True
    ON_THIS_MACHINE = False
    MOST_NODES: int | None = None
    WHOLE_NODES = False
    POINTS_INSIDE = False
    ROLES_INSIDE = False
    COMPONENTS: Components | None = None
    NO_COMPONENTS = "its jobs have nodes of one type"
    FINDER = "find_none"
    STEPS: str | None = None
    LAUNCHER = "ssh"
    CLUSTER_KEY = "cluster_name"
    GPUS: GpuRequest = "gpus_per_node"
    ACCOUNT_OPTION: str | None = None
    HISTORY_DELAY = 0
    QUESTIONS: Mapping[str, str] = {}
    SEVERAL_QUEUES = False
    FEATURES = False
    WHOLE_MEMORY = False
    NETWORK: str | None = None
    EXCLUDE: str | None = None
    EXCLUDE_REQUEUED: str | None = None
    NO_EXCLUDE = ""
    ALLOCATION: Allocation | None = None
    ACCEPTANCE: Acceptance | None = None
    OPTIONS = OptionTable()
    REFUSALS: Mapping[str, str] = {}
    accounting = None

    def array(self, points: int, at_once: int | None) -> str:
        """Empty: there are no arrays."""
        return ""

    def in_queue(self, arguments: Sequence[str], queue: str) -> Sequence[str]:
        """The arguments: a job has one queue."""
        return arguments

    @cached_property
    def BY_HAND(self) -> str | None:  # noqa: N802 - a constant of most back ends
        """The client of the back end."""
        return getattr(self, "CLIENT", None)

    @cached_property
    def LISTED_GPUS(self) -> GpuRequest:  # noqa: N802 - a constant of most back ends
        """As for nodes that are not listed."""
        return self.GPUS

    def submitted(self, stdout: str) -> str:
        """The last line of the output that is a job id; sites' wrappers print their text before it."""
        for line in reversed(stdout.splitlines()):
            if re.fullmatch(self.ID, line.strip()):
                return line.strip()
        raise OperationFailed(f"{self.CLIENT} printed no job id")

    def recorded(self, word: str) -> str | None:
        """None: ids have one form."""
        return None

    def cluster(self, text: str) -> str | None:
        """None: job ids do not contain the cluster."""
        return None

    def identify(self) -> Sequence[str]:
        """Empty: there is no query for the cluster's name."""
        return ()

    def identified(self, stdout: str) -> str | None:
        """None: there is no query for the cluster's name."""
        return None

    def estimate(self, output: str) -> str | None:
        """None: the start is not predicted."""
        return None

    def taken(self, job_id: str) -> Sequence[str]:
        """Empty: no client shows what a job was taken as."""
        return ()

    def parse_taken(self, stdout: str) -> Taken | None:
        """None: nothing is asked."""
        return None

    def queue_rules(self) -> Sequence[str]:
        """Empty: no client shows what queues allow."""
        return ()

    def parse_queue_rules(self, stdout: str) -> list[QueueRules]:
        """Empty: nothing is asked."""
        return []

    def remarks(self, jobs: Sequence[JobStatus]) -> Sequence[str]:
        """Empty: the queue has all that is known of jobs in it."""
        return ()

    def parse_remarks(self, jobs: Sequence[JobStatus], stdout: str) -> Sequence[JobStatus]:
        """The jobs as they are: nothing is asked."""
        return jobs

    def pending(self, job_id: str) -> Sequence[str]:
        """Empty: the queue has the reasons."""
        return ()

    def parse_pending(self, text: str) -> str | None:
        """None: nothing is asked."""
        return None

    def way_in(self, own: str, answering: str) -> Sequence[str]:
        """Empty: its jobs have no instances of it."""
        return ()

    def ending(self, job_id: str) -> Sequence[str]:
        """Empty: the queue or accounting has it."""
        return ()

    def parse_ending(self, stdout: str) -> Ending | None:
        """None: nothing is asked."""
        return None

    def history(self, job_ids: Sequence[str]) -> Sequence[str] | None:
        """None: there is no accounting."""
        return None

    def parse_history(self, stdout: str) -> Sequence[JobStatus]:
        """Empty: there is no accounting."""
        return ()

    def probe(self, asked: Probe) -> Sequence[str]:
        """Empty: nodes are not probed."""
        return ()

    def unknown_jobs(self, stderr: str, code: int) -> bool:
        """False: each failure of a query is reported."""
        return False

    def tasks(self, job_id: str) -> Sequence[str]:
        """Empty: points are tasks of one job."""
        return ()

    def task_id(self, job_id: str, task: int) -> str:
        """The job's id."""
        return job_id

    def step_inside(self, job_id: str, host: str, *, terminal: bool) -> Sequence[Text] | None:
        """None: ssh."""
        return None

    def hold(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Empty: jobs cannot be held."""
        return ()

    def release(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Empty: jobs cannot be held."""
        return ()

    def advice(self, stderr: str) -> str | None:
        """The help for a rejection, from `REFUSALS`."""
        return advice_for(self.REFUSALS, stderr)

    def accounts(self, stderr: str, user: str) -> Sequence[str]:
        """Empty: no client lists a user's accounts."""
        return ()


MEMBERS = frozenset(name for name in (*Scheduler.__annotations__, *vars(Scheduler)) if name[0] != "_")
"""All names that a back end has."""
