"""The faults of the campaign: what is run, how it is broken, and the cause that must be named."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.cluster import slurm

if TYPE_CHECKING:
    from tests.cluster.campaign import Field

BOTH = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
ONE = {**BOTH, "nodes": 1}
NODES = tuple(f"n{number}" for number in range(1, 7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `causes` are those that are right, `told` words that the answer must have.

    `before` and `after` change the cluster around the job, `strike` breaks it while it runs; `alone` for what hits nodes.
    """

    name: str
    causes: tuple[str, ...]
    spec: Mapping[str, Any]
    told: tuple[str, ...] = ()
    site: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Field], None] | None = None
    strike: Callable[[Field, str], None] | None = None
    after: Callable[[Field], None] | None = None
    alone: bool = False
    within: float = 150.0
    point: str = ""


def _bash(script: str, **more: Any) -> dict[str, Any]:
    return {"command": ["bash", "-c", script], "resources": BOTH, **more}


def _python(code: str, **more: Any) -> dict[str, Any]:
    return {"command": ["python3", "-c", code], "resources": BOTH, **more}


WAIT = _bash("echo begun; exec sleep 600")
_SECOND = "((RANK)) || exec sleep 600; "
"""Rank 1 goes on, rank 0 waits for it in vain."""


def _of_rank_1(script: str) -> dict[str, Any]:
    return _bash(_SECOND + script)


def _py_of_rank_1(code: str, **more: Any) -> dict[str, Any]:
    return _python(f"import os, time\nif os.environ['RANK'] == '0': time.sleep(600)\n{code}", **more)


def _signal(name: str, program: str = "sleep") -> Callable[[Field, str], None]:
    def strike(it: Field, job: str) -> None:
        it.begun(job, 1)
        it.kill(job, it.hosts(job)[1], name, program)

    return strike


def _kill_script(it: Field, job: str) -> None:
    it.begun(job)
    it.on(it.hosts(job)[0], f"kill -9 $(pgrep -u alice -f job0*{job}/slurm_script)")


def _scancel(user: str) -> Callable[[Field, str], None]:
    def strike(it: Field, job: str) -> None:
        it.begun(job)
        it.cluster.on("login", ["scancel", job], user=user)

    return strike


def _last_node(it: Field, job: str) -> str:
    it.begun(job, 1)
    return it.hosts(job)[1]


def _power(it: Field, job: str) -> None:
    it.cluster.kill_node(_last_node(it, job))


def _cable(it: Field, job: str) -> None:
    it.cluster.cut(_last_node(it, job))


def _slurmd(it: Field, job: str) -> None:
    it.on(_last_node(it, job), "kill -9 $(pgrep -x slurmd)")


def _repair(it: Field) -> None:
    """Every node as it was: cables in, power on, slurmd up."""
    for node in NODES:
        if it.cluster.status()[node]:
            it.cluster.join(node)
            if not it.on(node, "pgrep -x slurmd"):
                slurm.start_node(it.cluster, node)
        it.cluster.start_node(node)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and set(it.on("login", "sinfo -h -N -o %T").split()) != {"idle"}:
        it.on("login", "scontrol update nodename=n[1-6] state=resume 2>/dev/null")
        time.sleep(1)


def _everywhere(script: str) -> Callable[[Field], None]:
    def hook(it: Field) -> None:
        for node in NODES:
            it.on(node, script)

    return hook


def _venv(*hosts: str, place: str = "/tmp/venv") -> Callable[[Field], None]:
    """A virtual environment on some hosts alone."""

    def hook(it: Field) -> None:
        for host in hosts:
            it.cluster.on(host, f"python3 -m venv --without-pip {place}", check=True)

    return hook


def _preempt(it: Field, job: str) -> None:
    it.begun(job)
    path = it.write("high.yaml", {"name": "high", "framework": "torch", **_bash("echo begun"),
                                  "resources": {**BOTH, "nodes": 6, "partition": "high", "exclusive": True}})  # fmt: skip
    it.dlrun("submit", str(path))


def _controller_restarts(it: Field, job: str) -> None:
    """The job fails while the controller is away."""
    it.begun(job, 1)
    it.on(
        "login", "kill $(cat /run/slurmctld.pid); while pgrep -x slurmctld; do sleep 0.1; done"
    )  # it saves its state
    it.kill(job, it.hosts(job)[1])
    time.sleep(3)
    it.on("login", f"{it.cluster.system}/bin/slurmctld")
    deadline = time.monotonic() + 60
    while not it.states(job) and time.monotonic() < deadline:
        time.sleep(0.5)


def _cancel_points(it: Field, job: str) -> None:
    for point in (1, 2):
        it.dlrun("cancel", f"{job}:{point}")
    it.dlrun("release", job)


EARLY = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit({})\ntime.sleep(2)\nraise ConnectionError('lost')"
DIES = "exec kill -{} $$"

PROGRAMS = (
    Fault(name="a rank is killed", causes=("killed",), spec=WAIT, strike=_signal("KILL")),
    Fault(name="a rank gets SIGTERM from elsewhere", causes=("terminated",), spec=WAIT, strike=_signal("TERM")),
    Fault(name="a rank crashes (SIGSEGV)", causes=("segmentation-fault",), spec=_of_rank_1(DIES.format("SEGV"))),
    Fault(name="a rank aborts (SIGABRT)", causes=("abort",), spec=_of_rank_1(DIES.format("ABRT"))),
    Fault(name="a rank gets SIGBUS", causes=("shared-memory",), spec=_of_rank_1(DIES.format("BUS"))),
    Fault(name="a rank divides by zero (SIGFPE)", causes=("arithmetic",), spec=_of_rank_1(DIES.format("FPE"))),
    Fault(name="an instruction that the CPU lacks (SIGILL)", causes=("illegal-instruction",), spec=_of_rank_1(DIES.format("ILL"))),
    Fault(name="the job script is killed", causes=("killed",), spec=WAIT, strike=_kill_script),
    Fault(name="a rank raises an exception", causes=("exception",), spec=_py_of_rank_1("raise ValueError('bad batch')"), told=("bad batch",)),
    Fault(name="a syntax error in the program", causes=("exception",), spec=_py_of_rank_1("exec('def f(:')")),
    Fault(name="a module is missing", causes=("missing-module",), spec=_py_of_rank_1("import nowhere_at_all"), told=("nowhere_at_all",)),
    Fault(name="a file is missing", causes=("file-missing",), spec=_py_of_rank_1("open('/data/none.h5')"), told=("/data/none.h5",)),
    Fault(name="the program is missing", causes=("command-missing",), spec={"command": ["/opt/no/train"], "resources": BOTH}),
    Fault(name="the program may not be run", causes=("permission",), spec={"command": ["/etc/passwd"], "resources": BOTH}),
    Fault(name="a file may not be read", causes=("permission",), spec=_py_of_rank_1("open('/etc/shadow')")),
    Fault(name="a shell script without a word", causes=("unknown",), spec=_of_rank_1("exit 3"), told=("exit code 3",)),
    Fault(name="the local disk is full", causes=("disk-full",), spec=_of_rank_1("head -c 120M /dev/zero >/tmp/shard-$$; code=$?; rm -f /tmp/shard-$$; exit $code")),
    Fault(name="/dev/shm is full", causes=("shared-memory",), spec=_py_of_rank_1("from multiprocessing import shared_memory\ns = shared_memory.SharedMemory('x', create=True, size=64 << 20)\ns.buf[:] = bytes(64 << 20)"),
          before=_everywhere("mount -o remount,size=32m /dev/shm"), after=_everywhere("mount -o remount,size=1g /dev/shm; rm -f /dev/shm/x"), alone=True),
    Fault(name="too many open files", causes=("too-many-files",), spec=_py_of_rank_1("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\nx = [open('/dev/null') for _ in range(64)]")),
    Fault(name="too many threads", causes=("too-many-threads",), spec=_py_of_rank_1("import resource, threading\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n[threading.Thread(target=time.sleep, args=(9,), daemon=True).start() for _ in range(9)]")),
    Fault(name="no memory can be had", causes=("memory",), spec=_py_of_rank_1("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nx = bytearray(1 << 29)")),
    Fault(name="a port is taken", causes=("port-in-use",), spec=_py_of_rank_1("import socket\na, b = socket.socket(), socket.socket()\na.bind(('', 0)); a.listen()\nb.bind(a.getsockname())")),
    Fault(name="a host name does not resolve", causes=("no-network",), spec=_py_of_rank_1("import urllib.request\nurllib.request.urlopen('https://huggingface.invalid/x')")),
    Fault(name="a checkpoint is cut off", causes=("checkpoint-damaged",), spec=_py_of_rank_1("import pickle, io\npickle.load(io.BytesIO(b''))")),
    Fault(name="a checkpoint is no pickle", causes=("checkpoint-damaged",), spec=_py_of_rank_1("import pickle, io\npickle.load(io.BytesIO(b'<html>'))")),
    Fault(name="the loss becomes NaN", causes=("not-a-number",), spec=_py_of_rank_1("raise FloatingPointError('loss became nan')")),
    Fault(name="a rank ends early with 0, the others lose it", causes=("left-early",), spec=_python(EARLY.format(0)), told=("rank 1",)),
    Fault(name="a rank ends early with 200, the others lose it", causes=("unknown",), spec=_python(EARLY.format(200)), told=("200",)),
    Fault(name="a rank hangs", causes=("hang",), spec={**_py_of_rank_1("time.sleep(600)"), "hang": "20s"}),
    Fault(name="a rank is stopped (SIGSTOP)", causes=("hang",), spec={**_python("import time; print('begun'); time.sleep(600)"), "hang": "20s"}, strike=_signal("STOP", "python3")),
    Fault(name="a rank that ignores SIGTERM, another fails", causes=("exception",), spec=_python("import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.environ['RANK'] == '0': time.sleep(600)\nraise ValueError('x')")),
    Fault(name="a rank leaves a child behind", causes=("unknown",), spec=_of_rank_1("(trap '' TERM; exec setsid sleep 600) & sleep 1; exit 5"), told=("exit code 5",)),
    Fault(name="cancelled by its user", causes=("cancelled",), spec=WAIT, strike=_scancel("alice")),
    Fault(name="cancelled by an administrator", causes=("cancelled-by-admin",), spec=WAIT, strike=_scancel("root")),
    Fault(name="told to save before the walltime, ends with 0", causes=("walltime",), within=120,
          spec={**_python("import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\ntime.sleep(600)"),
                "resources": {**BOTH, "walltime": "1m"}, "checkpoint": {"signal": "USR1", "before_end": "45s"}}),
    Fault(name="the walltime is used up", causes=("walltime",), spec={**WAIT, "resources": {**BOTH, "walltime": "1m"}}, within=200),
)  # fmt: skip
# ruff: noqa: E501 - a table

BEFORE_RANKS = (
    Fault(name="a command of environment.setup fails", causes=("setup",), spec={**WAIT, "environment": {"setup": ["false"]}}),
    Fault(name="an environment module is missing", causes=("environment-module",), spec={**WAIT, "environment": {"modules": ["nonesuch/1.0"]}}),
    Fault(name="the venv is missing on the nodes", causes=("environment",), spec={**WAIT, "environment": {"venv": "/tmp/venv"}}, before=_venv("login")),
    Fault(name="the venv is missing on one node", causes=("environment",), spec={**WAIT, "environment": {"venv": "/tmp/venv1"}, "resources": {**BOTH, "hosts": ["n1", "n2"]}}, before=_venv("login", "n1", place="/tmp/venv1")),
    Fault(name="the launcher does not know an option", causes=("launcher",), spec=WAIT, site={"launcher": {"name": "srun", "arguments": ["--nonsense"]}}),
    Fault(name="the launcher is missing", causes=("launcher",), spec=WAIT, site={"launcher": {"name": "srun", "program": "/opt/none/srun"}}),
    Fault(name="an interface that no node has", causes=("fabric-interface",), spec=WAIT, site={"fabric": {"name": "ethernet", "interfaces": ["ib7"]}, "rendezvous": {"address": "interface", "interface": "ib7"}}, told=("ib7",)),
    Fault(name="no port is free", causes=("ports",), spec=WAIT, site={"rendezvous": {"ports": [20000, 20000]}}, told=("20000",),
          before=_everywhere("setsid python3 -c \"import socket, time; s = socket.socket(); s.bind(('', 20000)); s.listen(); time.sleep(600)\" </dev/null >/dev/null 2>&1 &"),
          after=_everywhere("kill $(pgrep -f 's.listen')"), alone=True),
    Fault(name="the lock directory of another user", causes=("unknown",), spec=_of_rank_1("exit 3"), told=("exit code 3",),
          before=_everywhere("rm -rf /tmp/dlrun-ports-7001; mkdir /tmp/dlrun-ports-7001; chown 7002 /tmp/dlrun-ports-7001"),
          after=_everywhere("rm -rf /tmp/dlrun-ports-7001"), alone=True),
    Fault(name="a secret's file is missing on the nodes", causes=("secret",), spec={**WAIT, "secrets": {"TOKEN": {"file": "/tmp/token"}}},
          before=lambda it: it.cluster.on("login", "echo x > /tmp/token; chmod 600 /tmp/token")),
    Fault(name="the container image is missing", causes=("container", "command-missing"), spec={**WAIT, "environment": {"container": {"image": "/srv/none.sif", "runtime": "apptainer"}}}),
    Fault(name="too few good nodes", causes=("node",), spec={**WAIT, "resources": {**BOTH, "spare_nodes": 1}}, site={"node_checks": ["echo dark; false"]}),
    Fault(name="a zombie GPU (stand-in)", causes=("node",), spec={**WAIT, "resources": {**BOTH, "spare_nodes": 1}}, site={"node_checks": ["echo 'GPU 0: Xid 79, fallen off the bus'; false"]}),
    Fault(name="data does not fit on the nodes", causes=("node-space",), spec={**WAIT, "data": {"set": {"source": "~/big", "strategy": "copy"}}}, site={"storage": {"node_local": {"path": "/tmp"}}},
          before=lambda it: it.cluster.on("login", "mkdir -p big; head -c 200M /dev/zero > big/x"), after=lambda it: it.cluster.on("login", "rm -rf big")),
    Fault(name="data that may not be read", causes=("data-source",), spec={**WAIT, "data": {"set": {"source": "~/closed", "strategy": "copy"}}}, site={"storage": {"node_local": {"path": "/tmp"}}},
          before=lambda it: it.on("login", f"mkdir -p {it.cluster.home('alice')}/closed; head -c 1M /dev/zero > {it.cluster.home('alice')}/closed/x; chmod 600 {it.cluster.home('alice')}/closed/x; chmod 755 {it.cluster.home('alice')}/closed"),
          after=lambda it: it.on("login", f"rm -rf {it.cluster.home('alice')}/closed")),
)  # fmt: skip

NODE_FAULTS = (
    Fault(name="a node loses its power", causes=("node",), spec=WAIT, strike=_power, after=_repair, alone=True),
    Fault(name="a node loses its network", causes=("node",), spec=WAIT, strike=_cable, after=_repair, alone=True),
    Fault(name="slurmd dies on a node", causes=("node",), spec=WAIT, strike=_slurmd, after=_repair, alone=True),
    Fault(name="the controller is away when a rank dies", causes=("killed",), spec=WAIT, strike=_controller_restarts, alone=True),
    Fault(name="preempted", causes=("preempted",), spec={**WAIT, "resources": {**BOTH, "partition": "low"}}, strike=_preempt, alone=True),
)  # fmt: skip

ARRAYS = (
    Fault(name="one point of a sweep fails", causes=("exception",), point=":1",
          spec={"command": ["python3", "-c", "x = 1 / (2 - {{ lr }})"], "resources": ONE, "sweep": {"lr": [1, 2, 3]}}),
    Fault(name="points cancelled before they start", causes=("cancelled",), point=":1", strike=_cancel_points,
          spec={"command": ["true"], "resources": ONE, "sweep": {"lr": [1, 2, 3]}, "hold": True}),
)  # fmt: skip

ALL = (*PROGRAMS, *BEFORE_RANKS, *ARRAYS, *NODE_FAULTS)
