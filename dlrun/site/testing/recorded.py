"""Record the values of a profile that hold, each with the node and the day, for `dlrun plan`, `explain` and `site check`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from dlrun.config.nodes import MapNode, Node
from dlrun.errors import OperationFailed
from dlrun.model.origin import Origin
from dlrun.model.units import many
from dlrun.site.testing.fact import Fact
from dlrun.site.testing.run import Verdicts
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.proof import Measurement, facts, is_shipped, places, read, to_text, value_text
from dlrun.system.writing import write_output

_SECTIONS = ("launcher", "rendezvous")


def record(
    tested: Verdicts,
    notice: Callable[[str], None],
    *,
    here: Machine | None = None,
    today: date | None = None,
) -> Path | None:
    """Write the measurements beside the profile, or among the user's own profiles; None if nothing was measured.

    Earlier ones of other keys are kept, those of keys that differ now are removed.
    """
    here, path = here or Machine(), tested.loaded.path
    day = (today or date.today()).isoformat()  # noqa: DTZ011
    new = measurements(tested, day)
    before = read(path, here)
    if not new.holding and not new.differing & before.keys():
        return None
    kept = {key: measurement for key, measurement in before.items() if key not in new.differing}
    text = to_text(tested.loaded.site.name, {**kept, **new.holding})
    beside, own = places(path, here)
    for place in (own,) if is_shipped(path) else (beside, own):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_output(place, text, force=True, error=OperationFailed)
        except (OperationFailed, OSError):
            continue
        shown = f"`dlrun site check {path}`, `dlrun plan` and `dlrun explain` show them"
        notice(f"recorded {many(len(new.holding), 'value')} in {place}: {shown}")
        return place
    notice(f"the values that hold were not recorded: neither {beside} nor {own} can be written")
    return None


class Measured(NamedTuple):
    """The measurements of the values that hold, by key, and the keys of those that differ."""

    holding: dict[str, Measurement]
    differing: set[str]


def measurements(tested: Verdicts, day: str) -> Measured:
    """The measurements of the values that were tested."""
    root = tested.loaded.profile.root
    by_place = _by_place(root) if root is not None else {}
    holding: dict[str, Measurement] = {}
    wrong: set[str] = set()
    for fact in tested.facts:
        place = by_place.get(fact.origin) if fact.origin is not None else None
        if place is None:
            continue
        key, node = place
        if fact.verdict == "differs":
            wrong.add(key)
        elif fact.verdict == "holds" and fact.key.endswith(key.rpartition(".")[2]):
            seen = " / ".join(line.strip() for line in fact.seen.splitlines() if line.strip())
            holding[key] = Measurement(value=value_text(node), seen=seen, by=_by(fact, tested), date=day)
    return Measured({key: measurement for key, measurement in holding.items() if key not in wrong}, wrong)


def _by_place(root: MapNode) -> Mapping[Origin, tuple[str, Node]]:
    """Place in the profile -> key and value: of each value, and of the sections that a job uses as a whole."""
    by_place = {node.origin: (key, node) for key, node in facts(root)}
    for key in _SECTIONS:
        if isinstance(node := root.get(key), MapNode):
            by_place[node.origin] = (key, node)
    return by_place


def _by(fact: Fact, tested: Verdicts) -> str:
    if fact.where == "the scheduler":
        return "by the scheduler"
    return f"on {fact.where}" if fact.where in tested.hosts else f"in a job on {fact.where}"
