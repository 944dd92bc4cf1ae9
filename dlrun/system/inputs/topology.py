"""Read the topology of this machine, of a captured `/sys` and `/proc`, or of a topology file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dlrun.config.topology import read_topology
from dlrun.config.topology.granted_gpus import granted
from dlrun.config.topology.sysfs import read_sysfs
from dlrun.config.topology.sysfs_devices import NVIDIA, PCI
from dlrun.config.topology.tree import BLANK
from dlrun.errors import Invalid, OperationFailed
from dlrun.model.cpuset import parse_list
from dlrun.model.topology import Gpu, Topology
from dlrun.system.paths import read_bytes

LIMIT = 64 * 2**20
"""Largest topology file read, in bytes; `lstopo` XML of a 1,536-PU machine has 3 MB."""


class DirectoryTree:
    """The files below a directory; implements `dlrun.config.topology.tree.Tree`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> str | None:
        """The text of a file; None if it cannot be read."""
        try:
            return (self._root / path).read_text(errors="replace").strip(BLANK)
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        """The entries of a directory."""
        try:
            return sorted(entry.name for entry in (self._root / path).iterdir())
        except OSError:
            return []

    def target(self, path: str) -> str | None:
        """The target of a symbolic link."""
        try:
            return str((self._root / path).readlink())
        except OSError:
            return None


def live_topology(root: Path = Path("/"), *, environment: Mapping[str, str] | None = None) -> Topology:
    """This machine, with the CPUs and GPUs that this process may use.

    environment: variables that may hide GPUs, by default those of this process. Raises OperationFailed if the system does not
    show its CPUs.
    """
    tree = DirectoryTree(root)
    try:
        topology = read_sysfs(tree, name=os.uname().nodename, allowed=allowed_cpus(tree))
    except ValueError as error:
        raise OperationFailed(
            f"cannot read this machine's topology: {error}",
            help="`--topology FILE` reads one from `lstopo --of xml` or `lscpu -p`",
        ) from None

    if not topology.gpus:
        return topology
    usable, uuids = _usable_gpus(root, topology), _gpu_names(tree)
    shown = os.environ if environment is None else environment
    return replace(topology, gpus=granted(topology.gpus, shown, usable=usable, uuids=uuids))


def _usable_gpus(root: Path, topology: Topology) -> frozenset[str] | None:
    """PCI addresses of the GPUs whose device file this process may open; None where there are no such files."""
    tree = DirectoryTree(root)
    files = {gpu.pci: root / path for gpu in topology.gpus if (path := _device_file(tree, gpu))}
    present = {pci: path for pci, path in files.items() if path.exists()}
    return frozenset(pci for pci, path in present.items() if _opens(path)) if present else None


def _device_file(tree: DirectoryTree, gpu: Gpu) -> str | None:
    if gpu.kind == "cuda":
        match = re.search(r"Device Minor:\s+(\d+)", tree.read(f"{NVIDIA}/{gpu.pci}/information") or "")
        return f"dev/nvidia{match[1]}" if match else None
    names = [name for name in tree.names(f"{PCI}/{gpu.pci}/drm") if name.startswith("renderD")]
    return f"dev/dri/{names[0]}" if names else None


def _opens(path: Path) -> bool:
    """Whether a device can be opened: a control group may refuse it although the file's mode allows it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def _gpu_names(tree: DirectoryTree) -> dict[str, str]:
    """PCI address -> UUID, of NVIDIA GPUs from the driver, of AMD's from their unique id (ROCr, "GPU isolation techniques")."""
    texts = {pci: tree.read(f"{NVIDIA}/{pci}/information") or "" for pci in tree.names(NVIDIA)}
    uuids = {pci: match[1] for pci, text in texts.items() if (match := re.search(r"GPU UUID:\s+(\S+)", text))}
    ids = {pci: tree.read(f"{PCI}/{pci}/unique_id") for pci in tree.names(PCI)}
    return uuids | {pci: f"GPU-{text.strip()}" for pci, text in ids.items() if text}


def allowed_cpus(tree: DirectoryTree) -> tuple[int, ...]:
    """CPUs that this process may use: its affinity mask within its cgroup's cpuset, ascending."""
    mask = os.sched_getaffinity(0)
    granted = granted_cpus(tree)
    return tuple(sorted(mask & granted if granted else mask))


def granted_cpus(tree: DirectoryTree) -> set[int]:
    """The CPUs of this process's cpuset cgroup, version 1 or 2, regardless of its affinity mask; empty without one."""
    for line in (tree.read("proc/self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            base, file = "sys/fs/cgroup", "cpuset.cpus.effective"
        elif "cpuset" in controllers.split(","):
            base, file = "sys/fs/cgroup/cpuset", "cpuset.effective_cpus"
        else:
            continue
        group = path.rstrip("/")
        while not (text := tree.read(f"{base}{group}/{file}")) and group:
            group = group.rpartition("/")[0]  # the controller ends above this group
        if text:
            return set(parse_list(text))
    return set()


def _short_form(path: Path) -> Topology:
    """The topology of a YAML file with the keys of a profile's `topology:`; raises InvalidFile with all problems."""
    from dlrun.config.decode import decode  # noqa: PLC0415 - reads YAML, which the other kinds need not
    from dlrun.config.document import parse  # noqa: PLC0415
    from dlrun.config.nodes import MapNode  # noqa: PLC0415
    from dlrun.config.topology.short import build  # noqa: PLC0415
    from dlrun.model.origin import Layer, Origin  # noqa: PLC0415
    from dlrun.model.problem import InvalidFile, Problem  # noqa: PLC0415
    from dlrun.model.topology_short import ShortTopology  # noqa: PLC0415
    from dlrun.system.inputs.text import read_text  # noqa: PLC0415

    text, at = read_text(path, Layer.SITE), Origin(layer=Layer.SITE, name=str(path))
    document = parse(text, at)
    problems = list(document.problems)
    if isinstance(document.root, MapNode):
        decoded = decode(document.root, ShortTopology, document="site")
        problems += decoded.problems
        if not problems and decoded.value is not None:
            try:
                topology = build(decoded.value)
            except ValueError as error:
                problems.append(Problem(message=str(error), origin=at))
            else:
                return topology if topology.name else replace(topology, name=path.stem)
    way_out = "write keys such as `packages:` and `cores:`, as under `topology:` of a site profile"
    raise InvalidFile(
        problems or [Problem(message="the file has no topology", origin=at, help=way_out)], {at.name: text}
    )


def topology_from(path: Path) -> Topology:
    """The topology of a file (dlrun's JSON, `lstopo` XML, `lscpu -p`, or `.yaml` with the keys of a profile's
    `topology:`) or of a captured tree (a directory with `sys`).

    Raises Invalid for a missing file or another format.
    """
    if path.suffix in (".yaml", ".yml"):
        return _short_form(path)
    try:
        if path.is_dir():
            return read_sysfs(DirectoryTree(path), name=path.name)
        if path.stat().st_size > LIMIT:
            raise Invalid(f"`{path}` is too large for a topology")
        return read_topology(read_bytes(path, LIMIT).decode("utf-8"), name=path.stem)
    except OSError as error:
        raise Invalid(f"cannot read topology `{path}`: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(
            f"`{path}` is not text",
            help="a topology is `lstopo --of xml`, `lscpu -p`, or what `--capture` writes",
        ) from None
    except (ValueError, RecursionError) as error:
        message = str(error) or "it is nested too deeply"
        raise Invalid(f"`{path}` is not a topology: {message}") from None
