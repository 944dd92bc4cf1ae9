"""The files of a cluster: an /etc that its hosts share, homes, and every host's own directories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tests.cluster.spec import ClusterSpec

FIRST_UID = 7001
"""User id of the first user; high, so that it is nobody's on the machine."""

PEOPLE = range(1000, 60000)
"""Numbers that Debian gives to people (Debian Policy 9.2.2); packages have the others."""

OWN_DIRECTORIES = {
    "/tmp": 0o1777,
    "/var/tmp": 0o1777,
    "/run": 0o755,
    "/var/log": 0o1777,
    "/var/spool": 0o755,
}
"""Directories of which each host has its own, and their modes."""

ON_DISK = ("/tmp", "/var/tmp")
"""Those in which jobs may put much; the others are in memory."""


def system(root: Path) -> Path:
    """The cluster's own files: a file system in memory, because they are many, small and short-lived."""
    return root / "system"


def build(root: Path, spec: ClusterSpec) -> None:
    """Write everything that hosts share, in the new directory `root`."""
    inner = system(root)
    for place in (root, inner):
        place.mkdir()
        place.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "dlrun", str(inner)], check=True)
    subprocess.run(["cp", "-a", "/etc", str(inner / "etc")], check=True)
    (inner / "hosts").mkdir()
    for name in ("local", "shared"):
        (root / name).mkdir()
    _write_names(inner / "etc", spec)
    _write_users(root, spec)
    scratch = root / "shared/scratch"
    scratch.mkdir()
    scratch.chmod(0o1777)
    for host in spec.hosts:
        (inner / "hosts" / host).mkdir()
        (root / "local" / host).mkdir()
        for path, mode in OWN_DIRECTORIES.items():
            own_path(root, host, path).mkdir()
            own_path(root, host, path).chmod(mode)


def copy_homes(root: Path, spec: ClusterSpec) -> None:
    """Give outside hosts homes of their own, as they are now."""
    for host in spec.outside:
        subprocess.run(["cp", "-a", str(root / "shared"), str(root / "local" / host)], check=True)


def remove(root: Path) -> None:
    """Delete what `build` made, also half of it."""
    if system(root).is_mount():
        subprocess.run(["umount", "--lazy", str(system(root))], check=True)
    if root.exists():
        shutil.rmtree(root)


def home(root: Path, user: str) -> Path:
    """The home directory of `user`: the same path on every host and on the machine."""
    return root / "shared" / user


def own_path(root: Path, host: str, path: str) -> Path:
    """Where the machine sees the `path` that is `host`'s own (one of OWN_DIRECTORIES)."""
    place = root / "local" if path in ON_DISK else system(root) / "hosts"
    return place / host / path.strip("/").replace("/", "-")


def _write_names(etc: Path, spec: ClusterSpec) -> None:
    """Host names from a file only: no name service inside."""
    hosts = ["127.0.0.1 localhost", *(f"{spec.address(host)} {host}" for host in spec.hosts)]
    for name, lines in {
        "hosts": hosts,
        "resolv.conf": ["# no name servers inside the cluster"],
        "nsswitch.conf": [f"{kind}: files" for kind in ("passwd", "group", "shadow", "hosts", "services")],
    }.items():
        (etc / name).unlink(missing_ok=True)
        (etc / name).write_text("\n".join(lines) + "\n")


def _write_users(root: Path, spec: ClusterSpec) -> None:
    """Users that exist on the hosts only, and none of this machine's; their password is `*`: sshd refuses what `!` locks."""
    etc = system(root) / "etc"
    for name in ("passwd", "shadow", "group", "gshadow"):
        if (etc / name).exists():
            lines = (etc / name).read_text().splitlines()
            (etc / name).write_text("".join(f"{line}\n" for line in without_people(name, lines, spec.users)))
    for uid, user in enumerate(spec.users, FIRST_UID):
        place = home(root, user)
        place.mkdir(mode=0o700)
        os.chown(place, uid, uid)
        for name, line in {
            "passwd": f"{user}:x:{uid}:{uid}::{place}:/bin/bash",
            "group": f"{user}:x:{uid}:",
            "shadow": f"{user}:*:19000::::::",
        }.items():
            with (etc / name).open("a") as out:
                out.write(line + "\n")


def without_people(name: str, lines: Iterable[str], users: Collection[str]) -> Iterator[str]:
    """The lines of a file of /etc without `users` and without the numbers that people have on this machine.

    What packages made stays. Groups keep no member: who runs a daemon is in none.
    """
    for line in lines:
        fields = line.split(":")
        if fields[0] in users:
            continue
        if name in ("passwd", "group") and fields[2:3] and int(fields[2] or 0) in PEOPLE:
            continue
        yield ":".join([*fields[:3], ""]) if name == "group" else line
