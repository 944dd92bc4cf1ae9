"""The programs in a spec's tree: `run:`, shell text, as a `command:` that runs bash; and each of `roles` as a spec of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from dlrun.config.decode import framework_of
from dlrun.config.layers import merge
from dlrun.config.nodes import Changed, Entry, ListNode, MapNode, Node, ScalarNode
from dlrun.model.keys import names
from dlrun.model.problem import Problem
from dlrun.model.program import Role
from dlrun.model.spec import SHELL

_LINKS = ("needs", "ready", "ends", "restarts", "beside")
"""Keys of a role about the others, which a spec does not have."""
_PLACE = ("partition", "node_type")
_SIZE = ("nodes", "ranks_per_node", "cpus_per_rank", "gpus_per_node", "memory_per_node", *_PLACE)
"""Keys of a role that are keys of `resources` in a spec."""
_OF_JOB = (
    "command", "run", "roles", "after", "chain", "checkpoint", "code", "hang", "hold", "log_link", "metrics", "on_failure",
    "results", "sweep", "track",
)  # fmt: skip
"""Keys of a spec that its roles do not take over."""
_RESOURCES_OF_JOB = ("nodes", "ranks", "spare_nodes", "hosts", "exclude")
_NOT_WITH_ROLES = ("nodes", "ranks")
"""Keys of `resources` that a spec with roles cannot have."""


def with_command(root: MapNode) -> Changed:
    """The tree of a spec or a role with `run:` converted to `command:`; a `command:` that is one text is treated as `run:`."""
    run, command = root.get("run"), root.get("command")
    if isinstance(run, ScalarNode) and not run.is_null:
        if command is not None:
            problem = Problem(
                message="`run` and `command` are both given, but a job has one command",
                origin=run.origin,
                width=run.width,
                help="keep `run:` for shell text, or `command:` for a list of arguments",
            )
            return Changed(root, (problem,))
        text = run
    elif run is None and isinstance(command, ScalarNode) and not command.is_null:
        text = command
    else:
        return Changed(root)
    words = tuple(ScalarNode(text=word, origin=text.origin) for word in SHELL)
    made = ListNode(items=(*words, dataclasses.replace(text, plain=False)), origin=text.origin)
    return Changed(_with(_with(root, "command", made), "run", text))


def default_for(default: MapNode | None, written: MapNode | None) -> MapNode | None:
    """A weaker layer's tree for a spec; a job with roles does not take the size of one program from it."""
    resources = default.get("resources") if default is not None else None
    if (
        default is None
        or not isinstance(resources, MapNode)
        or written is None
        or written.get("roles") is None
    ):
        return default
    return _with(default, "resources", _without(resources, _NOT_WITH_ROLES))


class Programs(NamedTuple):
    """The tree of the job, with a command in place of those of its roles, the tree of a spec for each role, and problems."""

    job: MapNode
    roles: Mapping[str, MapNode]
    problems: list[Problem]


def with_roles(root: MapNode) -> Programs:
    """The programs of a spec."""
    roles = root.get("roles")
    if not isinstance(roles, MapNode) or not roles.entries:
        return Programs(root, {}, [])
    problems = [
        Problem(
            message=f"`{name}` and `roles` are both given, but a job with roles runs their commands",
            origin=node.origin,
            width=node.width,
            help=f"move `{name}` into one of the roles",
        )
        for name in ("command", "run")
        if (node := root.get(name)) is not None and not (name == "command" and root.get("run") is not None)
    ]
    problems += [
        Problem(
            message=f"`resources.{name}` and `roles` are both given, but the job has the nodes of its roles",
            origin=node.origin,
            width=node.width,
            help="write `nodes` in each role (default: 1)",
        )
        for name in _NOT_WITH_ROLES
        if (node := root.get("resources", name)) is not None
    ]
    base = _without(root, _OF_JOB)
    resources = root.get("resources")
    if isinstance(resources, MapNode):
        base = _with(base, "resources", _without(resources, _RESOURCES_OF_JOB))
    parts, entries = {}, dict(roles.entries)
    for name, entry in roles.entries.items():
        if not isinstance(entry.value, MapNode):
            continue
        role = with_command(entry.value)
        problems += role.problems
        entries[name] = dataclasses.replace(entry, value=role.root)
        if role.root.get("command") is not None:
            parts[name] = _spec_of(role.root, base)
    command = ListNode(items=(ScalarNode(text="true", origin=roles.origin),), origin=roles.origin)
    job = _with(_without(root, ("command", "run")), "command", command)
    return Programs(_with(job, "roles", dataclasses.replace(roles, entries=entries)), parts, problems)


def _spec_of(role: MapNode, base: MapNode) -> MapNode:
    """The tree of a role as that of a spec, over the rest of the file."""
    if role.get("framework") is not None and framework_of(base) != framework_of(role):
        base = _without(base, (framework_of(base),))  # options of another framework than the role's
    size = {name: role.entries[name] for name in _SIZE if name in role.entries}
    if size.keys() & {*_PLACE} and isinstance(of_all := base.get("resources"), MapNode):
        base = _with(base, "resources", _without(of_all, _PLACE))  # a partition has nodes of one type
    of_job = [name for name in Role.OF_JOB if name in role.entries and name not in names(Role)]
    # What is wrong with the job's resources is then found at one place for all roles.
    job_resources = base.entries.get("resources")
    place = (
        job_resources.key if job_resources is not None else ScalarNode(text="resources", origin=base.origin)
    )
    resources = MapNode(
        entries=size, origin=place.origin if job_resources is None else job_resources.value.origin
    )
    own = _without(role, (*_LINKS, *_SIZE, *of_job))
    own = dataclasses.replace(own, entries={**own.entries, "resources": Entry(key=place, value=resources)})
    merged = merge(base, own)
    assert isinstance(merged, MapNode)  # noqa: S101 - mappings merge to a mapping
    return merged


def _with(root: MapNode, name: str, value: Node) -> MapNode:
    entry = Entry(key=ScalarNode(text=name, origin=value.origin), value=value)
    return dataclasses.replace(root, entries={**root.entries, name: entry})


def _without(root: MapNode, dropped: tuple[str, ...]) -> MapNode:
    kept = {name: entry for name, entry in root.entries.items() if name not in dropped}
    return dataclasses.replace(root, entries=kept)
