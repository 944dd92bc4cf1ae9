"""What a scheduler reports about its cluster, in common terms; None is what it did not report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A partition or queue with its limits; times as the scheduler writes them."""

    name: str
    default: bool = False
    max_walltime: str | None = None
    default_walltime: str | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    exclusive: bool = False
    preemptable: bool = False
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Nodes that are alike. `cores` are those of a package; without `packages` only `cpus` are known.

    `hosts` has those first that can run something now.
    """

    name: str
    count: int
    memory_mib: int
    packages: int | None = None
    cores: int | None = None
    smt: int = 1
    cpus: int | None = None
    gpus: int = 0
    gpu_type: str | None = None
    reserved: str = ""
    features: tuple[str, ...] = ()
    queues: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster as its scheduler describes it.

    `counts` is what it counts as a CPU; `settings` are further keys of the profile's `scheduler`; `launcher` is the one that
    its configuration allows for; `qos` has the names of its QOS, None where it did not report them; `asked` are
    the commands that answered; `unseen` is what they left open.
    """

    scheduler: str
    name: str | None = None
    version: str | None = None
    mpi: str | None = None
    counts: str | None = None
    launcher: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    queues: tuple[Queue, ...] = ()
    nodes: tuple[Nodes, ...] = ()
    qos: frozenset[str] | None = None
    asked: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def compared(name: str, queue: str | None) -> str | None:
    """The queue of a profile's partition to compare with the scheduler; None where it names none (`-`), or one of another
    PBS server (`NAME@SERVER`), of which this scheduler reports nothing."""
    queue = queue or name
    return None if queue == "-" or "@" in queue else queue
