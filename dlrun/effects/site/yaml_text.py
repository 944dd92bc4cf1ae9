"""A profile as text that an admin goes on editing: nested values, a comment above any key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlrun.config.say import yaml_text


@dataclass(slots=True, kw_only=True)
class Draft:
    """A profile in the making: values as nested dictionaries, comments by dotted path, what was not seen.

    `aside` was seen on a login node and is not used; `files` are further files beside the profile.
    """

    values: dict[str, Any]
    comments: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def text(draft: Draft, head: Sequence[str] = ()) -> str:
    """The profile as YAML, with what could not be seen listed at its end."""
    lines = [*(f"# {line}" for line in head), *_mapping(draft.values, draft.comments, (), 0)]
    if draft.unseen:
        lines += ["", "# Not seen, and left out:", *(f"#   - {line}" for line in draft.unseen)]
    if draft.aside:
        head_line = "# Of this login node, not of compute nodes, and used for nothing:"
        lines += ["", head_line, *(f"#   - {line}" for line in draft.aside)]
    return "\n".join(lines) + "\n"


def _mapping(
    values: Mapping[str, Any], comments: Mapping[str, str], path: tuple[str, ...], depth: int
) -> Iterator[str]:
    pad = "  " * depth
    for key, value in values.items():
        here = (*path, key)
        if depth == 0 and isinstance(value, dict | list) and value:
            yield ""
        if comment := comments.get(".".join(here)):
            yield from (f"{pad}# {line}" for line in comment.splitlines())
        if isinstance(value, Mapping) and value:
            yield f"{pad}{yaml_text(key)}:"
            yield from _mapping(value, comments, here, depth + 1)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield f"{pad}{yaml_text(key)}:"
            yield from (f"{pad}  - {_flow(item)}" for item in value)
        else:
            yield f"{pad}{yaml_text(key)}: {_flow(value)}"


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_text(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return yaml_text(str(value))
