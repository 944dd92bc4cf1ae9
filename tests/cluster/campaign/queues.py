"""Faults around jobs: arrays, jobs that wait for others, a controller that goes away, another user."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tests.cluster.campaign.fault import BOTH, ONE, WAIT, Fault, bash, on_nodes

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

# ruff: noqa: E501 - a table

WITH_IT = ("flux",)
"""Schedulers whose jobs end with the controller: a Flux instance is the brokers that run the jobs."""
SWEEP: Mapping[str, Any] = {"lr": [1, 2, 3]}
SAVES = "import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\ntime.sleep(600)"


def _cancel_points(it: Field, job: str) -> None:
    for point in (1, 2):
        it.dlrun("cancel", f"{job}:{point}")
    it.dlrun("release", job)


def _cancel_running_point(it: Field, job: str) -> None:
    it.until(lambda: "begun" in it.log(job, "rank-0"))
    it.dlrun("cancel", f"{job}:1")


def _kill_point(it: Field, job: str) -> None:
    it.until(lambda: "begun" in it.log(job, "rank-0"))
    (host,) = (it.job_dir(job) / "points" / "1" / "hosts").read_text().split()
    mine = f"grep -qzxF DLRUN_RUN_DIR={it.job_dir(job)}/points/1 /proc/$p/environ"
    it.on(host, f"for p in $(pgrep -u alice -x sleep); do {mine} && kill -9 $p; done")


def _after(when: str, first: Mapping[str, Any]) -> Callable[[Field], Mapping[str, Any]]:
    """A job that waits for another one, which is submitted first."""

    def before(it: Field) -> Mapping[str, Any]:
        other = it.hand_over({"name": "first", "framework": "torch", **first})
        it.other = other
        return {"after": [{"job": other, "when": when}]}

    return before


def _cancel_other(it: Field, job: str) -> None:
    it.dlrun("cancel", it.other)


def _away(it: Field, job: str, how: str) -> None:
    """A rank fails while the controller is away."""
    it.begun(job)
    it.begun(job, 1)
    host = it.hosts(job)[1]
    it.ground.stop_server(it, how)
    it.kill(job, host)


def _away_and_back(how: str) -> Callable[[Field, str], None]:
    def strike(it: Field, job: str) -> None:
        _away(it, job, how)
        time.sleep(3)
        it.ground.start_server(it)

    return strike


def _accounting_away(it: Field, job: str) -> None:
    it.begun(job, 1)
    it.on("login", "kill $(pgrep -x slurmdbd); while pgrep -x slurmdbd; do sleep 0.1; done")
    it.kill(job, it.hosts(job)[1])


def _another_user(it: Field, job: str) -> None:
    """Bob can neither cancel it nor end its processes."""
    it.begun(job)
    it.ground.cancel(it, job, "bob")
    it.cluster.on(it.hosts(job)[0], "pkill -KILL -u alice", user="bob")


def _preempt(it: Field, job: str) -> None:
    it.begun(job)
    it.hand_over({"name": "high", "framework": "torch", **bash("echo begun"),
                  "resources": {**BOTH, "nodes": 6, "partition": "high", "exclusive": True}})  # fmt: skip


HOLDS = "import socket, time\nfor port in range(20000, 20008):\n  s = socket.socket(); s.bind(('', port)); s.listen(); globals()[str(port)] = s\ntime.sleep(600)"

QUEUES = (
    Fault(name="one point of a sweep fails", causes=("exception",), point=":1",
          spec={"command": ["python3", "-c", "x = 1 / (2 - {{ lr }})"], "resources": ONE, "sweep": SWEEP}),
    Fault(name="points cancelled before they start", causes=("cancelled",), point=":1", strike=_cancel_points,
          spec={"command": ["true"], "resources": ONE, "sweep": SWEEP, "hold": True}),
    Fault(name="a point cancelled while it runs", causes=("cancelled",), point=":1", strike=_cancel_running_point,
          spec={"command": ["bash", "-c", "echo begun; (({{ lr }} == 2)) || exit 0; exec sleep 600"], "resources": ONE, "sweep": SWEEP}),
    Fault(name="a point is killed", causes=("killed",), point=":1", strike=_kill_point,
          spec={"command": ["bash", "-c", "echo begun; (({{ lr }} == 2)) || exit 0; exec sleep 600"], "resources": ONE, "sweep": SWEEP}),
    Fault(name="it waits for a job that fails", causes=("dependency",), blocked=True, spec=WAIT, before=_after("ok", {**bash("sleep 5; exit 3"), "resources": ONE})),
    Fault(name="it waits for the failure of a job that ends well", causes=("dependency",), blocked=True, spec=WAIT, before=_after("not_ok", {**bash("sleep 5"), "resources": ONE})),
    Fault(name="it waits for a job that is cancelled", causes=("dependency",), blocked=True, spec=WAIT,
          before=_after("ok", {**WAIT, "resources": ONE, "hold": True}), strike=_cancel_other),
    Fault(name="it waits for a job that saves and ends with 0", causes=("dependency",), blocked=True, spec=WAIT, within=200,
          before=_after("ok", {"command": ["python3", "-c", SAVES], "resources": {**ONE, "walltime": "1m"}, "checkpoint": {"signal": "USR1", "before_end": "45s"}})),
    Fault(name="another user tries to end it", causes=("none",), spec=bash("echo begun; sleep 8"), strike=_another_user),
    Fault(name="another user holds some of the ports", causes=("none",), spec=bash("echo begun"), site={"rendezvous": {"ports": [20000, 20099]}}, alone=True,
          before=on_nodes(f"setsid setpriv --reuid=bob --regid=bob --clear-groups python3 -c \"{HOLDS}\" </dev/null >/dev/null 2>&1 &", "n1"),
          after=on_nodes("pkill -u bob -x python3", "n1")),
    Fault(name="the controller is away when a rank dies", causes=("killed",), spec=WAIT, strike=_away_and_back("TERM"), never=WITH_IT, alone=True),
    Fault(name="the controller is killed, a rank dies, it comes back", causes=("killed",), spec=WAIT, strike=_away_and_back("KILL"), never=WITH_IT, alone=True),
    Fault(name="the controller is still away when why is asked", causes=("killed",), spec=WAIT, strike=lambda it, job: _away(it, job, "KILL"), unasked=True, never=WITH_IT, alone=True,
          after=lambda it: it.ground.start_server(it)),
    Fault(name="the accounting daemon is away", causes=("killed",), spec=WAIT, strike=_accounting_away, only="slurm", alone=True,
          after=lambda it: it.on("login", "/usr/sbin/slurmdbd") and None),
    Fault(name="preempted", causes=("preempted",), spec={**WAIT, "resources": {**BOTH, "partition": "low"}}, strike=_preempt, never=("flux", "gridengine"), alone=True),
)  # fmt: skip
