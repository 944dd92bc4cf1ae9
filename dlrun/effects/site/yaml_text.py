"""A profile as text that an admin continues editing: nested values, a comment above any key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dlrun.config.block_text import block


@dataclass(slots=True, kw_only=True)
class ProfileDraft:
    """A profile in the making: values as nested dictionaries, comments by dotted path, what was not seen.

    `aside` are facts of a login node that are not used; `files` are further files beside the profile.
    """

    values: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def profile_yaml(draft: ProfileDraft, head: Sequence[str] = ()) -> str:
    """The profile as YAML, with what could not be seen listed at its end."""
    lines = [*(f"# {line}" for line in head), *block(draft.values, draft.comments)]
    if draft.unseen:
        lines += ["", "# Not detected, and left out:", *(f"#   - {line}" for line in draft.unseen)]
    if draft.aside:
        head_line = "# The login node, for information only (compute nodes may differ):"
        lines += ["", head_line, *(f"#   - {line}" for line in draft.aside)]
    return "\n".join(lines) + "\n"
