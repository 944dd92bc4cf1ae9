"""Faults before the first rank runs: environment, launcher, rendezvous, nodes that are checked, data that is staged."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tests.cluster.campaign.fault import (
    BOTH,
    NODES,
    PAIR,
    WAIT,
    Fault,
    everywhere,
    of_rank_1,
    on_nodes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.campaign.field import Field

# ruff: noqa: E501 - a table


def _venv(*hosts: str, place: str = "/tmp/venv") -> Callable[[Field], None]:
    """A virtual environment on some hosts alone."""

    def hook(it: Field) -> None:
        for host in hosts:
            it.cluster.on(host, f"python3 -m venv --without-pip {place}", check=True)

    return hook


def _venv_without_python(it: Field) -> None:
    """The same directory everywhere, and on one node without its interpreter: the next one on PATH would run."""
    _venv("login", *NODES, place="/tmp/venv2")(it)
    it.on("n2", "rm /tmp/venv2/bin/python*")


def _stand_in(script: str, *nodes: str) -> Callable[[Field], None]:
    """An `nvidia-smi` on some nodes, and none on the others."""
    line = f"mount -t tmpfs tmpfs /usr/local/sbin && printf '#!/bin/sh\\n%s\\n' {script!r} >/usr/local/sbin/nvidia-smi && chmod +x /usr/local/sbin/nvidia-smi"
    return on_nodes(line, *nodes)


def _images(it: Field) -> None:
    """An image that was copied to the nodes, and not anew to one of them; the runtime runs the command without it."""
    on_nodes("echo 1 >/tmp/x.sif; chmod 644 /tmp/x.sif", "login", *NODES)(it)
    on_nodes("echo older >/tmp/x.sif", "n2")(it)
    script = '#!/bin/bash\nwhile [[ $1 != *.sif ]]; do shift; done; shift; exec "$@"\n'
    on_nodes(
        f"mount -t tmpfs tmpfs /usr/local/sbin && printf '%s' {shlex.quote(script)} >/usr/local/sbin/apptainer && chmod +x /usr/local/sbin/apptainer",
        *NODES,
    )(it)


_GONE = everywhere("umount /usr/local/sbin 2>/dev/null")
GPU = {**BOTH, "gpus_per_node": 1, "spare_nodes": 1}

BEFORE_RANKS = (
    Fault(name="a command of environment.setup fails", causes=("setup",), spec={**WAIT, "environment": {"setup": ["false"]}}),
    Fault(name="an environment module is missing", causes=("environment-module",), spec={**WAIT, "environment": {"modules": ["nonesuch/1.0"]}}),
    Fault(name="the venv is missing on the nodes", causes=("environment",), spec={**WAIT, "environment": {"venv": "/tmp/venv"}}, before=_venv("login")),
    Fault(name="the venv is missing on one node", causes=("environment",), spec={**WAIT, "environment": {"venv": "/tmp/venv1"}, "resources": {**BOTH, "hosts": ["n1", "n2"]}}, before=_venv("login", "n1", place="/tmp/venv1")),
    Fault(name="the launcher does not know an option", causes=("launcher",), spec=WAIT, site={"launcher": {"name": "srun", "arguments": ["--nonsense"]}}, only="slurm"),
    Fault(name="the launcher is missing", causes=("launcher",), spec=WAIT, site={"launcher": {"name": "srun", "program": "/opt/none/srun"}}, only="slurm"),
    Fault(name="an interface that no node has", causes=("fabric-interface",), spec=WAIT, site={"fabric": {"name": "ethernet", "interfaces": ["ib7"]}, "rendezvous": {"address": "interface", "interface": "ib7"}}, told=("ib7",)),
    Fault(name="no port is free", causes=("ports",), spec=WAIT, site={"rendezvous": {"ports": [20000, 20000]}}, told=("20000",),
          before=everywhere("setsid python3 -c \"import socket, time; s = socket.socket(); s.bind(('', 20000)); s.listen(); time.sleep(600)\" </dev/null >/dev/null 2>&1 &"),
          after=everywhere("kill $(pgrep -f 's.listen')"), alone=True),
    Fault(name="the lock directory of another user", causes=("unknown",), spec=of_rank_1("exit 3"), told=("exit code 3",),
          before=everywhere("rm -rf /tmp/dlrun-ports-7001; mkdir /tmp/dlrun-ports-7001; chown 7002 /tmp/dlrun-ports-7001"),
          after=everywhere("rm -rf /tmp/dlrun-ports-7001"), alone=True),
    Fault(name="a secret's file is missing on the nodes", causes=("secret",), spec={**WAIT, "secrets": {"TOKEN": {"file": "/tmp/token"}}},
          before=lambda it: it.cluster.on("login", "echo x > /tmp/token; chmod 600 /tmp/token")),
    Fault(name="the container image is missing", causes=("container", "command-missing"), spec={**WAIT, "environment": {"container": {"image": "/tmp/none.sif", "runtime": "apptainer"}}},
          before=on_nodes("echo 1 >/tmp/none.sif; chmod 644 /tmp/none.sif", "login")),
    Fault(name="too few good nodes", causes=("node",), spec={**WAIT, "resources": {**BOTH, "spare_nodes": 1}}, site={"node_checks": ["echo dark; false"]}),
    Fault(name="a zombie GPU (stand-in)", causes=("node",), spec={**WAIT, "resources": {**BOTH, "spare_nodes": 1}}, site={"node_checks": ["echo 'GPU 0: Xid 79, fallen off the bus'; false"]}),
    Fault(name="data does not fit on the nodes", causes=("node-space",), spec={**WAIT, "data": {"set": {"source": "~/big", "strategy": "copy"}}}, site={"storage": {"node_local": {"path": "/tmp"}}},
          before=lambda it: it.cluster.on("login", "mkdir -p big; head -c 200M /dev/zero > big/x"), after=lambda it: it.cluster.on("login", "rm -rf big")),
    Fault(name="data that may not be read", causes=("data-source",), spec={**WAIT, "data": {"set": {"source": "~/closed", "strategy": "copy"}}}, site={"storage": {"node_local": {"path": "/tmp"}}},
          before=lambda it: it.on("login", f"mkdir -p {it.cluster.home('alice')}/closed; head -c 1M /dev/zero > {it.cluster.home('alice')}/closed/x; chmod 600 {it.cluster.home('alice')}/closed/x; chmod 755 {it.cluster.home('alice')}/closed"),
          after=lambda it: it.on("login", f"rm -rf {it.cluster.home('alice')}/closed")),
    Fault(name="a venv without its Python on one node", causes=("environment",), spec={"command": ["python", "-c", "import time; time.sleep(600)"], "environment": {"venv": "/tmp/venv2"}, "resources": PAIR}, before=_venv_without_python, alone=True),
    Fault(name="a library directory of the set-up is missing on one node", causes=("environment",), told=("/run/lib7",),
          spec={**WAIT, "environment": {"setup": ["export LD_LIBRARY_PATH=/run/lib7:${LD_LIBRARY_PATH-}"]}, "resources": PAIR}, before=on_nodes("mkdir -p /run/lib7", "n1"), alone=True),
    Fault(name="the container's image is another on one node (stand-in)", causes=("environment",), told=("bytes, on the first node",),
          spec={**WAIT, "environment": {"container": {"image": "/tmp/x.sif", "runtime": "apptainer"}}, "resources": PAIR}, before=_images, after=_GONE, alone=True),
    Fault(name="one node has another user's directory in place of ours", causes=("none",), spec={"command": ["bash", "-c", "[[ -e {{ data.set }}/x ]]"], "data": {"set": {"source": "~/few", "strategy": "copy"}}, "resources": PAIR}, site={"storage": {"node_local": {"path": "/tmp"}}}, alone=True,
          before=lambda it: (it.cluster.on("login", "mkdir -p few; echo x > few/x"), it.on("n2", "rm -rf /tmp/dlrun-alice; mkdir -m 777 /tmp/dlrun-alice; chown bob /tmp/dlrun-alice"), None)[-1],
          after=lambda it: (it.cluster.on("login", "rm -rf few"), it.on("n2", "rm -rf /tmp/dlrun-alice"), None)[-1]),
    Fault(name="a GPU is missing on every node (stand-in)", causes=("node",), spec={**WAIT, "resources": GPU}, before=_stand_in("exit 0", *NODES), after=_GONE, alone=True),
    Fault(name="a GPU with memory errors on one node (stand-in)", causes=("none",), spec=of_rank_1("exit 0") | {"command": ["true"], "resources": GPU}, before=_stand_in("echo 0, 3", "n2"), after=_GONE, alone=True),
    Fault(name="nvidia-smi fails on every node (zombie, stand-in)", causes=("node",), spec={**WAIT, "resources": GPU}, before=_stand_in("echo Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error; exit 15", *NODES), after=_GONE, alone=True),
)  # fmt: skip
