"""Faults of the training itself: how a program can fail, and how it can be ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.campaign.fault import (
    BOTH,
    NODES,
    WAIT,
    Fault,
    everywhere,
    of_rank_1,
    on_nodes,
    py_of_rank_1,
    python,
    signal_of_rank_1,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.campaign.field import Field

# ruff: noqa: E501 - a table

EARLY = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit({})\ntime.sleep(2)\nraise ConnectionError('lost')"
DIES = "exec kill -{} $$"
NEXT_TO_EACH_OTHER = """import os, sys, time
mark = '{{ run_dir }}/first'
if os.environ['RANK'] == '1':
    open(mark, 'w').close()
    raise ValueError('bad batch')
while not os.path.exists(mark): time.sleep(0.01)
time.sleep(0.3)
raise ConnectionResetError('Connection reset by peer')"""
"""Rank 0 loses rank 1 within a third of a second."""


def _program(it: Field) -> None:
    """A program that the login host may run, and the nodes may not."""
    on_nodes("echo 'exec sleep 600' >/tmp/program; chmod 644 /tmp/program", "login", *NODES)(it)
    it.on("login", "chmod 755 /tmp/program")


def _kill_script(it: Field, job: str) -> None:
    it.begun(job)
    it.on(it.hosts(job)[0], f"kill -9 $(pgrep -u alice -f '{it.ground.script(job)}')")


def _cancel(user: str) -> Callable[[Field, str], None]:
    def strike(it: Field, job: str) -> None:
        it.begun(job)
        it.ground.cancel(it, job, user)

    return strike


PROGRAMS = (
    Fault(name="a rank is killed", causes=("killed",), spec=WAIT, strike=signal_of_rank_1("KILL")),
    Fault(name="a rank gets SIGTERM from elsewhere", causes=("terminated",), spec=WAIT, strike=signal_of_rank_1("TERM")),
    Fault(name="a rank crashes (SIGSEGV)", causes=("segmentation-fault",), spec=of_rank_1(DIES.format("SEGV"))),
    Fault(name="a rank aborts (SIGABRT)", causes=("abort",), spec=of_rank_1(DIES.format("ABRT"))),
    Fault(name="a rank gets SIGBUS", causes=("bus-error",), spec=of_rank_1(DIES.format("BUS"))),
    Fault(name="a rank divides by zero (SIGFPE)", causes=("arithmetic",), spec=of_rank_1(DIES.format("FPE"))),
    Fault(name="an instruction that the CPU lacks (SIGILL)", causes=("illegal-instruction",), spec=of_rank_1(DIES.format("ILL"))),
    Fault(name="the job script is killed", causes=("killed",), spec=WAIT, strike=_kill_script, never=("gridengine",)),
    Fault(name="the job script is killed, which looks like a deleted job", causes=("cancelled",), spec=WAIT, strike=_kill_script,
          told=("or its job script was killed",), only="gridengine"),
    Fault(name="a rank raises an exception", causes=("exception",), spec=py_of_rank_1("raise ValueError('bad batch')"), told=("bad batch",)),
    Fault(name="a syntax error in the program", causes=("exception",), spec=py_of_rank_1("exec('def f(:')")),
    Fault(name="a module is missing", causes=("missing-module",), spec=py_of_rank_1("import nowhere_at_all"), told=("nowhere_at_all",)),
    Fault(name="a file is missing", causes=("file-missing",), spec=py_of_rank_1("open('/data/none.h5')"), told=("/data/none.h5",)),
    Fault(name="the program is missing", causes=("command-missing",), spec={"command": ["/opt/no/train"], "resources": BOTH}),
    Fault(name="the program may not be run", causes=("permission",), spec={"command": ["/tmp/program"], "resources": BOTH},
          before=_program),
    Fault(name="a file may not be read", causes=("permission",), spec=py_of_rank_1("open('/etc/shadow')")),
    Fault(name="a shell script without a word", causes=("unknown",), spec=of_rank_1("exit 3"), told=("exit code 3",)),
    Fault(name="the local disk is full", causes=("disk-full",), spec=of_rank_1("head -c 120M /dev/zero >/tmp/shard-$$; code=$?; rm -f /tmp/shard-$$; exit $code")),
    Fault(name="/dev/shm is full", causes=("shared-memory",), spec=py_of_rank_1("from multiprocessing import shared_memory\ns = shared_memory.SharedMemory('x', create=True, size=64 << 20)\ns.buf[:] = bytes(64 << 20)"),
          before=everywhere("mount -o remount,size=32m /dev/shm"), after=everywhere("mount -o remount,size=1g /dev/shm; rm -f /dev/shm/x"), alone=True),
    Fault(name="too many open files", causes=("too-many-files",), spec=py_of_rank_1("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\nx = [open('/dev/null') for _ in range(64)]")),
    Fault(name="too many threads", causes=("too-many-threads",), spec=py_of_rank_1("import resource, threading\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n[threading.Thread(target=time.sleep, args=(9,), daemon=True).start() for _ in range(9)]")),
    Fault(name="no memory can be had", causes=("memory",), spec=py_of_rank_1("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\nx = bytearray(1 << 29)")),
    Fault(name="a port is taken", causes=("port-in-use",), spec=py_of_rank_1("import socket\na, b = socket.socket(), socket.socket()\na.bind(('', 0)); a.listen()\nb.bind(a.getsockname())")),
    Fault(name="a host name does not resolve", causes=("no-network",), spec=py_of_rank_1("import urllib.request\nurllib.request.urlopen('https://huggingface.invalid/x')")),
    Fault(name="a checkpoint is cut off", causes=("checkpoint-damaged",), spec=py_of_rank_1("import pickle, io\npickle.load(io.BytesIO(b''))")),
    Fault(name="a checkpoint is no pickle", causes=("checkpoint-damaged",), spec=py_of_rank_1("import pickle, io\npickle.load(io.BytesIO(b'<html>'))")),
    Fault(name="the loss becomes NaN", causes=("not-a-number",), spec=py_of_rank_1("raise FloatingPointError('loss became nan')")),
    Fault(name="a rank ends early with 0, the others lose it", causes=("left-early",), spec=python(EARLY.format(0)), told=("rank 1",)),
    Fault(name="a rank ends early with 200, the others lose it", causes=("unknown",), spec=python(EARLY.format(200)), told=("200",)),
    Fault(name="a rank hangs", causes=("hang",), spec={**py_of_rank_1("time.sleep(600)"), "hang": "20s"}),
    Fault(name="a rank is stopped (SIGSTOP)", causes=("hang",), spec={**python("import time; print('begun'); time.sleep(600)"), "hang": "20s"}, strike=signal_of_rank_1("STOP", "python3")),
    Fault(name="a rank that ignores SIGTERM, another fails", causes=("exception",), spec=python("import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.environ['RANK'] == '0': time.sleep(600)\nraise ValueError('x')")),
    Fault(name="a rank leaves a child behind", causes=("unknown",), spec=of_rank_1("(trap '' TERM; exec setsid sleep 600) & sleep 1; exit 5"), told=("exit code 5",)),
    Fault(name="cancelled by its user", causes=("cancelled",), spec=WAIT, strike=_cancel("alice")),
    Fault(name="cancelled by an administrator", causes=("cancelled-by-admin",), spec=WAIT, strike=_cancel("root"), never=("flux", "gridengine")),  # the user is the instance's
    Fault(name="cancelled by an administrator, which is not recorded", causes=("cancelled",), spec=WAIT, strike=_cancel("root"), told=("or by an administrator",), only="gridengine"),
    Fault(name="told to save before the walltime, ends with 0", causes=("walltime",), within=120,
          spec={**python("import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\ntime.sleep(600)"),
                "resources": {**BOTH, "walltime": "1m"}, "checkpoint": {"signal": "USR1", "before_end": "45s"}}),
    Fault(name="the walltime is used up", causes=("walltime",), spec={**WAIT, "resources": {**BOTH, "walltime": "1m"}}, within=200),
    Fault(name="two ranks fail within half a second", causes=("exception",), spec=python(NEXT_TO_EACH_OTHER), told=("bad batch",)),
    Fault(name="an error in passing, then another one", causes=("exception",), told=("label",),
          spec=py_of_rank_1("print('torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB; retrying', flush=True)\nfor n in range(99): print('step', n)\nraise KeyError('label')")),
    Fault(name="thirty megabytes of binary log, then an error", causes=("exception",), told=("bad batch",),
          spec=py_of_rank_1("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 120000 + b'\\n')\nraise ValueError('bad batch')")),
    Fault(name="a rank ends with 9, which is no SIGKILL", causes=("unknown",), spec=py_of_rank_1("os._exit(9)"), told=("exit code 9",)),
    Fault(name="a GPU falls off the bus (what the driver prints)", causes=("gpu-broken",),
          spec=py_of_rank_1("print('NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.', flush=True)\nraise RuntimeError('CUDA error: unspecified launch failure')"), told=("79",)),
    Fault(name="a GPU's memory is used up", causes=("gpu-memory",), spec=py_of_rank_1("class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('CUDA out of memory. Tried to allocate 20.00 GiB')")),
    Fault(name="a stale file handle", causes=("file-system",), spec=py_of_rank_1("import errno\nraise OSError(errno.ESTALE, os.strerror(errno.ESTALE), '/data/x')"), told=("Stale",)),
    Fault(name="a file gives I/O errors", causes=("file-system",), spec=py_of_rank_1("open('/proc/self/mem', 'rb').read(1)"), told=("Input/output error",)),
    Fault(name="a file system is read-only", causes=("read-only",), spec=py_of_rank_1("open('/mnt/x', 'w')"),
          before=everywhere("mount -t tmpfs -o ro tmpfs /mnt"), after=everywhere("umount /mnt"), alone=True),
    Fault(name="more memory than the job may have", causes=("memory",), spec=py_of_rank_1("x = [b'x' * (1 << 20) for _ in range(3000)]\ntime.sleep(60)"), only="slurm", told=("memory",)),
)  # fmt: skip
