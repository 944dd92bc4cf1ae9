"""What a program that runs parts of a job has of the whole: signals, the walltime, the job's record and another start.

Used by pool.py, for the points of a sweep, and by roles.py, for several programs; in a job directory it is beside them.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterable, List, Sequence

SIGNAL_DELAY = 5.0
"""Seconds within which a scheduler signals all programs of a job."""
PAUSE = 1.0
"""Maximum seconds between two looks at the files that cancel parts; the end of a process is seen at once."""
BEAT = 5.0
"""Seconds between two counts in `.alive` (lib/first-node.sh)."""
BEGINS = 10.0
"""Seconds that what the job runs waits for the watcher of this host; it is a step of the scheduler."""
ENDS = 60.0
"""Seconds for the end of programs on the hosts: lib/mps.sh needs at most 15, and the removal of data longer."""
LOST = "node failed"


class Coordinator:
    """A job: its directory, how long it may run, what it was asked, and its record."""

    def __init__(self, directory: str, walltime: float, start: Sequence[str] = ()) -> None:
        self.directory = directory
        self.start = list(start)  # the words before a program on a host, `{host}`
        self.walltime = walltime  # seconds; 0: unknown
        self.before = 0.0  # seconds before its end at which nothing more starts
        self.requeues = 0  # how often the job may start again
        self.requeue = ""  # the shell text for that
        self.earlier = int(os.environ.get("DLRUN_RESTART") or 0)
        self.begun = time.monotonic()
        self.started = int(time.time())
        self.closing = False  # the end of the walltime is near: no more parts start
        self.has_warned = False
        self.reason = ""  # why it was asked to end
        self.code = 0
        self.hosts: List[str] = []  # where lib/first-node.sh may watch this program; the first is its own
        self.beat, self.beats = 0.0, 0
        self.watcher: Any = None

    def words(self, host: str, component: str = "") -> List[str]:
        """The words before a program that runs on a host, which a component of the job has, if it has several."""
        return [word.replace("{host}", host).replace("{component}", component) for word in self.start]

    def show_life(self) -> None:
        """Count on in `.alive`, which a program on another host watches."""
        if len(self.hosts) < 2 or time.monotonic() < self.beat:
            return
        self.beat, self.beats = time.monotonic() + BEAT, self.beats + 1
        with contextlib.suppress(OSError):
            write_state(self.directory, {"beat": self.beats}, ".alive")
        if self.watcher is None or self.watcher.poll() is not None:
            self.hosts.append(self.hosts.pop(1))  # the one before may be on a lost host
            words = self.words(self.hosts[1])
            program = os.path.join(self.directory, "lib", "first-node.sh")
            how = "requeue" if self.earlier < self.requeues else "cancel"
            words += ["bash", "-p", program, self.hosts[0], self.directory, how]
            nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
            self.watcher = subprocess.Popen(words, stdin=nothing, stdout=pipe, stderr=nothing)
            if self.beats == 1:  # the job waits until it has begun: a loss before that would not be noticed
                select.select([self.watcher.stdout], [], [], BEGINS)

    def end_watcher(self) -> None:
        """End the program on the other host, since the job ends."""
        if self.watcher is not None:
            self.watcher.terminate()

    def listen(self) -> None:
        """Let signals wake `wait`, and be asked and warned by them."""
        os.set_blocking(_WOKEN, False)
        signal.set_wakeup_fd(_WOKEN)
        signal.signal(signal.SIGCHLD, noticed)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.asked)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self.warned)
        signal.signal(signal.SIGALRM, self.timed_out)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def asked(self, number: int, frame: Any) -> None:  # noqa: ARG002 - what a signal handler is given
        """The handler of SIGTERM and SIGINT."""
        self.reason = self.reason or ("timed out" if self.is_over() else "cancelled")

    def timed_out(self, number: int, frame: Any) -> None:  # noqa: ARG002 - what a signal handler is given
        """The handler of SIGALRM, by which some schedulers end a job at the end of its walltime."""
        self.reason = self.reason or "timed out"

    def warned(self, number: int, frame: Any) -> None:  # noqa: ARG002 - what a signal handler is given
        """The handler of the scheduler's early signal, which counts where the walltime is unknown."""
        self.closing = self.closing or not self.walltime

    def left(self) -> float:
        """Seconds until the end of the walltime."""
        return self.walltime - (time.monotonic() - self.begun) if self.walltime else float("inf")

    def is_over(self) -> bool:
        """True in the last tenth of the walltime, at most a minute: the job began earlier than this program."""
        return self.left() <= min(60.0, self.walltime / 10)

    def look_at_time(self) -> bool:
        """End the job at the end of its walltime; True, once, as soon as what runs has to be warned of it."""
        if self.left() <= 0:  # schedulers may still let programs run, but start no others
            self.reason = self.reason or "timed out"
        if self.before and self.left() <= self.before:
            self.closing = True
        is_news = self.closing and not self.has_warned
        self.has_warned = self.closing
        return is_news

    def warn(self, name: str, concerned: str, processes: Iterable[Any]) -> None:
        """Send the signal of this name to processes, which the log describes so."""
        text = "dlrun: the walltime ends in about {} s: SIG{} to {}"
        log_line(text.format(int(self.before), name, concerned))
        for process in processes:
            process.send_signal(getattr(signal, "SIG" + name))

    def await_signal(self) -> None:
        """Where the scheduler has signalled a part of the job, this program may get the signal a moment later."""
        until = time.monotonic() + SIGNAL_DELAY
        while not self.reason and time.monotonic() < until:
            wait(0.2)

    def request_restart(self, why: str = "") -> bool:
        """Request another start of the job if one is left, with this text in the log; True if it follows."""
        if self.earlier >= self.requeues or not self.requeue:
            return False
        log_line("dlrun: {}another start of the job follows".format(why))
        self.record("requeued")
        environment = dict(os.environ, DLRUN_RUN_DIR=self.directory)
        if subprocess.call(["bash", "-c", self.requeue], env=environment) == 0:
            return True
        log_line("dlrun: the job could not be started again")
        return False

    def record(self, state: str) -> None:
        """Write the record of the job itself."""
        over = state != "running"
        with contextlib.suppress(OSError):  # a full disk: the scheduler has the end, too
            write_state(self.directory, {
                "version": 1, "state": state, "job_id": os.environ["DLRUN_JOB_ID"], "host": os.uname().nodename.partition(".")[0],
                "started": self.started, "ended": int(time.time()) if over else None, "exit_code": self.code if over else None,
                "reason": self.reason or None, **self.details(),
            })  # fmt: skip

    def details(self) -> Dict[str, Any]:
        """What else the record of the job has."""
        return {}


def end_held(processes: Iterable[Any]) -> None:
    """End programs that last as long as their standard input, all at once; kills those that have not ended after `ENDS`."""
    each = list(processes)
    for process in each:
        with contextlib.suppress(OSError):
            process.stdin.close()
    until = time.monotonic() + ENDS
    for process in each:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def log_line(text: str) -> None:
    """A line of the job's log."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_state(directory: str, state: Dict[str, Any], name: str = "state.json") -> None:
    """Write a record atomically."""
    temporary = os.path.join(directory, ".state.pool")
    with open(temporary, "w") as stream:
        json.dump(state, stream)
        stream.write("\n")
    os.rename(temporary, os.path.join(directory, name))


def read_state(directory: str) -> Dict[str, Any]:
    """The record that job.sh keeps in a directory; empty if there is none."""
    try:
        with open(os.path.join(directory, "state.json"), "rb") as stream:
            return dict(json.loads(stream.read().decode("utf-8")))
    except (OSError, ValueError):
        return {}


def noticed(number: int, frame: Any) -> None:
    """The handler of SIGCHLD: with one, the signal wakes `wait`."""


def wait(most: float = PAUSE) -> None:
    """Until a signal comes, such as SIGCHLD at the end of a process, but at most so many seconds."""
    if select.select([_WAKE], [], [], most)[0]:
        os.read(_WAKE, 1 << 16)


_WAKE, _WOKEN = os.pipe()
