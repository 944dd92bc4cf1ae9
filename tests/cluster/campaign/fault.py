"""What a fault is: what is run, how it is broken, and the cause that must be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.programs import path_of

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

BOTH: Mapping[str, Any] = {"nodes": 2, "ranks_per_node": 1, "cpus_per_rank": 1, "walltime": "10m"}
ONE: Mapping[str, Any] = {**BOTH, "nodes": 1}
PAIR: Mapping[str, Any] = {**BOTH, "hosts": ["n1", "n2"]}
"""On these two nodes, where the scheduler can be told; `n1` and `n2` are its first ones anyway while none is in use."""
NODES = tuple(f"n{number}" for number in range(1, 7))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `causes` are those that are right, `told` words that the answer must have.

    `before` and `after` change the cluster around the job, and what `before` returns is added to the spec; `strike`
    breaks the job while it runs. `alone` is for what hits nodes, `only` names the scheduler that it needs, `never` those
    with which it has no meaning. A job that is `blocked` does not end by itself; one that is `unasked` ends while its scheduler
    is away. `far` jobs are submitted and asked about from a host outside the cluster. What a job leaves may take `gone`
    seconds to end.
    Where the program that it `needs` is not installed, it is skipped.
    """

    name: str
    causes: tuple[str, ...]
    spec: Mapping[str, Any]
    told: tuple[str, ...] = ()
    site: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Field], Mapping[str, Any] | None] | None = None
    strike: Callable[[Field, str], None] | None = None
    after: Callable[[Field], None] | None = None
    alone: bool = False
    only: str = ""
    never: tuple[str, ...] = ()
    needs: str = ""
    blocked: bool = False
    unasked: bool = False
    far: bool = False
    within: float = 150.0
    gone: float = 15.0
    point: str = ""

    def why_not(self) -> str:
        """Why it cannot be forced on this machine, or nothing."""
        return path_of(self.needs)[1] if self.needs else ""


def bash(script: str, **more: Any) -> dict[str, Any]:
    """A training whose command is bash code, on two nodes."""
    return {"command": ["bash", "-c", script], "resources": BOTH, **more}


def python(code: str, **more: Any) -> dict[str, Any]:
    """A training whose command is Python code, on two nodes."""
    return {"command": ["python3", "-c", code], "resources": BOTH, **more}


WAIT = bash("echo begun; exec sleep 600")
"""A training that runs until something ends it."""


def of_rank_1(script: str, **more: Any) -> dict[str, Any]:
    """Bash code that rank 1 runs; rank 0 waits for it in vain."""
    return bash(f"((RANK)) || exec sleep 600; {script}", **more)


def py_of_rank_1(code: str, **more: Any) -> dict[str, Any]:
    """Python code that rank 1 runs; rank 0 waits for it in vain."""
    return python(f"import os, time\nif os.environ['RANK'] == '0': time.sleep(600)\n{code}", **more)


def everywhere(script: str) -> Callable[[Field], None]:
    """Run bash code as root on all nodes."""
    return on_nodes(script, *NODES)


def on_nodes(script: str, *nodes: str) -> Callable[[Field], None]:
    """Run bash code as root on some nodes."""

    def hook(it: Field) -> None:
        for node in nodes:
            it.on(node, script)

    return hook


def signal_of_rank_1(name: str, program: str = "sleep") -> Callable[[Field, str], None]:
    """Send a signal to rank 1's program once it runs."""

    def strike(it: Field, job: str) -> None:
        it.begun(job, 1)
        it.kill(job, it.hosts(job)[1], name, program)

    return strike


def last_node(it: Field, job: str) -> str:
    """The node of rank 1, once both ranks have begun."""
    it.begun(job)
    it.begun(job, 1)
    return it.hosts(job)[1]
