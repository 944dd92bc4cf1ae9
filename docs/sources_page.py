"""The page with the sources of each shipped profile: a part of `docs.generate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dlrun.config.nodes import MapNode, Node
from dlrun.effects.inputs.profiles import Machine, load_site
from dlrun.model.site import Citation
from dlrun.resources import directory
from docs.settings_page import plain, table

_OWN = (
    "name",
    "title",
    "centre",
    "status",
    "confidence",
    "note",
    "extends",
    "sources",
    "unknown",
    "defaults",
)
"""Keys that are not facts of the cluster."""
_HERE = Machine(
    environment={"PATH": ""}, home=directory("site-configs"), root=directory("site-configs"), host="docs"
)


def sources_page(note: str) -> str:
    """A summary line for each profile, then the sources of each: keys, number of values, date."""
    text = "# Sources of the shipped profiles\n\n" + note
    text += (
        "The source of each value of a shipped profile, and the date when it was read. A value counts for the sources that "
        "name its key most specifically; `not found` lists keys that no source states. `dlrun site check NAME` reports "
        "sources that are older than a year.\n\n"
    )
    rows, sections = [], ""
    for name in sorted(path.stem for path in directory("site-configs").glob("*.yaml")):
        loaded = load_site(name, here=_HERE)
        cited, root = loaded.site.sources, loaded.profile.root
        facts = list(_facts(root)) if root is not None else []
        counted = Counter(number for fact in facts for number in _sources_of(fact, cited))
        dates = sorted(one.date for one in cited if one.date)
        rows.append((
            f"[{name}](../sites/{name}.md)", str(len(facts)), str(len(cited)), dates[0] if dates else "",
            dates[-1] if dates else "", ", ".join(loaded.site.unknown),
        ))  # fmt: skip
        if cited:
            sections += f"\n## {name}\n\n" + table(
                ("keys", "values", "source", "date", "remark"),
                [
                    (plain(", ".join(one.covers) or "all others"), str(counted[number]), plain(one.cite),
                     one.date or "", plain(one.note or ""))
                    for number, one in enumerate(cited)
                ],
            )  # fmt: skip
    header = ("profile", "values", "sources", "oldest", "newest", "not found")
    return text + table(header, rows) + sections


def _facts(node: Node, path: str = "") -> Iterator[str]:
    """The dotted path of each value of a profile; a list is one."""
    if not isinstance(node, MapNode) or not node.entries:
        yield path
        return
    for key, entry in node.entries.items():
        if path or key not in _OWN:
            yield from _facts(entry.value, f"{path}.{key}" if path else key)


def _sources_of(fact: str, cited: tuple[Citation, ...]) -> list[int]:
    """The positions of the sources that cover a value most specifically."""
    fits = [
        (len(cover), number)
        for number, one in enumerate(cited)
        for cover in one.covers or ("",)
        if not cover or fact == cover or fact.startswith(f"{cover}.")
    ]
    closest = max((length for length, _ in fits), default=0)
    return [number for length, number in fits if length == closest]
