"""A host is a set of namespaces (network, UTS, IPC, mount, PID); its first process is `bash …/NAME/init`.

Hosts are found by that command line, so that no record of process ids can go stale. A bridge inside the
login host's network namespace joins them: nothing is added to the machine's own network, and everything
ends with the processes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_started: set[int] = set()
"""Children of this process that wait for a host's first process, until their exit status is collected."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where commands on a host are looked up."""


def running(system: Path) -> dict[str, int]:
    """Process id of the first process of every live host of the cluster in `system`, by host name."""
    return {host: pid for program, host, pid in _processes(system) if program == "bash"}


def _processes(system: Path) -> Iterator[tuple[str, str, int]]:
    """Program, host and process id of all hosts' first processes, and of the `unshare` that waits for each."""
    prefix = f"{system}/hosts/"
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            argv = Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")
            if argv[0] in {"bash", "unshare"} and argv[-2].startswith(prefix):
                yield argv[0], argv[-2].removeprefix(prefix).split("/")[0], int(entry.name)


def boot(system: Path, host: str) -> int:
    """Start the namespaces and the first process of `host`; the latter's process id."""
    init = f"{system}/hosts/{host}/init"
    read_end, write_end = os.pipe()
    apart = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child=KILL"]
    log = f"{system}/hosts/{host}/boot.log"
    child = os.posix_spawnp(
        "unshare",
        ["unshare", *apart, "bash", init],
        {"PATH": PATH},
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGPIPE),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, write_end, 1),
            (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        ],
    )
    _started.add(child)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        pid = answer.readline().strip()
    if not pid:
        msg = f"host {host} did not start: {Path(log).read_text(errors='replace')[-2000:]}"
        raise ClusterError(msg)
    return int(pid)


def kill(system: Path, names: Iterable[str]) -> None:
    """End hosts at once, as a power cut would: the kernel kills all that runs in their process namespaces.

    `unshare` ends when the whole namespace is empty, so that is what is waited for.
    """
    names = set(names)
    for name, pid in running(system).items():
        if name in names:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    await_true(lambda: not names & {host for _, host, _ in _processes(system)}, 60, f"{sorted(names)} to die")
    _collect()


def kill_all(system: Path) -> None:
    """End every host, also those that are only being started."""

    def dead() -> bool:
        left = list(_processes(system))
        begun = {host for program, host, _ in left if program == "bash"}
        for program, host, pid in left:
            if program == "bash" or host not in begun:  # without its `unshare` the first process is killed
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return not left

    await_true(dead, 60, f"the hosts of {system} to die")
    _collect()


def _collect() -> None:
    for child in list(_started):
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG)[0]:
                _started.discard(child)


def enter(pid: int, argv: Sequence[str], *, user: str, cwd: str) -> list[str]:
    """The command line that runs `argv` on the host of first process `pid`.

    Its environment is that of the process that runs the line: on the line itself all users of the host could read it.
    """
    # By their paths: the PATH of that environment may be any.
    nsenter, setpriv, env = (shutil.which(name) or name for name in ("nsenter", "setpriv", "env"))
    line = [nsenter, "-t", str(pid), "-n", "-u", "-i", "-m", "-p"]
    if user != "root":
        line += [setpriv, f"--reuid={user}", f"--regid={user}", "--init-groups"]
    return [*line, env, "-C", cwd, *argv]


def network(pid: int, lines: Iterable[str], *, tool: str = "ip") -> None:
    """Run lines of `ip` or `tc` in a host's network namespace; process ids in them are this machine's."""
    command = ["nsenter", "-t", str(pid), "-n", tool, "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"`{tool}` failed: {done.stderr.strip()}"
        raise ClusterError(msg)


def connect(switch: int, pid: int, port: str, address: str, mbit: int) -> None:
    """Plug host `pid` into the bridge of host `switch` by a cable whose far end is called `port`."""
    cable = f"link add {port} type veth peer name eth0 netns {pid}"
    network(switch, [cable, f"link set {port} master br0 up"])
    network(pid, ["link set lo up", f"address add {address}/16 dev eth0", "link set eth0 up"])
    if mbit:
        # a bucket of 10 ms of traffic, and a queue of 50 ms: what a switch port has, roughly
        shape = f"root tbf rate {mbit}mbit burst {max(32768, mbit * 1250)} latency 50ms"
        network(switch, [f"qdisc add dev {port} {shape}"], tool="tc")
        network(pid, [f"qdisc add dev eth0 {shape}"], tool="tc")


def make_switch(pid: int, address: str) -> None:
    """Make the bridge that joins all hosts, in the network namespace of host `pid`."""
    bridge = ["link add br0 type bridge", f"address add {address}/16 dev br0", "link set br0 up"]
    network(pid, ["link set lo up", *bridge])


def rest(began: float, least: float) -> None:
    """Pause for `least` seconds, or as long as the look that `began` then took: many tests wait beside each other."""
    time.sleep(max(least, time.monotonic() - began))


def await_true(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until `condition` holds; raises ClusterError naming `what` when it takes longer."""
    deadline = time.monotonic() + seconds
    pause = 0.01
    while True:
        began = time.monotonic()
        if condition():
            return
        if time.monotonic() > deadline:
            msg = f"waited {seconds:.0f} s for {what}"
            raise ClusterError(msg)
        rest(began, pause)
        pause = min(0.1, pause * 1.5)


def await_none(look: Callable[[], list[str]], seconds: float, what: str) -> None:
    """Wait until `look` finds nothing; raises ClusterError naming `what`, and what there still is, when it takes longer."""
    found: list[str] = []

    def none() -> bool:
        found[:] = look()
        return not found

    try:
        await_true(none, seconds, what)
    except ClusterError as late:
        msg = f"{late}; there still is: " + "; ".join(found)
        raise ClusterError(msg) from None
