"""Conversion of `run:`, a training command as shell text, to a `command:` that runs bash."""

from __future__ import annotations

import dataclasses

from dlrun.config.nodes import Entry, ListNode, MapNode, ScalarNode
from dlrun.model.problem import Problem
from dlrun.model.spec import SHELL


def with_command(root: MapNode) -> tuple[MapNode, Problem | None]:
    """The spec's tree with `run:` converted to `command:`; a `command:` that is one text is treated as `run:`."""
    run, command = root.get("run"), root.get("command")
    if isinstance(run, ScalarNode) and not run.is_null:
        if command is not None:
            return root, Problem(
                message="`run` and `command` are both given, but a job has one command",
                origin=run.origin,
                width=run.width,
                help="keep `run:` for shell text, or `command:` for a list of arguments",
            )
        text = run
    elif run is None and isinstance(command, ScalarNode) and not command.is_null:
        text = command
    else:
        return root, None
    words = tuple(ScalarNode(text=word, origin=text.origin) for word in SHELL)
    key = ScalarNode(text="command", origin=text.origin)
    made = ListNode(items=(*words, dataclasses.replace(text, plain=False)), origin=text.origin)
    entries = {**root.entries, "command": Entry(key=key, value=made)}
    entries["run"] = Entry(key=ScalarNode(text="run", origin=text.origin), value=text)
    return dataclasses.replace(root, entries=entries), None
