"""Faults of nodes: power, network, daemons, file servers, clocks, shared memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.campaign.fault import (
    BOTH,
    NODES,
    ONE,
    PAIR,
    WAIT,
    Fault,
    bash,
    everywhere,
    last_node,
    on_nodes,
    py_of_rank_1,
    python,
)

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

# ruff: noqa: E501 - a table

_CLOCK = Path(__file__).parents[1] / "clock.c"


def _repair(it: Field) -> None:
    it.ground.repair(it)


def _power(it: Field, job: str) -> None:
    it.cluster.kill_node(last_node(it, job))


def _reboot(it: Field, job: str) -> None:
    node = last_node(it, job)
    it.cluster.kill_node(node)
    time.sleep(30)  # a boot takes longer than until the scheduler misses the node
    it.cluster.start_node(node)


def _point_power(it: Field, job: str) -> None:
    it.until(lambda: "begun" in it.log(job, "rank-0"))
    it.cluster.kill_node((it.job_dir(job) / "points" / "1" / "hosts").read_text().split()[0])


def _cable(it: Field, job: str) -> None:
    it.cluster.cut(last_node(it, job))


def _daemon(it: Field, job: str) -> None:
    it.on(last_node(it, job), f"kill -9 $(pgrep -x {it.ground.node_daemon})")


def _step_daemon(step: str) -> Callable[[Field, str], None]:
    """Slurm's daemon of the ranks on the last node, or of the job's script on the first one."""

    def strike(it: Field, job: str) -> None:
        node = last_node(it, job) if step == "0" else it.hosts(job)[0]
        it.on(node, f"kill -9 $(pgrep -f '^slurmstepd: .{job}[.]{step}')")

    return strike


def _shell(it: Field, job: str) -> None:
    """The shell that runs rank 1's script; its program stays behind."""
    node, mine = last_node(it, job), f"grep -qzxF DLRUN_JOB_DIR={it.job_dir(job)} /proc/$p/environ"
    it.on(node, f"for p in $(pgrep -u alice -f '/rank[.]sh'); do {mine} && kill -KILL $p; done")


def _shells(it: Field, job: str) -> None:
    """That, and the node's standby."""
    it.kill(job, last_node(it, job), "KILL", "bash")


def _connection(it: Field, job: str) -> None:
    """The ssh connection by which rank 1 was started."""
    it.on(last_node(it, job), "kill -9 $(pgrep -u alice -f '^sshd: alice')")


def _addresses(it: Field) -> dict[str, str]:
    return {node: it.cluster.spec.address(node) for node in NODES}


def _part(it: Field) -> None:
    """n1 and n2 do not reach each other."""
    where = _addresses(it)
    it.on("n1", f"ip route add unreachable {where['n2']}/32")
    it.on("n2", f"ip route add unreachable {where['n1']}/32")


def _join(it: Field) -> None:
    where = _addresses(it)
    it.on("n1", f"ip route del unreachable {where['n2']}/32")
    it.on("n2", f"ip route del unreachable {where['n1']}/32")


def _part_while_it_runs(it: Field, job: str) -> None:
    it.begun(job)
    it.begun(job, 1)
    _part(it)
    it.kill(job, it.hosts(job)[1])


def _mount(*nodes: str) -> Callable[[Field], None]:
    """A file server of the nodes' own: the login host's, by sshfs at /mnt."""

    def before(it: Field) -> None:
        it.cluster.on("login", "mkdir -p served && head -c 20M /dev/urandom >served/data", check=True)
        home = it.cluster.home("alice")
        line = f"sshfs -o allow_other,IdentityFile={home}/.ssh/id_ed25519,cache=no,direct_io alice@login:{home}/served /mnt"
        for node in nodes:
            it.cluster.on(node, line, user="root", check=True)

    return before


def _unmount(it: Field) -> None:
    everywhere("pkill -CONT -x sshfs; umount -l /mnt 2>/dev/null; pkill -KILL -x sshfs")(it)
    it.cluster.on("login", "rm -rf served")
    _repair(it)  # Slurm takes a node out on which a process could not be killed for a while


def _server(signal: str) -> Callable[[Field, str], None]:
    """The file server of rank 1's node dies (KILL), or answers no more (STOP)."""

    def strike(it: Field, job: str) -> None:
        it.on(last_node(it, job), f"pkill -{signal} -x sshfs")

    return strike


READS = "import os, time\nprint('begun', flush=True)\nif os.environ['RANK'] == '0': time.sleep(600)\nwhile True:\n    with open('/mnt/data', 'rb') as f:\n        while f.read(65536): pass\n    time.sleep(0.05)"


def _clocks(*nodes: str) -> Callable[[Field], None]:
    """Programs of users on these nodes ask a clock that can be set: /run/clock-ahead has the seconds."""

    def before(it: Field) -> None:
        shim = it.cluster.shared / "clock.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", shim, _CLOCK, "-ldl"], check=True)
        shim.chmod(0o755)
        it.on("login", "touch /etc/ld.so.preload")
        on_nodes(f"echo {shim} >/run/preload && mount --bind /run/preload /etc/ld.so.preload", *nodes)(it)

    return before


def _ahead(seconds: int, *nodes: str) -> Callable[[Field], None]:
    def before(it: Field) -> None:
        on_nodes(f"echo {seconds} >/run/clock-ahead; chmod 644 /run/clock-ahead", *nodes)(it)
        _clocks(*nodes)(it)

    return before


def _jump(seconds: int, node: int) -> Callable[[Field, str], None]:
    def strike(it: Field, job: str) -> None:
        it.begun(job)
        it.begun(job, 1)
        it.on(it.hosts(job)[node], f"echo {seconds} >/run/clock-ahead; chmod 644 /run/clock-ahead")

    return strike


_RIGHT_TIME = everywhere("umount /etc/ld.so.preload 2>/dev/null; rm -f /run/clock-ahead /run/preload")
FIRST_AND_LOST = "mark = '{{ run_dir }}/first'\nimport os, time\nif os.environ['RANK'] == '1':\n    open(mark, 'w').close()\n    raise ValueError('bad batch')\nwhile not os.path.exists(mark): time.sleep(0.1)\ntime.sleep(1)\nraise RuntimeError('no answer from the others')"
"""Rank 0 raises what no table knows as a consequence, a second after rank 1: only the notes' times tell who was first."""
CONNECTS = "import socket\nprint('begun', flush=True)\nsocket.create_connection((os.environ['DLRUN_MASTER_ADDR'], 9), 10)"
GOES_ON = "import time\nprint('begun', flush=True)\ntime.sleep(9)"
"""It is quiet for a time that `hang` allows, and a clock that jumps makes it no longer."""
STEPS = "import time\nfor n in range(150):\n    print('step', n, flush=True)\n    time.sleep(0.2)"

NODE_FAULTS = (
    Fault(name="a node loses its power", causes=("node",), spec=WAIT, strike=_power, after=_repair, alone=True),
    Fault(name="a node is switched off and on again", causes=("node", "launcher"), spec=WAIT, strike=_reboot, after=_repair, alone=True),
    Fault(name="a node loses its network", causes=("node",), spec=WAIT, strike=_cable, after=_repair, alone=True, gone=80.0),
    Fault(name="the scheduler's daemon dies on a node", causes=("node",), spec=WAIT, strike=_daemon, after=_repair, alone=True),
    Fault(name="slurmstepd of the ranks is killed on a node", causes=("node",), told=("slurmstepd",), only="slurm", spec={**WAIT, "resources": {**BOTH, "ranks_per_node": 2}}, strike=_step_daemon("0"), after=_repair, alone=True),
    Fault(name="slurmstepd of the job's script is killed", causes=("node",), only="slurm", spec=WAIT, strike=_step_daemon("batch"), after=_repair, alone=True),
    Fault(name="the node of one point of a sweep loses its power", causes=("node",), point=":1", only="slurm", strike=_point_power, after=_repair, alone=True,
          spec={"command": ["bash", "-c", "echo begun; (({{ lr }} == 2)) || exit 0; exec sleep 600"], "resources": ONE, "sweep": {"lr": [1, 2, 3]}}),
    Fault(name="a node dies and a spare one takes its place", causes=("none",), strike=_power, after=_repair, alone=True, within=240,
          spec=python(STEPS, checkpoint={"before_end": "60s"}, resources={**BOTH, "spare_nodes": 1})),
    Fault(name="the shell of a rank is killed, its program stays", causes=("killed",), spec=WAIT, strike=_shell),
    # On Flux its shell waits for the program, which holds the descriptor of PMI, and nothing is left that would end that.
    Fault(name="all shells of a rank's node are killed, its program stays", causes=("killed",), spec=WAIT, strike=_shells, never=("flux",)),
    Fault(name="the ssh connection of a rank is cut", causes=("ssh-connection", "launcher", "killed"), spec=WAIT, site={"launcher": {"name": "ssh"}}, strike=_connection, alone=True),
    Fault(name="the nodes do not reach each other", causes=("rendezvous", "node", "launcher"), spec=py_of_rank_1(CONNECTS, resources=PAIR), before=_part, after=_join, alone=True, within=240),
    Fault(name="the nodes are parted, and a rank dies", causes=("killed", "node"), spec={**WAIT, "resources": PAIR}, strike=_part_while_it_runs, after=_join, alone=True, within=240),
    Fault(name="a file server dies", causes=("file-system",), spec=python(READS), before=_mount(*NODES), strike=_server("KILL"), after=_unmount, alone=True, needs="sshfs"),
    Fault(name="a file server answers no more", causes=("hang",), spec=python(READS, hang="20s"), before=_mount(*NODES), strike=_server("STOP"), after=_unmount, alone=True, needs="sshfs"),
    Fault(name="/dev/shm is full before the job begins", causes=("none",), spec=bash("echo begun", verify="warn"), alone=True,
          before=everywhere("mount -o remount,size=1m /dev/shm; head -c 2M /dev/zero >/dev/shm/full 2>/dev/null"),
          after=everywhere("rm -f /dev/shm/full; mount -o remount,size=1g /dev/shm")),
    Fault(name="a clock is two hours ahead, that rank fails first", causes=("exception",), told=("bad batch",), alone=True, spec=python(FIRST_AND_LOST, resources=PAIR), before=_ahead(7200, "n2"), after=_RIGHT_TIME),
    Fault(name="a clock is two hours behind, that rank fails last", causes=("exception", "launcher"), alone=True, spec=python(FIRST_AND_LOST, resources=PAIR), before=_ahead(-7200, "n1"), after=_RIGHT_TIME),
    Fault(name="a clock jumps two hours ahead, the training goes on", causes=("none",), alone=True, spec=python(GOES_ON, resources=PAIR, hang="10m"), before=_clocks("n1", "n2"), strike=_jump(7200, 1), after=_RIGHT_TIME),
    Fault(name="the first node's clock jumps ahead, it goes on", causes=("none",), alone=True, spec=python(GOES_ON, resources=PAIR, hang="10m", checkpoint={"before_end": "60s"}), before=_clocks("n1", "n2"), strike=_jump(7200, 0), after=_RIGHT_TIME),
    Fault(name="a clock jumps back, and a rank fails", causes=("exception",), told=("bad batch",), alone=True, spec=python(FIRST_AND_LOST.replace("    open(mark", "    time.sleep(4)\n    open(mark").replace("import os, time\n", "import os, time\nprint('begun', flush=True)\n"), resources=PAIR), before=_clocks("n1", "n2"), strike=_jump(-7200, 1), after=_RIGHT_TIME),
)  # fmt: skip
