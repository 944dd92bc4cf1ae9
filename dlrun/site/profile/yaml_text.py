"""Write a draft profile as commented YAML for further editing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from dlrun.config.block_text import block
from dlrun.model.text import visible


@dataclass(slots=True, kw_only=True)
class ProfileDraft:
    """A draft profile: nested values, comments by dotted path, facts not detected.

    aside: unused facts of a login node; files: name -> text of further files next to the profile;
    made_from: the kind of files that it was imported from.
    """

    values: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    made_from: str = ""


_LONGEST = 255
"""Characters of a name. YAML has no key of more than 1,024 (YAML 1.2.2, 7.4.3), and no cluster has names near that."""


def sources(cite: str, note: str = "") -> list[dict[str, str]]:
    """The profile's `sources`: one, of today."""
    today = date.today().isoformat()  # noqa: DTZ011 - the admin's own day
    return [{"cite": cite, "date": today, **({"note": note} if note else {})}]


def profile_yaml(draft: ProfileDraft, head: Sequence[str] = ()) -> str:
    """The profile as YAML, with the facts not detected at its end; head: comment lines."""
    dropped: list[str] = []
    values = _with_short_names(draft.values, dropped)
    lines = [*(f"# {line}" for line in head), *block(values, draft.comments)]
    unseen = [*draft.unseen, *dropped]
    if unseen:
        lines += ["", "# Not detected, and left out:", *(f"#   - {visible(line)}" for line in unseen)]
    if draft.aside:
        head_line = "# The login node, for information only (compute nodes may differ):"
        lines += ["", head_line, *(f"#   - {visible(line)}" for line in draft.aside)]
    return "\n".join(lines) + "\n"


def _with_short_names(value: Any, dropped: list[str]) -> Any:
    """A value without the entries whose names are too long for a key of YAML; adds a line to `dropped` for each of those."""
    if isinstance(value, list):
        return [_with_short_names(item, dropped) for item in value]
    if not isinstance(value, dict):
        return value
    dropped.extend(
        f"what is called `{name[:20]}…`, a name of {len(name)} characters"
        for name in value
        if len(str(name)) > _LONGEST
    )
    return {
        name: _with_short_names(item, dropped) for name, item in value.items() if len(str(name)) <= _LONGEST
    }
