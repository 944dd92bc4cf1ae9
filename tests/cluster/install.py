"""Which Debian packages a cluster needs, and getting the missing ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import module_systems
from tests.cluster.errors import ClusterError
from tests.cluster.machine import APT, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cluster.spec import ClusterSpec

_BASE = ("iproute2", "util-linux", "gcc", "libc6-dev")
_SLURM = ("slurmctld", "slurmd", "slurm-client", "munge", "libpmix-dev")
_ACCOUNTING = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server")
_SSHD = ("openssh-server", "openssh-client")
_TORQUE = ("slurm-wlm-torque",)
_CAMPAIGN = ("sshfs",)
_MODULES = tuple({name for needs in module_systems.NEEDS.values() for name in needs})
ALL_PACKAGES = (*_BASE, *_SLURM, *_ACCOUNTING, *_SSHD, *_TORQUE, *_CAMPAIGN, *_MODULES)
"""What every option together needs, and the faults of the campaign."""


def packages(spec: ClusterSpec) -> tuple[str, ...]:
    """The Debian packages that `spec` needs."""
    wanted = list(_BASE)
    if spec.scheduler == "slurm":
        wanted += _SLURM
    if spec.accounting:
        wanted += _ACCOUNTING
    if spec.sshd:
        wanted += _SSHD
    if spec.torque:
        wanted += _TORQUE
    for name in spec.module_systems:
        wanted += module_systems.NEEDS[name]
    return tuple(wanted)


def why_not() -> str:
    """Why no cluster can run on this machine, or nothing: the reason for a skipped test."""
    if os.geteuid() != 0:
        return "the test cluster needs root: its hosts are network, mount and process namespaces"
    if shutil.which("apt-get") is None or not Path("/etc/debian_version").exists():
        return "the test cluster needs Debian: it uses Debian's slurm-wlm"
    return ""


def missing(wanted: Sequence[str]) -> list[str]:
    """Those of the packages that are not installed."""
    query = ["dpkg-query", "-W", "-f=${Package} ${db:Status-Abbrev}\n", *wanted]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout
    installed = {line.split()[0] for line in answer.splitlines() if line.split()[1:2] == ["ii"]}
    return [package for package in wanted if package not in installed]


def install(wanted: Sequence[str] = ALL_PACKAGES) -> list[str]:
    """Install the missing packages and return them; raises ClusterError when that cannot be done.

    Their services are not started, and Slurm's stand-in for `mpirun` is not left as the machine's.
    """
    absent = missing(wanted)
    if not absent:
        return []
    if reason := why_not():
        raise ClusterError(reason)
    with _no_services():
        run([*APT, "update"])
        run([*APT, "install", "-y", "--no-install-recommends", *absent])
    if "slurm-wlm-torque" in absent:
        run(["update-alternatives", "--quiet", "--remove", "mpirun", "/usr/bin/mpiexec.slurm"])
    return absent


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian starts a package's services when it is installed, unless this program says no."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():  # somebody else's answer stands
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
