"""The proof of each value of a site profile: the source that states it, or the node on which it was measured.

`dlrun site test` writes what holds into a file beside the profile, `NAME.measured.json`, or among the user's own profiles if
that directory cannot be written. A measurement counts only while the profile has the value that was measured.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dlrun import resources
from dlrun.config.load import LoadedSite
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode
from dlrun.config.source import MAX_BYTES
from dlrun.model.origin import Origin
from dlrun.model.record import record
from dlrun.model.site import Citation
from dlrun.system.inputs.profiles import Machine
from dlrun.system.paths import read_bytes

_OWN = (
    "name", "title", "centre", "status", "confidence", "note", "extends", "sources", "unknown", "defaults",
)  # fmt: skip
"""Keys that are not facts of the cluster."""

_WHOLE = ("launcher", "rendezvous")
"""Sections that a job uses as a whole: ranks that began and met prove each of their values."""

_TEXTS = ("value", "seen", "by", "date")
"""The fields of a `Measurement`, as in a file."""


@record(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A value as measured: the profile's text of it, what was seen, on which node or by whom, and the day (YYYY-MM-DD)."""

    value: str
    seen: str
    by: str
    date: str


@record(frozen=True, slots=True, kw_only=True)
class Proof:
    """A value of a profile, its proof in words (empty: none), the source that states it, and the date of the proof."""

    fact: str
    value: str
    origin: Origin
    text: str = ""
    cite: str = ""
    date: str = ""
    measured: bool = False


def facts(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """The dotted path of each value of a profile, and the value; a list is one."""
    if not isinstance(node, MapNode) or not node.entries:
        yield path, node
        return
    for key, entry in node.entries.items():
        if path or key not in _OWN:
            yield from facts(entry.value, f"{path}.{key}" if path else key)


def sources_of(fact: str, cited: tuple[Citation, ...]) -> list[int]:
    """The positions of the sources that cover a value most specifically."""
    fits = [
        (len(cover), number)
        for number, citation in enumerate(cited)
        for cover in citation.covers or ("",)
        if not cover or fact == cover or fact.startswith(f"{cover}.")
    ]
    closest = max((length for length, _ in fits), default=0)
    return [number for length, number in fits if length == closest]


def value_text(node: Node) -> str:
    """A value on one line, by which a measurement is compared with the profile."""
    if isinstance(node, ScalarNode):
        return node.text
    if isinstance(node, ListNode):
        return f"[{', '.join(map(value_text, node.items))}]"
    return f"{{{', '.join(f'{key}: {value_text(entry.value)}' for key, entry in node.entries.items())}}}"


def proofs(loaded: LoadedSite, here: Machine | None = None) -> tuple[Proof, ...]:
    """The proof of each value of a profile, in its order."""
    root, cited = loaded.profile.root, loaded.site.sources
    if root is None:
        return ()
    measured = read(loaded.path, here or Machine())
    return tuple(_proof(fact, node, root, cited, measured) for fact, node in facts(root))


def _proof(
    fact: str, node: Node, root: MapNode, cited: tuple[Citation, ...], measured: Mapping[str, Measurement]
) -> Proof:
    text = value_text(node)
    section = fact.partition(".")[0]
    whole = root.get(section) if section in _WHOLE else None
    for key, value in ((fact, text), (section, value_text(whole) if whole is not None else None)):
        measurement = measured.get(key)
        if measurement is not None and measurement.value == value:
            return Proof(
                fact=fact, value=text, origin=node.origin, text=f"measured {measurement.by}, {measurement.date}",
                date=measurement.date, measured=True,
            )  # fmt: skip
    dated = [cited[number] for number in sources_of(fact, cited)]
    latest = max(dated, key=lambda citation: citation.date or "", default=None)
    if latest is None:
        return Proof(fact=fact, value=text, origin=node.origin)
    words = f"documented {latest.date}" if latest.date else "documented"
    return Proof(
        fact=fact, value=text, origin=node.origin, text=words, cite=latest.cite, date=latest.date or ""
    )


def summary(of: Iterable[Proof]) -> str:
    """The proofs of several values in a few words: `3 measured on n12, 2026-11-20, 2 documented 2025-03`."""
    counted = Counter(proof.text or "without a source" for proof in of)
    if len(counted) <= 1:
        return next(iter(counted), "")
    return ", ".join(f"{number} {text}" for text, number in counted.most_common())


def places(path: Path, here: Machine) -> tuple[Path, Path]:
    """Where the measurements of a profile can lie: beside it, and among the user's own profiles."""
    name = f"{path.stem}.measured.json"
    return path.parent / name, here.settings / "sites" / name


def is_shipped(path: Path) -> bool:
    """Whether a profile comes with dlrun; nothing is written beside those."""
    shipped = resources.directory("site-configs")
    return resources.packed(path) is not None or path.resolve().parent == shipped.resolve()


def read(path: Path, here: Machine) -> dict[str, Measurement]:
    """The measurements of a profile by key, the newest of each; files that are not of this form count as none."""
    measurements: dict[str, Measurement] = {}
    for place in places(path, here):
        for key, measurement in _read(place).items():
            if key not in measurements or measurements[key].date <= measurement.date:
                measurements[key] = measurement
    return measurements


def _read(place: Path) -> dict[str, Measurement]:
    try:
        data = json.loads(read_bytes(place, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    rows = data.get("measured") if isinstance(data, dict) else None
    measurements = {}
    for key, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(row, dict) and all(isinstance(row.get(name), str) for name in _TEXTS):
            measurements[key] = Measurement(**{name: row[name] for name in _TEXTS})
    return measurements


def to_text(site: str, measured: Mapping[str, Measurement]) -> str:
    """The content of a file of measurements."""
    rows = {
        key: {name: getattr(measurement, name) for name in _TEXTS}
        for key, measurement in sorted(measured.items())
    }
    return json.dumps({"site": site, "measured": rows}, indent=1, ensure_ascii=False) + "\n"
