"""The facts that schedulers report about clusters, in common terms; None for facts not reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlrun.errors import OperationFailed
from dlrun.model.text import digits

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions of parsing an unexpected answer: of another version, truncated, or forged."""


def json_of(text: str) -> Any:
    """The JSON value in a client's output, which may begin with a notice (of maintenance, or of a wrapper).

    Raises ValueError if there is none. Only lines without indentation begin a value, so that a part of a cut one is not taken.
    """
    for start in (match.start() for match in re.finditer(r"^[{\[]", text, re.MULTILINE)):
        try:
            return json.JSONDecoder().raw_decode(text[start:])[0]
        except json.JSONDecodeError:
            continue
    return json.loads(text)


def parsed(parse: Callable[..., Cluster], *answers: Any) -> Cluster:
    """A cluster from answers of its scheduler; raises OperationFailed if they cannot be parsed."""
    try:
        return parse(*answers)
    except UNREADABLE as error:
        raise OperationFailed(f"the scheduler's answer cannot be read: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A partition or queue with its limits; times in the scheduler's format."""

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
    """A kind of identical nodes.

    cores: per package; packages: None if only `cpus` are known; hosts: available nodes first.
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
    """A cluster as reported by its scheduler.

    counts: `threads` or `cores`, the unit of its CPUs; settings: further keys of the profile's `scheduler`; launcher: enabled
    by its configuration; qos: names of its QOS (None: not reported); asked: commands that answered; unseen: facts missing.
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


def queue_of(name: str, queue: str | None) -> str | None:
    """The scheduler's queue of a profile's partition; None for no queue (`-`) or that of another PBS server (`NAME@SERVER`)."""
    queue = queue or name
    return None if queue == "-" or "@" in queue else queue


def kind_name(host: str, kinds: Sequence[Nodes]) -> str:
    """A name for the kind of a host that none of `kinds` has: `gpu` for `gpu001`, `gpu-2` for a second such kind."""
    stem = re.sub(r"[\d-]+$", "", host.split(".", maxsplit=1)[0]) or "node"
    return stem if stem not in {kind.name for kind in kinds} else f"{stem}-{len(kinds) + 1}"


def whole_number(value: object) -> int | None:
    """The number in a scheduler's output; None for anything else."""
    return int(str(value)) if value is not None and digits(str(value)) else None
