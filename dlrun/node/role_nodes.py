"""The nodes of a job with roles to which more are granted than its roles need: the good ones, and others after a failure.

Each node runs node_checks.py, and so does this one, which chooses: `nodes/HOST/` and `bad-nodes` are as in other jobs with spare
nodes (lib/nodes.sh). Used by roles.py.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NoReturn

if TYPE_CHECKING or __package__:
    from . import coordinator, role
else:
    import coordinator
    import role

REPLACED = "DLRUN_REPLACED"
"""The variable by which a job that starts again on other nodes knows its id, how often, and the seconds that it has used."""
ENDS = 5.0
"""Seconds that a check which takes too long has to end after SIGTERM."""
RETRIED = 30.0
"""Seconds in which a check that fails is begun again, once, before the ranks start (lib/nodes.sh)."""


class Nodes:
    """The granted nodes, and how each is reached."""

    def __init__(
        self, directory: str, plan: Dict[str, Any], granted: List[str], words: Callable[[str], List[str]]
    ) -> None:
        self.directory = directory
        self.granted = granted
        self.words = words  # the words before a program on a host
        self.count = int(plan["nodes"])
        self.patience = float(plan.get("patience") or 120.0)
        self.left_out = set(plan.get("leave_out") or ())
        self.place = str(plan.get("directory") or "")  # whose variables a check reads on its node
        self.restarts = bool(plan.get("restarts"))
        self.outlives = bool(plan.get("outlives"))
        self.chosen: List[str] = []
        self.replaced, self.used = _replaced()

    def choose(self, is_over: Callable[[], bool]) -> str:
        """Set `chosen` to the best of the granted nodes; a text for the log if they are too few, else an empty one."""
        hosts = self.good()
        if len(hosts) < len(self.granted):
            text = "dlrun: granted, but to be left out: {} of {} nodes"
            coordinator.log_line(text.format(len(self.granted) - len(hosts), len(self.granted)))
        best = self.best(hosts, is_over)
        if is_over():
            return ""
        if len(best) < self.count:
            why = "only {} of {} nodes are good, and the job needs {}"
            return self.note(why.format(len(best), len(self.granted), self.count))
        self.chosen = best
        text = "dlrun: of {} nodes these are used: {}"
        coordinator.log_line(text.format(len(self.granted), ",".join(best)))
        return ""

    def are_good(self, is_over: Callable[[], bool]) -> bool:
        """Whether all chosen nodes are, after a failure; bad ones are remembered."""
        return len(self.best(self.chosen, is_over, "quick")) == len(self.chosen) or is_over()

    def good(self) -> List[str]:
        """The granted nodes that are not known to be bad."""
        bad = set(self.left_out)
        with contextlib.suppress(OSError), open(os.path.join(self.directory, "bad-nodes")) as stream:
            for line in stream:
                host, until = [*line.split(None, 2), "", ""][:2]
                if until.isdigit() and int(until) > time.time():
                    bad.add(host)
        return [host for host in self.granted if host not in bad]

    def watchers(self) -> List[str]:
        """This program's host, and those that may watch it, bad ones last; empty where the job ends with its node."""
        first, *others = [*self.granted[:1], *self.chosen, *self.granted]
        return list(dict.fromkeys([first, *others])) if self.outlives else []

    def best(self, hosts: List[str], is_over: Callable[[], bool], *how: str) -> List[str]:
        """Check these hosts, all at once, and choose as many as the job needs."""
        if not hosts:
            return []
        self.clear(hosts)
        checks = {host: self.check(host, how) for host in hosts}
        begun = now = time.monotonic()
        due: Dict[str, float] = {}  # when a check that failed begins once more; 0: it has
        while not is_over() and now < begun + self.patience:
            # Each is looked at once: one that ends meanwhile is for the next round.
            running = [host for host in hosts if checks[host].poll() is None]
            for host in [] if how else [host for host in hosts if checks[host].returncode]:
                # No program could be started: a daemon of the scheduler may be busy. A host that is away takes longer.
                if now >= due.setdefault(host, now + 2.0 if now < begun + RETRIED else 0.0) > 0:
                    due[host], checks[host] = 0.0, self.check(host, how)
                    running.append(host)
            if not any(due.values()) and not running:
                break
            coordinator.wait(0.2)
            now = time.monotonic()
        end_all(list(checks.values()))
        words = [sys.executable, "-I", self.program(), "choose", str(self.count)]
        sys.stdout.flush()
        completed = subprocess.run(
            words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
        )
        return completed.stdout.decode("utf-8", "replace").split()

    def check(self, host: str, how: "tuple[str, ...]") -> Any:
        """Start the check of a host, which writes its report."""
        names = ["DLRUN_JOB_ID", "DLRUN_NODE_PYTHON", *re.findall(r"\$\{?(\w+)", self.place)]
        known = {name: os.environ[name] for name in names if name in os.environ}
        known.update(DLRUN_JOB_DIR=self.directory, DLRUN_RUN_DIR=self.directory, DLRUN_FIRST_HOST=host)
        python = os.path.join(self.directory, "lib", "python.sh")
        words = [*self.words(host), "env", *("{}={}".format(*pair) for pair in known.items())]
        words += ["bash", "-p", python, self.program(), "check", host, *how]
        with open(self.path(host, "log"), "wb") as log:
            return role.child(words, stdout=log, stderr=log)

    def clear(self, hosts: List[str]) -> None:
        """Make the directories for the reports, without what an earlier check wrote."""
        with contextlib.suppress(OSError), open(self.path("hosts")) as stream:
            for host in stream.read().split():
                if "/" not in host:
                    shutil.rmtree(self.path(host), ignore_errors=True)
        for host in hosts:
            os.makedirs(self.path(host), exist_ok=True)
        for name, text in ((".dlrun", ""), ("hosts", "".join(host + "\n" for host in hosts))):
            with open(self.path(name), "w") as stream:
                stream.write(text)

    def begin_notes(self) -> None:
        """Make the directory of notes for `dlrun why` (also lib/first-node.sh writes one), without that of an earlier start."""
        place = os.path.join(self.directory, "failures")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, ".dlrun"), "w"), contextlib.suppress(OSError):
            os.unlink(os.path.join(place, "node-0"))

    def note(self, why: str) -> str:
        """Note that the job ends for this; returns the cause."""
        cause, host = "{}: {}".format(coordinator.LOST, why), os.uname().nodename.partition(".")[0]
        with open(os.path.join(self.directory, "failures", "node-0"), "w") as stream:
            stream.write("{} node 0 {} 1 {}\n".format(int(time.time() * 1e9), host, cause))
        return cause

    def restart(self, used: float) -> NoReturn:
        """Become job.sh again, which chooses other nodes; used: seconds that the job has run."""
        value = "{} {} {}".format(os.environ["DLRUN_JOB_ID"], self.replaced + 1, int(used))
        sys.stdout.flush()
        words = ["bash", os.path.join(self.directory, "job.sh")]
        os.execvpe("bash", words, {**os.environ, REPLACED: value})  # noqa: S606 - bash itself

    def environment(self) -> Dict[str, str]:
        """What node_checks.py reads here."""
        return dict(os.environ, DLRUN_JOB_DIR=self.directory, DLRUN_RUN_DIR=self.directory)

    def program(self) -> str:
        """The path of node_checks.py."""
        return os.path.join(self.directory, "node_checks.py")

    def path(self, *names: str) -> str:
        """A path below the directory of the reports."""
        return os.path.join(self.directory, "nodes", *names)


def _replaced() -> "tuple[int, float]":
    """How often this job has started again on other nodes, and the seconds that it had run until then."""
    job, count, used = [*os.environ.get(REPLACED, "").split(), "", "", ""][:3]
    is_own = job == os.environ.get("DLRUN_JOB_ID") and count.isdigit() and used.isdigit()
    return (int(count), float(used)) if is_own else (0, 0.0)


def end_all(processes: List[Any]) -> None:
    """End what still runs of these: SIGTERM, and later SIGKILL."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + ENDS
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        coordinator.wait(0.2)
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
