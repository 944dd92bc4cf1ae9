"""The page with the sources of each shipped profile: a part of `docs.generate`."""

from __future__ import annotations

from collections import Counter

from dlrun.resources import directory
from dlrun.system.inputs.profiles import Machine, load_site
from dlrun.system.inputs.proof import facts, sources_of
from docs.settings_page import plain, table

_HERE = Machine(
    environment={"PATH": ""}, home=directory("site-configs"), root=directory("site-configs"), host="docs"
)


def sources_page(note: str) -> str:
    """A summary line for each profile, then the sources of each: keys, number of values, date."""
    text = "# Sources of the shipped profiles\n\n" + note
    text += (
        "The source of each value of a shipped profile, and the date when it was read. A value counts for the sources that "
        "name its key most specifically; `not found` lists keys that no source states. `dlrun site check NAME` reports "
        "limits and numbers of nodes that are older than a year.\n\n"
    )
    rows, sections = [], ""
    for name in sorted(path.stem for path in directory("site-configs").glob("*.yaml")):
        loaded = load_site(name, here=_HERE)
        cited, root = loaded.site.sources, loaded.profile.root
        found = [fact for fact, _ in facts(root)] if root is not None else []
        counted = Counter(number for fact in found for number in sources_of(fact, cited))
        dates = sorted(one.date for one in cited if one.date)
        rows.append((
            f"[{name}](../sites/{name}.md)", str(len(found)), str(len(cited)), dates[0] if dates else "",
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
