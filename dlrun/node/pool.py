"""Run the points of a sweep inside one job: each starts as soon as one of the job's places is free.

    python3 pool.py POINTS PLACES AT_ONCE WALLTIME BEFORE SIGNAL TIMES REQUEUE HOST,... [START...]

Each host has PLACES places, of which at most AT_ONCE are used (0: all); with DLRUN_NODES above 1 a place is so many hosts. A
point is `bash job.sh POINT PLACE STARTS` below START, where `{host}` stands for the host and `{signal}` for SIGNAL, and STARTS
counts its earlier starts; on several hosts it starts here, and gets their names in DLRUN_CHOSEN_HOSTS. Its state, logs and exit
code are those of a run of its own. Points with the record of an end do not run again. SIGTERM, or a file `.cancel` in the
directory of a point, ends points: SIGTERM, and SIGKILL after 15 s (DLRUN_GRACE + 5) and those in which results are copied
(DLRUN_COPIES). A place that cannot start points three times in a row is left out, and its point runs on another. So it is with
all places of a host whose point left no record of its end, or failed on several hosts, and which then does not answer; the
other hosts form new places. `.alive` has a new count every few seconds, by which lib/first-node.sh on another host sees whether
this one is lost. POINTS is their number at the submission: those that plan.json has beyond it come after them, also while the
job runs, until this program writes that it has ended, with the number that it knew.

BEFORE seconds before the end of the walltime no more points start, and those that run get SIGNAL (`-`: SIGTERM). A point
that asks for it (`.again`) starts again. What is left then runs in the next start of the job, which the shell text REQUEUE
requests, up to TIMES times (0: never). The exit code is that of the first point that failed.
"""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Deque, Dict, List

if TYPE_CHECKING or __package__:
    from .coordinator import LOST, Coordinator, end_held, log_line, read_state, wait, write_state
    from .holders import Holders
    from .mps import Daemons
    from .places import Place, Places
else:  # in a job directory they are files side by side, and Python's -I does not look there
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from coordinator import LOST, Coordinator, end_held, log_line, read_state, wait, write_state
    from holders import Holders
    from mps import Daemons
    from places import Place, Places

    del sys.path[0]

GRACE = float(os.environ.get("DLRUN_GRACE") or 10.0) + 5.0 + float(os.environ.get("DLRUN_COPIES") or 0)
TRIES = 3
ANSWER = 60.0
"""Seconds within which a host answers; a scheduler may be busy with the loss of another one."""


class Pool(Coordinator):
    """The job, and the words before each point."""

    def __init__(self, directory: str, start: List[str], walltime: float) -> None:
        super().__init__(directory, walltime, start)
        self.signal = ""  # what the points get near the end of the walltime
        self.signalled = []  # type: List[int]
        self.lost = []  # type: List[str] # hosts that do not answer any more
        self.lost_before = list(read_state(directory).get("lost") or [])  # type: List[str]
        self.mps = Daemons(directory, int(os.environ.get("DLRUN_MPS_SHARE") or 0))
        self.places = Places([], 1, 0)
        self.by_file = False  # at SIGTERM srun kills what it has started, which could not copy its results
        self.points = 0
        self.submitted = 0  # the points after these were added
        self.plan = None  # type: Any # what the file plan.json was at the last look

    def run(self, points: int, places: Places, at_once: int) -> int:
        """Run all points that have not ended, so many at a time; returns the exit code of the first that failed."""
        self.submitted, self.points = points, max(points, self.count())
        waiting = collections.deque()  # type: Deque[int]
        for point in range(self.points):
            state = self.state(point)
            # Some ended with the start before, when this program was gone.
            if state.get("state") == "ended" and state.get("reason") in ("asked to end", LOST):
                state["unfinished"] = True
                self.write(point, state)
            if not is_done(state):
                waiting.append(point)
        self.places = places
        without = self.mps.start(dict.fromkeys(place.host for place in places.first), self.words)
        for host in without:
            log_line("dlrun: node {} has no daemon of NVIDIA's MPS, and gets no points".format(host))
        free = collections.deque(place for place in places.first if place.host not in without)
        running = []  # type: List[Place]
        log_line("dlrun: {} of {} points to run, {} at a time".format(len(waiting), self.points, at_once))
        self.record("running")
        while (
            self.takes_added(waiting) or running or (waiting and free and not (self.reason or self.closing))
        ):
            if self.look_at_time():
                self.close(running)
            self.show_life()
            while waiting and free and len(running) < at_once and not (self.reason or self.closing):
                place = free.popleft()
                if self.begin(place, waiting.popleft()):
                    running.append(place)
                else:
                    free.appendleft(place)
            wait()
            for place in list(running):
                self.watch(place)
                if place.process is not None and place.process.poll() is not None and not self.asks(place):
                    running.remove(place)
                    self.end(place, waiting, free)
        self.end_watcher()
        self.name_those_that_were_signalled()
        left = [i for i in range(self.points) if not is_done(self.state(i))]
        if left and not (self.reason or self.closing):
            log_line("dlrun: no place is left that can start a point")
            self.code = self.code or 1
            if self.lost and self.request_restart("{} of the points are left: ".format(len(left))):
                sys.exit(124)
        elif left:
            self.leave(left)
        if self.reason:
            log_line("dlrun: asked to end ({})".format(self.reason))
            self.code = 128 + signal.SIGTERM
        self.record("ended")
        return self.code

    def count(self) -> int:
        """The number of points in plan.json, 0 if it has not changed since the last look: it is replaced as a whole."""
        path = os.path.join(self.directory, "plan.json")
        try:
            seen = os.stat(path)
            mark = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if mark == self.plan:
                return 0
            with open(path, "rb") as stream:
                points = len(json.loads(stream.read().decode("utf-8")).get("points") or ())
        except (OSError, ValueError):
            return 0
        self.plan = mark
        return points

    def takes_added(self, waiting: Deque[int]) -> bool:
        """Let the points wait that were added since the last look, and record their number; False if there are none."""
        points = 0 if self.reason or self.closing else self.count()
        if points <= self.points:
            return False
        log_line("dlrun: {} points were added".format(points - self.points))
        waiting.extend(range(self.points, points))
        self.points = points
        self.record("running")
        return True

    def close(self, running: List[Place]) -> None:
        """Near the end of the walltime: warn the points that run, or end them."""
        if self.signal:
            to = "{} points".format(len(running))
            self.warn(self.signal, to, [place.process for place in running])
        else:
            self.reason = self.reason or "timed out"

    def name_those_that_were_signalled(self) -> None:
        """Points that the scheduler signalled, or ended, itself have the reason of the job."""
        if self.signalled:
            self.await_signal()
        for point in self.signalled if self.reason else ():
            self.write(point, dict(self.state(point), reason=self.reason, unfinished=True))

    def leave(self, left: List[int]) -> None:
        """Leave these points to the next start of the job; without one they have ended with this one."""
        text = "{} of the points are left: ".format(len(left))
        if (self.reason or "timed out") == "timed out" and self.request_restart(text):
            sys.exit(124)
        for point in left:
            state = self.state(point)
            if not state.get("unfinished"):
                state.update(version=1, state="ended", ended=int(time.time()), unfinished=True)
                self.write(point, dict(state, reason=self.reason or "timed out"))

    def begin(self, place: Place, point: int) -> bool:
        """Start a point on a place; False if it was cancelled before."""
        if self.is_cancelled(point):
            end = {"version": 1, "state": "ended", "ended": int(time.time()), "reason": "cancelled"}
            self.write(point, end)
            return False
        place.take(point)
        place.before = self.text(point)
        self.make_directories(point)
        self.ask(point, "run")
        environment = self.mps.environment(place.host)
        words = [] if place.is_wide else self.words(place.host)
        if place.is_wide:
            environment["DLRUN_CHOSEN_HOSTS"] = ",".join(place.hosts)
        state = self.state(point)
        starts = int(state.get("restarts") or 0) + 1 if "restarts" in state else 0
        words += ["env", "DLRUN_POINT_ADDED=1"] if point >= self.submitted else []
        words += ["bash", os.path.join(self.directory, "job.sh"), str(point), str(place.number), str(starts)]
        place.log = open(os.path.join(self.path(point), "logs", "job.log"), "ab")  # noqa: SIM115 - until its end
        place.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=place.log, stderr=place.log, cwd=self.directory,
            env=environment,
        )  # fmt: skip
        return True

    def make_directories(self, point: int) -> None:
        """Make the directories that job.sh expects for a first start; what is missing it makes itself."""
        names = ["failures", "ended", "placement"]
        if os.path.exists(os.path.join(self.directory, "usage.py")):
            names.append("usage")
        with contextlib.suppress(OSError):  # they are there
            for name in names:
                os.mkdir(os.path.join(self.path(point), name))
                if name != "usage":  # its files have names of nodes, and stay
                    open(os.path.join(self.path(point), name, ".dlrun"), "w").close()

    def words(self, host: str, component: str = "") -> List[str]:
        """The words before a program that runs on a host."""
        return [self.signal if word == "{signal}" else word for word in super().words(host, component)]

    def asks(self, place: Place) -> bool:
        """Ask the next host of a point that may have lost one whether it is there; false if that is known or of no use."""
        if place.asked_after < 0:
            if place.reason or self.reason or self.is_over() or not self.may_lack_a_host(place):
                return False
            place.asked_after, place.to_ask = exit_code(place.process), list(place.hosts)
        elif exit_code(place.process):
            place.silent.append(place.to_ask.pop(0))
        else:
            place.to_ask.pop(0)
        while place.to_ask and place.to_ask[0] in self.lost:
            place.silent.append(place.to_ask.pop(0))
        if place.reason or not place.to_ask:
            return False
        place.deadline = time.monotonic() + ANSWER
        words = [*self.words(place.to_ask[0]), "true"]
        place.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=place.log, stderr=place.log)
        return True

    def may_lack_a_host(self, place: Place) -> bool:
        """Whether a point has left no record of its end, or has failed on several hosts, of which one may be lost."""
        if self.text(place.point) == place.before:
            return False  # it did not begin
        failed = place.is_wide and exit_code(place.process) != 0
        return failed or self.state(place.point).get("state") == "running"

    def watch(self, place: Place) -> None:
        """End the point of a place if that was requested."""
        process = place.process
        if process is None or process.poll() is not None:
            return
        if not place.reason and (self.reason or self.is_cancelled(place.point)):
            place.reason = self.reason or "cancelled"
            place.deadline = time.monotonic() + GRACE
            if self.by_file and not place.is_wide:
                self.ask(place.point, "end")
            else:
                process.terminate()
        elif (place.reason or place.asked_after >= 0) and time.monotonic() > place.deadline:
            process.kill()

    def ask(self, point: int, what: str) -> None:
        """Write what a point is asked, in the file where its job.sh looks."""
        if self.by_file:
            with contextlib.suppress(OSError), open(os.path.join(self.path(point), ".asked"), "w") as stream:
                stream.write(what + "\n")

    def end(self, place: Place, waiting: Deque[int], free: Deque[Place]) -> None:
        """The process of a place has ended: complete the record of its point, or put the point back if it did not begin."""
        point, seconds = place.point, time.monotonic() - place.begun
        code = exit_code(place.process)
        if place.log is not None:
            place.log.close()
        place.process = place.log = None
        if place.asked_after >= 0 and not place.reason:
            code = place.asked_after
            if place.is_wide and len(place.silent) == len(place.hosts):
                self.await_signal()  # at the end of the whole job none answers
                place.reason = self.reason
            if place.silent and not place.reason:
                self.lose(place, waiting, free)
                return
        if self.text(point) == place.before and not place.reason:
            place.failures += 1
            waiting.appendleft(point)
            log_line("dlrun: point {} did not begin on {}: exit code {}".format(point, place.name, code))
            if self.is_over():
                self.reason = self.reason or "timed out"
            if place.failures < TRIES and place.host not in self.lost:
                free.append(place)
            else:
                log_line("dlrun: place {} of {} is left out".format(place.number, place.name))
            return
        place.failures = 0
        if place.host not in self.lost:
            free.appendleft(place)
        state = self.state(point)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path(point), ".again"))
            if state.get("state") == "requeued" and not place.reason:
                log_line("dlrun: point {} starts again after exit code {}".format(point, code))
                waiting.append(point)
                return
        if (place.reason and code) or state.get("state") != "ended":
            ended = int(time.time())
            state.update(version=1, state="ended", ended=ended, exit_code=code)
            state.setdefault("started", ended - int(seconds))
            state["reason"] = place.reason or "killed"
            if place.reason and not self.is_cancelled(point):
                state["unfinished"] = True
            self.write(point, state)
            if state["reason"] == "killed" and self.is_over():  # some schedulers take the other nodes away
                self.signalled.append(point)
        elif state.get("reason") == "asked to end":
            self.signalled.append(point)
        self.code = self.code or code
        text = "dlrun: point {} ended with exit code {}: {}, place {}, {} s"
        log_line(text.format(point, code, place.name, place.number, round(seconds, 1)))

    def lose(self, place: Place, waiting: Deque[int], free: Deque[Place]) -> None:
        """Hosts of a place do not answer any more: its point runs again, on others."""
        for host in [host for host in place.silent if host not in self.lost]:
            self.lost.append(host)
            for other in [other for other in free if other.host == host]:
                free.remove(other)
            log_line("dlrun: node {} does not answer any more, and gets no more points".format(host))
            self.record("running")
        free.extend(self.places.form(place))
        state = dict(self.state(place.point), state="requeued", reason=LOST, ended=int(time.time()))
        self.write(place.point, state)
        waiting.appendleft(place.point)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path(place.point), ".again"))
        log_line("dlrun: point {} runs again, as {} is lost".format(place.point, ", ".join(place.silent)))

    def details(self) -> Dict[str, Any]:
        """What else the record of the job has: the hosts lost in all starts, and how many points it knows."""
        lost = self.lost_before + [host for host in self.lost if host not in self.lost_before]
        return {"lost": lost, "points": self.points}

    def path(self, point: int) -> str:
        """The directory of a point."""
        return os.path.join(self.directory, "points", str(point))

    def is_cancelled(self, point: int) -> bool:
        """True if this point was cancelled."""
        return os.path.exists(os.path.join(self.path(point), ".cancel"))

    def text(self, point: int) -> bytes:
        """The record of a point as its script wrote it; empty if there is none."""
        try:
            with open(os.path.join(self.path(point), "state.json"), "rb") as stream:
                return stream.read()
        except OSError:
            return b""

    def state(self, point: int) -> Dict[str, Any]:
        """The record of a point; empty if there is none."""
        return read_state(self.path(point))

    def write(self, point: int, state: Dict[str, Any]) -> None:
        """Write the record of a point."""
        write_state(self.path(point), state)


def is_done(state: Dict[str, Any]) -> bool:
    """True for the record of a point that has ended by itself, not with a job that was asked to end and started again."""
    return state.get("state") == "ended" and not state.get("unfinished")


def exit_code(process: Any) -> int:
    """The exit code of a process that has ended, as a shell gives it."""
    code = int(process.wait())
    return 128 - code if code < 0 else code


def main(arguments: List[str]) -> int:
    """Run all points on the places of the hosts."""
    points, each, at_once, walltime = map(int, arguments[:4])
    hosts, start = arguments[8].split(","), arguments[9:]
    places = Places(hosts, int(os.environ.get("DLRUN_NODES") or 1), each)
    only = os.environ.pop(
        "DLRUN_ONLY_PLACE", ""
    )  # a trial of `dlrun tune` has one: of these nodes, this place
    if only:
        nodes, number = only.split()
        hosts = [hosts[int(node)] for node in nodes.split(",")]
        places = Places(hosts, places.nodes, each)
        places.first, places.spare = [Place(hosts, int(number))], []
    pool = Pool(os.environ["DLRUN_JOB_DIR"], start, walltime)
    pool.before, pool.signal = int(arguments[4]), arguments[5].strip("-")
    pool.requeues, pool.requeue = int(arguments[6]), "" if arguments[7] == "-" else arguments[7]
    if start and "{signal}" not in start:  # by Slurm
        pool.hosts, pool.by_file = hosts, "DLRUN_COPIES" in os.environ
    pool.listen()
    holders = Holders(pool.directory)
    holders.start(dict.fromkeys(places.granted), pool.words)
    try:
        return pool.run(points, places, min(at_once or len(places.first), len(places.first)))
    finally:
        end_held([*pool.mps.processes.values(), *holders.processes.values()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
