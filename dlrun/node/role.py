"""One role of a job: its own job.sh on its part of the nodes, its check, its end and its record. Used by roles.py."""

import contextlib
import ctypes
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

if TYPE_CHECKING or __package__:
    from . import coordinator, ready
else:
    import coordinator
    import ready

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_GPUS = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "SLURM_JOB_GPUS",
)
"""What schedulers set for the GPUs of a node, which are others on nodes of another type."""


class Failure(NamedTuple):
    """The end of a process that failed: nanoseconds since 1970, exit code, and a text about it."""

    time: int
    code: int
    text: str


class Role:
    """A role as `roles.json` has it, where it runs, and how it is."""

    def __init__(self, directory: str, entry: Dict[str, Any], grace: float) -> None:
        self.name = str(entry["name"])
        self.nodes = int(entry.get("nodes") or 1)
        self.needs: List[str] = list(entry.get("needs") or ())
        self.ends = bool(entry.get("ends"))
        self.most_restarts = int(entry.get("restarts") or 0)
        self.ports = int(entry.get("ports") or 0)
        self.ready: Optional[Dict[str, Any]] = entry.get("ready")
        self.within = float(entry.get("within") or 600)
        self.signal = str(entry.get("signal") or "")
        self.beside = str(entry.get("beside") or "")
        self.component = str(entry.get("component", ""))  # of the job, if its nodes are of several types
        self.directory = os.path.join(directory, "roles", self.name)
        self.program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ready.py")
        self.grace = grace + float(entry.get("copies") or 0)  # its results are copied, too
        self.hosts: List[str] = []
        self.host = ""  # the address of the first
        self.port = 0
        self.state = "waiting"
        self.since = int(time.time())
        self.started: Optional[int] = None
        self.ended: Optional[int] = None
        self.code: Optional[int] = None
        self.ready_after: Optional[float] = None
        self.restarts = 0
        self.cause = ""
        self.stopped = False  # ended by this program
        self.process: Any = None  # of its job
        self.check: Any = None
        self.log: Any = None
        self.answer: Any = None
        self.before: Dict[str, Any] = {}  # the record of an earlier start
        self.begun = self.deadline = 0.0

    def variables(self) -> Dict[str, str]:
        """What every role knows of this one."""
        prefix = "DLRUN_ROLE_" + self.name.upper().replace("-", "_") + "_"
        values = {"HOSTS": ",".join(self.hosts), "HOST": self.host}
        if self.port:
            values.update(PORT=str(self.port), ADDRESS="{}:{}".format(self.host, self.port))
        return {prefix + name: value for name, value in values.items()}

    def begin(self, environment: Dict[str, str], earlier: int) -> None:
        """Start its job; earlier: how often it was started before."""
        self.begun, self.ready_after = time.monotonic(), None
        self.started = self.started or int(time.time())
        self.takes_request()  # that of an earlier start of the job
        if self.ready:
            self.watch()
        os.makedirs(os.path.join(self.directory, "logs"), exist_ok=True)
        self.log = open(os.path.join(self.directory, "logs", "job.log"), "ab")  # noqa: SIM115 - until its end
        self.before = coordinator.read_state(self.directory)
        words = ["bash", os.path.join(self.directory, "job.sh"), str(earlier)]
        own = dict(environment, DLRUN_CHOSEN_HOSTS=",".join(self.hosts))
        if self.component:
            own["DLRUN_COMPONENT"] = self.component
        if self.component not in ("", "0"):
            for name in _GPUS:  # those of the script's node
                own.pop(name, None)
        self.process = child(words, stdout=self.log, stderr=self.log, cwd=self.directory, env=own)
        self.change("starting" if self.ready else "running")

    def takes_request(self) -> bool:
        """Whether its job has asked for another start, which is noticed once."""
        try:
            os.unlink(os.path.join(self.directory, ".again"))
        except OSError:
            return False
        return True

    def watch(self) -> None:
        """Start the process that ends once the role is ready."""
        wanted = dict(self.ready or {})
        if "file" in wanted:
            wanted["file"] = os.path.join(self.workplace(), wanted["file"])
        check: Dict[str, Any] = {
            "ready": wanted,
            "host": self.host,
            "port": self.port,
            "directory": self.directory,
        }
        check["before"] = ready.Check(check).look_before()
        self.answer = tempfile.TemporaryFile()  # noqa: SIM115 - until it is ready
        words = [sys.executable, "-I", self.program, json.dumps(check)]
        self.check = child(words, signal.SIGKILL, stdout=self.answer)

    def workplace(self) -> str:
        """Its working directory in the job's copy of the code (`code: snapshot`); its own directory without one."""
        try:
            with open(os.path.join(self.directory, "code", "snapshot"), errors="surrogateescape") as stream:
                below = stream.read().split("\n")[1]
        except (OSError, IndexError):
            return self.directory
        return os.path.join(os.path.dirname(os.path.dirname(self.directory)), "work", below)

    def is_up(self) -> bool:
        """True if those that need this role may start, or could have: it is ready, or has started where nothing is checked."""
        return self.state in ("ready", "running") or (
            self.state == "ended" and (self.ready_after is not None or not self.ready)
        )

    def look(self) -> str:
        """Notice that the role is ready; the cause if it should have been by now, else an empty text."""
        if self.check is None:
            return ""
        ended = self.check.poll()  # once: it may end between two lines
        if ended == 0:
            self.become_ready()
        elif ended is not None:
            self.leave_check()
            return "its check ended by itself"
        elif time.monotonic() - self.begun > self.within:
            last = self.last_answer() or "none"
            self.leave_check()
            return "role {} was not ready within {}: last answer: {}".format(
                self.name, duration(self.within), last
            )
        return ""

    def become_ready(self) -> None:
        """Its check has ended well."""
        self.ready_after = round(time.monotonic() - self.begun, 1)
        self.change("ready")
        coordinator.log_line(
            "dlrun: role {} is ready after {} s at {}".format(self.name, self.ready_after, self.place())
        )
        self.leave_check()

    def last_answer(self) -> str:
        """Why it was not ready when it was last asked."""
        return os.pread(self.answer.fileno(), 1 << 12, 0).decode("utf-8", "replace").partition("\n")[0]

    def leave_check(self) -> None:
        """End its check."""
        if self.check is not None:
            self.check.kill()
            self.check.wait()
            self.answer.close()
            self.check = None

    def place(self) -> str:
        """Where it runs, for the log."""
        return "{}:{}".format(self.host, self.port) if self.port else self.host

    def is_running(self) -> bool:
        """True from its start until its end has been noticed."""
        return self.process is not None

    def stop(self) -> None:
        """End it: SIGTERM at the first call, and SIGKILL at one after the grace period."""
        if not self.stopped:
            self.stopped = True
            self.deadline = time.monotonic() + self.grace
            self.leave_check()
            self.process.terminate()
        elif time.monotonic() > self.deadline:
            self.process.kill()

    def collect(self) -> Optional[int]:
        """Its exit code if it has ended since the last call, else None."""
        if self.process is None or self.process.poll() is None:
            return None
        code = self.process.wait()
        self.log.close()
        # It may have become ready and have ended since the last look.
        if self.check is not None and self.check.poll() == 0:
            self.become_ready()
        self.leave_check()
        self.process = self.log = None
        self.code = int(128 - code if code < 0 else code)
        return self.code

    def reason(self) -> str:
        """Why its own job has ended, in one of the words of state.json; empty if unknown."""
        state = coordinator.read_state(self.directory)
        has_ended = state != self.before and state.get("state") in ("ended", "requeued")
        return str(state.get("reason") or "") if has_ended else ""

    def first_failure(self) -> Optional[Failure]:
        """The first process that failed in this start; None if none has."""
        if self.started is None:
            return None
        failures: List[Failure] = []
        for path in glob.glob(os.path.join(glob.escape(self.directory), "failures", "*-*[0-9]")):
            with contextlib.suppress(OSError, ValueError):
                with open(path, errors="replace") as stream:
                    when, process, rank, host, code, *why = stream.readline().split(None, 5)
                text = "{} {} on {} ended with exit code {}".format(process, rank, host, code)
                failures.append(Failure(int(when), int(code), ", ".join([text, *map(str.strip, why)])))
        return min(failures) if failures else None

    def change(self, state: str) -> None:
        """Enter a state, and record it."""
        self.state, self.since = state, int(time.time())
        self.ended = self.since if state == "ended" else None
        self.record()

    def record(self) -> None:
        """Write role.json."""
        over = self.state == "ended"
        with contextlib.suppress(OSError):  # a full disk
            coordinator.write_state(self.directory, {
                "version": 1, "role": self.name, "state": self.state, "since": self.since, "started": self.started,
                "ended": self.ended, "ready_after": self.ready_after, "restarts": self.restarts,
                "exit_code": self.code if over else None, "cause": self.cause or None, "stopped": self.stopped,
                "host": self.hosts[0], "hosts": self.hosts, "port": self.port or None,
                "address": "{}:{}".format(self.host, self.port) if self.port else None,
            }, "role.json")  # fmt: skip


def child(words: List[str], number: int = signal.SIGTERM, **options: Any) -> Any:
    """Start a process that gets this signal when this one ends, however that ends."""
    parent = os.getpid()

    def ask() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # it has ended before that
            os._exit(1)

    # There is one thread, so nothing holds a lock where the process begins.
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, preexec_fn=ask, **options)  # noqa: PLW1509


def duration(seconds: float) -> str:
    """Some seconds in plain words."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return "{:g} {}".format(seconds / size, unit)
    return "{:g} s".format(seconds)
