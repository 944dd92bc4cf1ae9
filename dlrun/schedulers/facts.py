"""The facts that schedulers report about clusters, in common terms, and the commands that were asked for them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dlrun.errors import DlrunError, OperationFailed

Answer = TypeVar("Answer")
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
    """A cluster as reported by its scheduler; None for facts not reported.

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


_BY_HAND = (
    "repeat this on a login node whose scheduler answers, read its output from files with `dlrun site import`, or write a "
    "profile with `dlrun site new`"
)


class Commands:
    """Runs commands, and records those that answered and the errors of the others."""

    def __init__(self, runner: Callable[[Sequence[str]], Any], has: Callable[[str], bool]) -> None:
        """`runner` runs a command, `has` is whether a program is installed."""
        self.has = has
        self._runner = runner
        self.answered: list[str] = []
        self.failed: dict[str, str] = {}

    def required(self, *argv: str) -> str:
        """The output of a command; raises OperationFailed if it fails."""
        output = self.optional(*argv)
        if output is None:
            line = " ".join(argv)
            why = (self.failed[line] or "no message").splitlines()[-1]
            raise OperationFailed(f"`{line}` failed: {why}", help=_BY_HAND)
        return output

    def optional(self, *argv: str) -> str | None:
        """The output of a command, None if it fails."""
        line = " ".join(argv)
        try:
            done = self._runner(argv)
        except DlrunError as error:
            self.failed[line] = error.message
            return None
        if done.returncode:
            self.failed[line] = done.stderr.strip()[-300:]
            return None
        self.answered.append(line)
        return str(done.stdout)

    def read(self, parse: Callable[[str], Answer], *argv: str) -> Answer | None:
        """The parsed output of a command; None if it fails or has another format."""
        output = self.optional(*argv)
        if output is None:
            return None
        try:
            return parse(output)
        except UNREADABLE as error:
            line = " ".join(argv)
            self.answered.remove(line)
            self.failed[line] = str(error)[:300]
            return None

    def finish(self, cluster: Cluster) -> Cluster:
        """The facts with the commands that answered and those that failed."""
        failed = [
            f"`{line}` did not answer" + (f": {why.splitlines()[-1]}" if why else "")
            for line, why in self.failed.items()
        ]
        # A truncated line has no name.
        named = tuple(queue for queue in cluster.queues if queue.name)
        return replace(cluster, queues=named, asked=tuple(self.answered), unseen=(*cluster.unseen, *failed))
