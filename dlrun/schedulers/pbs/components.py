"""Nodes of several types in one job of OpenPBS: chunks of one `select`, granted together, each on hosts of its own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dlrun.model.plan import Directive
from dlrun.model.problem import InvalidFile, Problem
from dlrun.schedulers.pbs.directives import quote
from dlrun.schedulers.protocol import Components

_SELECT = "select="
_APART = "submit the roles on other nodes as a job of their own"
_WAYS = {
    "-q": f"use node types of one queue for all roles, or {_APART}",
    "-l place": "set `exclusive` in `resources`, so that it is the same for all roles",
}
"""What a directive begins with -> the way out where the roles need several of it."""


def join(parts: Sequence[Sequence[Directive]]) -> Sequence[Directive]:
    """The directives of the first component with the chunks of all, which PBS grants, and lists in its node file, in this order.

    pbs_resources(7B): `select=2:ncpus=8:ngpus=2+1:ncpus=4`. Raises InvalidFile where the others differ in more than that.
    """
    first, *rest = parts
    selected = [directive for part in parts for directive in part if _chunks(directive)]
    if len(selected) < len(parts):
        message = (
            "this site's jobs request the resources of all nodes in total, so their nodes are of one type"
        )
        raise InvalidFile([Problem(message=message, help=f"use one `node_type` for all roles, or {_APART}")])
    known = {directive.text for directive in first}
    if other := next(
        (
            directive
            for part in rest
            for directive in part
            if directive.text not in known and not _chunks(directive)
        ),
        None,
    ):
        begin = next((begin for begin in _WAYS if other.text.startswith(begin)), other.text.partition(" ")[0])
        same = next((f" beside `{text}`" for text in known if text.startswith(begin)), "")
        message = f"a job of PBS cannot have `{other.text}` for some of its roles{same}"
        raise InvalidFile(
            [Problem(message=message, help=_WAYS.get(begin, f"request it for all roles, or {_APART}"))]
        )
    whole = Directive(
        text=f"-l {quote(_SELECT + '+'.join(map(_chunks, selected)))}",
        because=", then ".join(directive.because for directive in selected),
        origin=selected[0].origin,
    )
    return [whole if _chunks(directive) else directive for directive in first]


def _chunks(directive: Directive) -> str:
    """The chunks of a `select`; empty for other directives."""
    if not directive.text.startswith("-l"):
        return ""
    value = "".join(shlex.split(directive.text)[1:])
    return value.removeprefix(_SELECT) if value.startswith(_SELECT) else ""


# PBS_NODEFILE has one line per MPI process (`mpiprocs`), not per host.
HOSTS = """awk '!seen[$0]++' "$PBS_NODEFILE\""""
COMPONENTS = Components(hosts=HOSTS, join=join)
