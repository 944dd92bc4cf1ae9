"""Texts of problems in configuration files: paths, values and help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from dlrun.config.hints import keys
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode, kind, short
from dlrun.config.secret_names import is_confidential
from dlrun.model.keys import AMOUNT, BACK_END, OPTION_NAME, PLAIN, VARIABLE_NAME
from dlrun.model.nearest import RELATED, SLIP, nearest
from dlrun.model.site import OVERRIDES
from dlrun.model.text import lazy_pattern

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of a file to a value."""

_NAME_RULES = {
    VARIABLE_NAME: "a name here has letters, digits and `_`, and does not begin with a digit",
    OPTION_NAME: "a name here has letters, digits, `_`, `.` and `-`, and begins with a letter",
}

RESOURCE_KEYS: Mapping[str, str] = {
    "queue": "partition", "project": "account", "time": "walltime", "mem": "memory_per_node", "ntasks": "ranks",
    "ntasks_per_node": "ranks_per_node", "tasks_per_node": "ranks_per_node", "nproc_per_node": "ranks_per_node",
    "ppn": "ranks_per_node", "cpus_per_task": "cpus_per_rank", "nodelist": "hosts", "gres": "gpus_per_node",
}  # fmt: skip
"""Option of sbatch, qsub or torchrun (with `_` for `-`) -> the corresponding key of `resources`."""

_FOREIGN_NAMES = {
    **RESOURCE_KEYS,
    "time_limit": "walltime", "duration": "walltime", "gpus": "gpus_per_node", "memory": "memory_per_node",
    "tasks": "ranks", "workers": "ranks", "feature": "constraint", "env": "variables", "cmd": "command",
    "script": "command", "run": "command", "job_name": "name", "datasets": "data", "dependency": "after",
    "depends": "after", "array": "sweep", "image": "container", "workdir": "directory", "chdir": "directory",
    "virtualenv": "venv", "torchrun": "agent", "horovodrun": "agent", "launch": "agent",
}  # fmt: skip
"""Names in schedulers and other launchers -> keys of dlrun."""

_TOPOLOGY_NAMES = {
    "sockets": "packages", "threads": "smt", "threads_per_core": "smt", "hyperthreads": "smt", "cores_per_socket": "cores",
    "cores_per_package": "cores", "numa": "numa_per_package", "numa_nodes": "numa_per_package",
}  # fmt: skip
"""Names in Slurm, lscpu and hwloc -> keys of a node's topology."""


def dotted(path: Path) -> str:
    """`resources.nodes`, `command.0`."""
    return ".".join(str(part) for part in path)


def where(path: Path) -> str:
    """A path for a message: `resources.nodes` in backticks, or `item 2 of` it."""
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {where(path[:-1])}"
    return f"`{'.'.join(named(str(part)) for part in path)}`" if path else "the file"


def named(name: str) -> str:
    """A key for a message, without text after a `=`, which may be a secret (`TOKEN=…` with a missing colon)."""
    before, equals, _ = name.partition("=")
    return short(before) + (f"{equals}…" if equals else "")


def shown(node: Node, path: Path) -> str:
    """A value for a message: its shortened text in backticks, or its kind for lists, mappings and secrets."""
    if not isinstance(node, ScalarNode) or node.is_null:
        return kind(node)
    if is_confidential(path):
        return "a text"
    return f"`{short(node.text)}`" if node.text else "an empty text"


_BARE = lazy_pattern(
    r"(?!(?:[-?:~]|true|false|null|yes|no)$)[A-Za-z0-9_./+=^$~-][A-Za-z0-9_./+=@^$~%-]*", re.IGNORECASE
)


def yaml_text(text: str) -> str:
    """A text as YAML: unquoted where that is safe, else in double quotes."""
    if _BARE.fullmatch(text) and "---" not in text[:3]:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped) + '"'


def flow_list(text: str) -> str:
    """A command line as a YAML list of its words."""
    try:
        words = shlex.split(text)
    except ValueError:  # unbalanced quotes
        words = text.split()
    return f"[{', '.join(map(yaml_text, words))}]"


def one_text(node: Node, path: Path) -> str:
    """Help for a list or mapping in place of a text."""
    if not isinstance(node, ListNode):
        return "quote a text that contains `: ` or begins with `{`"
    return without_brackets(node, path) or "write one text; quote it if it contains brackets"


def without_brackets(node: ListNode, path: Path) -> str:
    """Help for a list of one item in place of a value; empty for a longer list."""
    only = node.items[0] if len(node.items) == 1 else None
    if isinstance(only, ScalarNode) and path and isinstance(path[-1], str) and not is_confidential(path):
        return f"write `{path[-1]}: {yaml_text(only.text)}`, without brackets"
    return ""


def names_and_values(node: Node, path: Path) -> str:
    """Help for a list or text in place of a mapping. It shows no values, which may be confidential."""
    given = node.items if isinstance(node, ListNode) else (node,)
    written = [item.text for item in given if isinstance(item, ScalarNode)]
    names = [
        text.partition("=")[0] for text in written if re.fullmatch(rf"{VARIABLE_NAME}=.*", text, re.DOTALL)
    ]
    names += [name for item in given if isinstance(item, MapNode) for name in item.entries]
    shown = ", ".join(f"{short(name)}: …" for name in names[:3]) if names else "NAME: …"
    return f"write `{path[-1]}: {{{shown}}}`, each name with its value" if path else ""


def names_rule(pattern: str) -> str:
    """Description of names that match `pattern`."""
    return _NAME_RULES.get(pattern, f"a name here matches `{pattern}`")


def pattern_fault(pattern: str, text: str) -> str:
    """Description of a mismatch, for the most common patterns."""
    if pattern == PLAIN:
        return "is empty" if not text else "contains a control character, such as a line break"
    if pattern == VARIABLE_NAME:
        return "is not the name of a variable"
    if pattern == BACK_END:
        return "is not a name of letters, digits, `.`, `_` and `-`"
    if pattern == AMOUNT:
        return _amount_fault(text)
    return f"does not match `{pattern}`"


def _amount_fault(text: str) -> str:
    """Why a text is not a valid amount of data."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|files?|[KMGTP]?I?B)\s*", text, re.IGNORECASE)
    if found and not float(found[1]):
        return f"is `{short(text)}`; it must be more than zero"
    if found and found[2] == "%" and float(found[1]) > 100:
        return f"is `{short(text)}`; the maximum is 100%"
    return "is not an amount such as `10%`, `8 files` or `20GB`"


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known key of which an unknown one is probably a typing error; None if there is none."""
    return nearest(name, known, cutoff=SLIP)


def unknown_key(name: str, known: Iterable[str], root: type, path: Path, document: str) -> str:
    """Help for a key that does not exist at `path`."""
    listed = f"`dlrun schema {document}` lists the keys"
    here = set(known)
    if near := meant(name, here):
        return f"the nearest key is `{near}`; {listed}"
    plain = name.lower().replace("-", "_")
    # First the same name elsewhere or in another program, then names with similar letters.
    candidates = (plain, _FOREIGN_NAMES.get(plain, plain), _TOPOLOGY_NAMES.get(plain, plain))
    for candidate in candidates:
        if candidate in here:
            return f"the nearest key is `{candidate}`; {listed}"
    for candidate in candidates:
        if (inside := _overridden(candidate, here, root, path)) is not None:
            return f"write it under `overrides:` here, `overrides: {inside}`; {listed}"
        for other in _places(root):
            if other and other[-1] == candidate and other[:-1] != path:
                return f"the nearest key is `{dotted(other)}`; {listed}"
    if near := nearest(name, here):
        return f"the nearest key is `{near}`; {listed}"
    elsewhere = {other[-1]: other for other in reversed(list(_places(root)))}
    if near := nearest(name, elsewhere, cutoff=RELATED):
        return f"the nearest key is `{dotted(elsewhere[near])}`; {listed}"
    return listed


def _overridden(name: str, here: set[str], root: type, path: Path) -> str | None:
    """The form of a site-wide key under `overrides:`; None if it cannot be overridden."""
    if "overrides" not in here or len(path) != 2:
        return None
    for other in _places(root):
        if other[0] in OVERRIDES and other[-1] == name and len(other) <= 2:
            return f"{{{name}: …}}" if len(other) == 1 else f"{{{other[0]}: {{{name}: …}}}}"
    return None


def _places(schema: type, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all keys, breadth first."""
    nested = []
    for key in keys(schema).values():
        here = (*path, key.name)
        yield here
        if key.hint.schema is not None and len(path) < 4 and "NAME" not in path:
            nested.append((key.hint.schema, here))
        elif (
            key.hint.values is not None
            and key.hint.values.schema is not None
            and key.name in ("partitions", "node_types", "qos")
        ):
            nested.append((key.hint.values.schema, (*here, "NAME")))
    for inner, here in nested:
        yield from _places(inner, here)


def mapping_form(name: str | int, schema: type) -> str:
    """Help with the smallest valid mapping of a dataclass."""
    known = keys(schema)
    wanted = [key.name for key in known.values() if key.required] or list(known)[:1]
    return f"write `{name}: {{{', '.join(f'{key}: …' for key in wanted)}}}`"
