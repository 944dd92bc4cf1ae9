"""MUNGE, by which a host proves to another whose a request is: one munged serves all hosts through its socket."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.spec import LOGIN

if TYPE_CHECKING:
    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec


def configure(system: Path, spec: ClusterSpec) -> None:
    """Write its key; it wants its directories to be nobody else's."""
    for name, mode in (("munge", 0o755), ("munge-key", 0o700)):
        (system / name).mkdir(mode=mode)
        shutil.chown(system / name, "munge", "munge")
    key = system / "munge-key/key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    shutil.chown(key, "munge", "munge")
    for host in (LOGIN, *spec.nodes):
        (system / "hosts" / host / "run/munge").symlink_to(system / "munge")


def start(cluster: Cluster) -> None:
    """Start it on the login host."""
    argv = ["/usr/sbin/munged", "--num-threads=4", "--pid-file=/run/munge/munged.pid"]
    argv += [f"--{name}-file={cluster.system}/munge-key/{name}" for name in ("key", "log", "seed")]
    cluster.on(LOGIN, argv, user="munge", check=True)
