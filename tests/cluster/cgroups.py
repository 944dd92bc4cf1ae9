"""Memory limits that end a job: a part of the machine's version 1 cgroup tree for each compute node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.errors import ClusterError
from tests.cluster.hosts import await_true

if TYPE_CHECKING:
    from tests.cluster.spec import ClusterSpec

_TREE = Path("/sys/fs/cgroup")
_CONTROLLERS = ("freezer", "memory")

SLURM_CONF = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
"""
"""The lines of slurm.conf that cgroups need."""

CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainCores=no
ConstrainDevices=no
"""
"""The whole cgroup.conf; Slurm reads it also where it uses no cgroups."""


def why_not() -> str:
    """Why this machine's cgroups cannot limit memory here, or nothing."""
    lacking = [name for name in _CONTROLLERS if not (_TREE / name / "cgroup.procs").exists()]
    return f"needs version 1 cgroup controllers that are not mounted: {', '.join(lacking)}" if lacking else ""


def build(cluster: str, spec: ClusterSpec) -> None:
    """Make each compute node's part of the tree."""
    if reason := why_not():
        raise ClusterError(reason)
    for controller in _CONTROLLERS:
        for host in spec.nodes:
            (_TREE / controller / cluster / host).mkdir(parents=True)


def mount_lines(keep: Path, cluster: str, host: str) -> tuple[list[str], list[str]]:
    """Lines to run before and after the host's own mounts, so that it sees its part as if it were the whole."""
    own = {keep / name: _TREE / name / cluster / host for name in _CONTROLLERS}
    before = [f"mkdir -p {place} && mount --bind {path} {place}" for place, path in own.items()]
    return before, [f"mount --rbind {keep} {_TREE}"]


def thaw(cluster: str) -> None:
    """Let the processes of suspended jobs run: frozen ones do not end."""
    for place, _, _ in os.walk(_TREE / "freezer" / cluster):
        Path(place, "freezer.state").write_text("THAWED")


def remove(cluster: str) -> None:
    """Delete what `build` made and what Slurm made in it."""
    for controller in _CONTROLLERS:
        for place, _, _ in os.walk(_TREE / controller / cluster, topdown=False):
            processes = Path(place, "cgroup.procs")
            await_true(lambda file=processes: not file.read_text(), 60, f"the processes of {place} to end")
            Path(place).rmdir()
