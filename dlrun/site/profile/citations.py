"""Values of a profile whose source is too old.

A value is as old as the source that names its key most specifically, not as the newest source of the profile: limits and
numbers of nodes change, while cores and adapters of a node do not.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator
from datetime import date

from dlrun.config.load import LoadedSite
from dlrun.model.problem import Problem
from dlrun.system.inputs.proof import Proof, sources_of

_CHANGES = re.compile(
    r"(partitions|qos)\..+|node_types\.[^.]+\.count|scheduler\.version|environment\.modules|fabric\.versions\..+"
)
"""Facts that a centre changes while the machine stays as it is."""

OLD = 365
"""Age in days from which on such a fact is reported."""


def changes(fact: str) -> bool:
    """Whether a value of a profile is one that a centre changes: a limit, a number of nodes, a version."""
    return _CHANGES.fullmatch(fact) is not None


def read_on(text: str | None) -> date | None:
    """The last day that a date (`YYYY`, `YYYY-MM` or `YYYY-MM-DD`) can mean; None without a valid date."""
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", text or "")
    if match is None:
        return None
    year, month = int(match[1]), int(match[2] or 12)
    try:
        return date(year, month, int(match[3] or calendar.monthrange(year, month)[1]))
    except ValueError:
        return None


def age(loaded: LoadedSite, proved: Iterable[Proof], today: date) -> Iterator[Problem]:
    """A warning for each source that is older than `OLD` days, with the changing facts that have no newer source.

    A fact that was measured in this time needs none.
    """
    site, origins = loaded.site, loaded.profile.origins
    if site.status != "production":
        return
    stale: dict[int, list[str]] = {}
    for proof in proved:
        if not changes(proof.fact) or (proof.measured and not _is_old(proof.date, today)):
            continue
        dated = [
            (day, number)
            for number in sources_of(proof.fact, site.sources)
            if (day := read_on(site.sources[number].date))
        ]
        if dated and (today - max(dated)[0]).days > OLD:
            stale.setdefault(max(dated)[1], []).append(proof.fact)
    for number, keys in stale.items():
        source = site.sources[number]
        yield Problem(
            code="DLR074",
            message=f"{_listed(keys)} {'is' if len(keys) == 1 else 'are'} from {source.date}, more than a year ago",
            origin=origins.get(f"sources.{number}.date") or origins.get("sources"),
            help=f"compare with {source.cite}, or on the cluster with `dlrun site test {site.name}`, and update `date:`",
            warning=True,
        )


def _is_old(text: str, today: date) -> bool:
    day = read_on(text)
    return day is None or (today - day).days > OLD


def _listed(keys: list[str]) -> str:
    """Sections of these facts with their numbers, such as `partitions` (12 values)."""
    if len(keys) == 1:
        return f"`{keys[0]}`"
    sections: dict[str, int] = {}
    for key in keys:
        name = key if key.startswith("node_types.") else key.partition(".")[0]
        sections[name] = sections.get(name, 0) + 1
    return ", ".join(f"`{name}`" + (f" ({n} values)" if n > 1 else "") for name, n in sections.items())
