"""Environment Modules and Lmod on the hosts, side by side, though Debian lets a machine install only one of them.

Their packages are unpacked and laid over the hosts' /usr and /etc; the machine itself gets only what they need.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.machine import APT, run

if TYPE_CHECKING:
    from collections.abc import Iterable

NEEDS = {
    "environment-modules": ("tcl8.6",),
    "lmod": ("lua5.3", "lua-filesystem", "lua-json", "lua-posix", "lua-term", "libtcl8.6"),
}
"""What each package depends on."""

START = {
    "environment-modules": "source /usr/share/modules/init/bash",
    "lmod": "source /usr/share/lmod/lmod/init/bash",
}
"""The shell line that defines `module`: a batch script's shell reads no start-up file that would."""

_ARCHIVES = Path("/var/cache/apt/archives")


def why_not() -> str:
    """Why hosts cannot have them, or nothing."""
    if "\toverlay\n" in Path("/proc/filesystems").read_text():
        return ""
    return "this kernel has no overlay file system, which lays module systems over a host's /usr"


def unpack(system: Path, wanted: Iterable[str]) -> None:
    """Unpack the packages; their part of /etc goes into the hosts' /etc. Raises ClusterError if that fails."""
    for package in wanted:
        place = _place(system) / package
        place.mkdir(parents=True)
        run(["dpkg-deb", "--extract", str(_archive(package)), str(place)])
        if (place / "etc").exists():
            run(["cp", "-a", f"{place}/etc/.", str(system / "etc")])


def mount_lines(system: Path, wanted: Iterable[str]) -> list[str]:
    """What a host's first process runs: its /usr is the machine's and the packages'."""
    layers = [str(_place(system) / package / "usr") for package in wanted]
    if not layers:
        return []
    return [f"mount -t overlay -o ro,lowerdir={shlex.quote(':'.join([*layers, '/usr']))} overlay /usr"]


def _place(system: Path) -> Path:
    return system / "packages"


def _archive(package: str) -> Path:
    """The package's file, downloaded once for the machine."""
    if not list(_ARCHIVES.glob(f"{package}_*.deb")):
        run([*APT, "update"])
        run([*APT, "-o", "APT::Sandbox::User=root", "download", package], cwd=_ARCHIVES)
    return max(_ARCHIVES.glob(f"{package}_*.deb"))
