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

    aside: unused facts of a login node; files: name -> text of further files next to the profile.
    """

    values: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def sources(cite: str, note: str = "") -> list[dict[str, str]]:
    """The profile's `sources`: one, of today."""
    today = date.today().isoformat()  # noqa: DTZ011 - the admin's own day
    return [{"cite": cite, "date": today, **({"note": note} if note else {})}]


def profile_yaml(draft: ProfileDraft, head: Sequence[str] = ()) -> str:
    """The profile as YAML, with the facts not detected at its end; head: comment lines."""
    lines = [*(f"# {line}" for line in head), *block(draft.values, draft.comments)]
    if draft.unseen:
        lines += ["", "# Not detected, and left out:", *(f"#   - {visible(line)}" for line in draft.unseen)]
    if draft.aside:
        head_line = "# The login node, for information only (compute nodes may differ):"
        lines += ["", head_line, *(f"#   - {visible(line)}" for line in draft.aside)]
    return "\n".join(lines) + "\n"
