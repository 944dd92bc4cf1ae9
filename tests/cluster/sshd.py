"""OpenSSH servers: a host key for every host, a key for every user, and a second factor where asked for.

All host keys stand in /etc/ssh/ssh_known_hosts, so nothing has to be trusted blindly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from tests.cluster import image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec

SECOND_FACTOR = "314159"
"""The code that hosts with a second factor ask for."""

_HASH = "$6$dlrun$bwpXE7LHldWYGr9bLZledOURAkrVLZ8OjiKAvrBdrtQZdF.IznEyMbdmsAOBf2QHaJYxH6.OLD3r.qMsBpjBG0"

_CONFIG = """\
HostKey {key}
PidFile /run/sshd.pid
PasswordAuthentication no
PermitRootLogin no
Subsystem sftp internal-sftp
MaxStartups 100
UseDNS no
"""

_ONE_FACTOR = """\
UsePAM no
KbdInteractiveAuthentication no
"""

_TWO_FACTORS = """\
UsePAM yes
KbdInteractiveAuthentication yes
AuthenticationMethods publickey,keyboard-interactive
"""

_PAM = """\
auth required pam_unix.so
account required pam_permit.so
session required pam_permit.so
"""


def configure(root: Path, spec: ClusterSpec) -> None:
    """Write every host's key and configuration, and every user's key, into the directories of the cluster."""
    etc = image.system(root) / "etc"
    shutil.rmtree(etc / "ssh", ignore_errors=True)  # the machine's own keys and settings are no part of this
    (etc / "ssh").mkdir()
    known = []
    for host in spec.hosts:
        key = etc / "ssh" / f"host_{host}"
        public = _make_key(key, host)
        known.append(f"{host},{spec.address(host)} {public}")
        factors = _TWO_FACTORS if host in spec.second_factor else _ONE_FACTOR
        (etc / "ssh" / f"sshd_{host}").write_text(_CONFIG.format(key=key) + factors)
    (etc / "ssh/ssh_known_hosts").write_text("\n".join(known) + "\n")
    (etc / "pam.d/sshd").write_text(_PAM)
    if spec.second_factor:
        shadow = etc / "shadow"
        lines = shadow.read_text().splitlines()
        locked = tuple(f"{user}:*:" for user in spec.users)
        lines = [line.replace(":*:", f":{_HASH}:", 1) if line.startswith(locked) else line for line in lines]
        shadow.write_text("\n".join(lines) + "\n")
    for uid, user in enumerate(spec.users, image.FIRST_UID):
        _give_key(image.home(root, user) / ".ssh", user, uid)


def start(cluster: Cluster, host: str) -> None:
    """Start the server of `host`; it accepts connections when this returns."""
    (cluster.own_path(host, "/run") / "sshd").mkdir(exist_ok=True)
    argv = ["/usr/sbin/sshd", "-f", f"/etc/ssh/sshd_{host}", "-E", "/var/log/sshd.log"]
    cluster.on(host, argv, user="root", check=True)


def _make_key(path: Path, comment: str) -> str:
    """Make a key pair without a passphrase; the public half."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)], check=True
    )
    return path.with_name(path.name + ".pub").read_text().strip()


def _give_key(place: Path, user: str, uid: int) -> None:
    place.mkdir(mode=0o700)
    (place / "authorized_keys").write_text(_make_key(place / "id_ed25519", user) + "\n")
    for path in (place, *place.iterdir()):
        os.chown(path, uid, uid)
