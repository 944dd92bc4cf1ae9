"""Output of `dlrun site test`: each line of the profile with its verdict, and the corrected line below a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dlrun.config.nodes import MapNode, Node
from dlrun.config.wording import yaml_text
from dlrun.terminal.yaml_line import flow_text

if TYPE_CHECKING:
    from dlrun.site.testing.fact import Fact
    from dlrun.site.testing.run import Verdicts

_MARK = {"holds": "ok", "differs": "wrong", "not seen": "?"}
_WIDTH = 6
"""Width of the column of verdicts."""


def plain(fact: Fact) -> dict[str, Any]:
    """A verdict, for `--json`."""
    return {
        "key": fact.key,
        "verdict": fact.verdict,
        "seen": fact.seen,
        "where": fact.where,
        "line": fact.line,
        "origin": str(fact.origin) if fact.origin is not None else None,
    }


def lines_of(tested: Verdicts) -> Iterator[str]:
    """The profile line by line, with verdicts; then the verdicts on keys that it does not have."""
    rest = list(tested.facts)
    root = tested.loaded.profile.root
    assert root is not None  # noqa: S101 - a profile that loads has a tree
    for path, depth, text, value in _lines(root, (), 0):
        mine = [fact for fact in rest if _is_of(fact, path, value)]
        rest = [fact for fact in rest if fact not in mine]
        pad = "  " * depth
        mark = next(
            (_MARK[v] for v in ("differs", "holds", "not seen") if any(f.verdict == v for f in mine)), ""
        )
        notes = "; ".join(dict.fromkeys(_note(fact) for fact in mine))
        yield f"{mark:<{_WIDTH}}{pad}{text}{f'  # {notes}' if notes else ''}".rstrip()
        for fact in mine:
            if fact.line is not None:
                yield f"{'->':<{_WIDTH}}{pad}{'  ' * fact.key.count('.', len('.'.join(path)) + 1)}{fact.line}"
    if rest:
        yield ""
        yield "# Not in the profile:"
    for fact in rest:
        yield f"{_MARK[fact.verdict]:<{_WIDTH}}{fact.key}  # {_note(fact)}"
        if fact.line is not None:
            yield f"{'->':<{_WIDTH}}{fact.line}"


def _is_of(fact: Fact, path: tuple[str, ...], value: Node) -> bool:
    """Whether a fact is about this line: about its key, or about a key in its value (`{a: 1}`)."""
    # Facts about values of the profile have its origin; those about missing keys have none.
    if fact.origin is None or fact.origin != value.origin:
        return fact.key == ".".join(path) and fact.origin is None
    return True


def _note(fact: Fact) -> str:
    # Output of programs can have several lines, but a comment of YAML is one.
    seen = " / ".join(line.strip() for line in fact.seen.splitlines() if line.strip())
    return f"{fact.where}: {seen}" if fact.where else seen


def _lines(
    node: MapNode, path: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], int, str, Node]]:
    for name, entry in node.entries.items():
        here = (*path, name)
        if isinstance(entry.value, MapNode) and entry.value.entries:
            yield here, depth, f"{yaml_text(name)}:", entry.value
            yield from _lines(entry.value, here, depth + 1)
        else:
            yield here, depth, f"{yaml_text(name)}: {flow_text(entry.value)}", entry.value
