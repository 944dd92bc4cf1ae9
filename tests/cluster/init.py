"""The script that each host's first process runs: its mounts, and then reaping orphans until the end.

A host sees all of the machine's files but for its own directories, an /etc and a /root that are not the
machine's, and (on a compute node) the CPUs that it claims. The checkout and the Python that runs it keep their
paths, also where an ordinary user could not reach them on the machine itself.
"""

from __future__ import annotations

import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import cgroups, image, module_systems, topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.cluster.spec import ClusterSpec

_CHECKOUT = Path(__file__).resolve().parents[2]

_HEAD = """\
read -r pid rest < /proc/self/stat  # still the machine's /proc: our id as the machine sees it
mount -t proc proc /proc
mount -t sysfs sysfs /sys  # /sys/class/net is that of the mount's network namespace
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
"""

_TAIL = """\
mkdir -p /run/lock /run/user
cd /
echo "$pid"
exec > /dev/null 2>&1
while :; do sleep infinity & wait; done
"""


def write(
    root: Path, spec: ClusterSpec, host: str, needed: Iterable[Path], layers: Iterable[str] = ()
) -> None:
    """Write the script; `needed` are more paths that every user must be able to reach, `layers` packages over /usr."""
    own = image.system(root) / "hosts" / host
    before, after = _exposures(own / "keep", [_CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), *needed])
    mounts = module_systems.mount_lines(image.system(root), (*spec.module_systems, *layers))
    mounts += [_bind(image.system(root) / "etc", "/etc")]
    mounts += [_bind(image.own_path(root, host, path), path) for path in image.OWN_DIRECTORIES]
    if host in spec.outside:
        mounts.append(_bind(root / "local" / host / "shared", root / "shared"))
    if host in spec.nodes:
        node = spec.node_type(host)
        claimed = image.system(root) / "topology" / node.name
        mounts += [_bind(claimed / name, f"/sys/devices/system/{name}") for name in topology.MOUNTED]
        if node.tmp_mib:
            mounts.append(f"mount -t tmpfs -o size={node.tmp_mib}m,mode=1777 tmpfs /tmp")
        if spec.cgroup:
            keep, show = cgroups.mount_lines(own / "cgroup", root.name, host)
            before, after = before + keep, after + show
    lines = ["set -e", *before, f"hostname {shlex.quote(host)}", _HEAD, *mounts, *after, _TAIL]
    (own / "init").write_text("\n".join(lines))


def _bind(source: Path, target: Path | str) -> str:
    return f"mount --rbind {shlex.quote(str(source))} {shlex.quote(str(target))}"


def _exposures(keep: Path, paths: list[Path]) -> tuple[list[str], list[str]]:
    """Lines to run before and after the host's own mounts, so that every user reaches `paths` where they are.

    /root is always emptied, and so is the first directory on the way that ordinary users may not pass.
    """
    emptied = [Path("/root")]
    wanted = []
    own = [Path(path) for path in image.OWN_DIRECTORIES]
    for path in dict.fromkeys(path.resolve() for path in paths):
        closed = [part for part in [*reversed(path.parents), path] if not part.stat().st_mode & stat.S_IXOTH]
        wanted += sorted(path.iterdir()) if path in closed else [path]
        if closed and not any(closed[0].is_relative_to(cover) for cover in [*own, *emptied]):
            emptied.append(closed[0])
    hidden = [path for path in wanted if any(path.is_relative_to(cover) for cover in [*own, *emptied])]
    hidden = [path for path in hidden if not any(parent in hidden for parent in path.parents)]
    before: list[str] = []
    after = [f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(path))}" for path in emptied]
    for number, path in enumerate(hidden):
        place = keep / str(number)
        for lines, source, target in ((before, path, place), (after, place, path)):
            if path.is_dir():
                lines.append(f"mkdir -p {shlex.quote(str(target))}")
            else:
                quoted = shlex.quote(str(target.parent)), shlex.quote(str(target))
                lines.append("mkdir -p {} && touch {}".format(*quoted))
            lines.append(_bind(source, target))
    return before, after
