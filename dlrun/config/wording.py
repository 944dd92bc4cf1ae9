"""Texts of problems in configuration files: paths, values and help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from dlrun.config.advice.names import FOREIGN_NAMES, TOPOLOGY_NAMES, meaning
from dlrun.config.hints import Hint, Key, keys
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode, kind, short
from dlrun.config.secret_names import is_confidential, masked
from dlrun.model.keys import AMOUNT, BACK_END, DATA_NAME, OPTION_NAME, PLAIN, VARIABLE_NAME
from dlrun.model.nearest import RELATED, SLIP, nearest, one_slip
from dlrun.model.site import OVERRIDES
from dlrun.model.text import lazy_pattern

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of a file to a value."""

_NAME_RULES = {
    VARIABLE_NAME: "a name here has letters, digits and `_`, and does not begin with a digit",
    DATA_NAME: "a name here has letters, digits and `_`, does not begin with a digit, and has at most 128 characters",
    OPTION_NAME: "a name here has letters, digits, `_`, `.` and `-`, and begins with a letter",
}

_EVERYWHERE = frozenset({"type", "kind", "name", "count"})
"""Words that are keys of many things: the same word elsewhere says nothing."""

_EVERYTHING = frozenset({"all", "any", "max", "full", "default", "automatic"})
"""Words that people write for `auto`."""


def nearest_word(text: str, words: Iterable[str], *, only: bool) -> str:
    """Help for a text that is none of the words of a key; `only`: the key takes nothing else."""
    if "auto" in words and text.lower() in _EVERYTHING:
        return "write `auto`"
    near = nearest(text, words) if only else None
    return f"the nearest is `{near}`" if near else ""


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


def flow_words(text: str) -> list[str]:
    """The words of a command line, or the parts between its commas."""
    try:
        words = shlex.split(text)
    except ValueError:  # unbalanced quotes
        words = text.split()
    if all(word.endswith(",") for word in words[:-1]):
        words = [part for word in words for part in word.split(",") if part]
    return words


def flow_list(text: str) -> str:
    """A command line as a YAML list of its words."""
    return f"[{', '.join(map(yaml_text, flow_words(text)))}]"


def in_place_of(node: Node, hint: Hint, path: Path) -> str:
    """Help for a value of another form than its key takes; empty if there is nothing to add to the message."""
    help_ = ""
    if isinstance(node, ScalarNode) and hint.words:
        help_ = nearest_word(node.text, hint.words, only=not hint.scalars)
    if isinstance(node, MapNode) and hint.items and not help_:
        help_ = "begin each item with `- `, or write `[ ]`"
    if hint.schema is not None and not isinstance(node, MapNode) and path and not help_:
        help_ = mapping_form(path[-1], hint.schema, node)
    if str in hint.scalars and not isinstance(node, ScalarNode) and not help_:
        help_ = one_text(node, path)
    if isinstance(node, ListNode) and hint.scalars and not help_:
        help_ = without_brackets(node, path)
    if hint.values is not None and not isinstance(node, MapNode) and not help_:
        help_ = names_and_values(node, path)
    return help_


def one_text(node: Node, path: Path) -> str:
    """Help for a list or mapping in place of a text."""
    if not isinstance(node, ListNode):
        if path[:-1] == ("environment", "variables") and isinstance(node, MapNode) and node.entries:
            return f"a variable has one value: write `{path[-1]}_{short(next(iter(node.entries)))}: …`"
        return "quote a text that contains `: ` or begins with `{`"
    if (only := without_brackets(node, path)) or not path:
        return only
    first = node.items[0] if node.items else None
    if isinstance(first, ScalarNode) and isinstance(path[-1], str) and not is_confidential(path):
        return (
            f"write one text, such as `{path[-1]}: {yaml_text(first.text)}`; quote it if it contains brackets"
        )
    return "write one text; quote it if it contains brackets"


def without_brackets(node: ListNode, path: Path) -> str:
    """Help for a list of one item in place of a value; empty for a longer list."""
    only = node.items[0] if len(node.items) == 1 else None
    if isinstance(only, ScalarNode) and path and isinstance(path[-1], str) and not is_confidential(path):
        return f"write `{path[-1]}: {yaml_text(only.text)}`, without brackets"
    return ""


def names_and_values(node: Node, path: Path) -> str:
    """Help for a list or text in place of a mapping. It shows no values, which may be confidential."""
    items = node.items if isinstance(node, ListNode) else (node,)
    written = [item.text for item in items if isinstance(item, ScalarNode)]
    names = [
        match[1]
        for text in written
        if (match := re.fullmatch(rf"(?:--)?({VARIABLE_NAME}|{OPTION_NAME})=.*", text, re.DOTALL))
    ]
    names += [name for item in items if isinstance(item, MapNode) for name in item.entries]
    shown = ", ".join(f"{short(name)}: …" for name in names[:3]) if names else "NAME: …"
    return f"write `{path[-1]}: {{{shown}}}`, each name with its value" if path else ""


def names_rule(pattern: str, name: str) -> str:
    """Description of names that match `pattern`, with the one that `name` may mean; a text after `=` is never shown."""
    rule = _NAME_RULES.get(pattern, f"a name here matches `{pattern}`")
    plain = re.sub(r"[\s.-]+", "_", re.sub(r"^(?:export|set|setenv)\s+|^\$", "", name.strip()))
    if "=" not in name and plain != name and re.fullmatch(pattern, plain):
        return f"write `{short(plain)}`: {rule}"
    return rule


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
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|files?|[KMGTP]?I?B)\s*", text, re.IGNORECASE)
    if match and not float(match[1]):
        return f"is `{short(text)}`; it must be more than zero"
    if match and match[2] == "%" and float(match[1]) > 100:
        return f"is `{short(text)}`; the maximum is 100%"
    return "is not an amount such as `10%`, `8 files` or `20GB`"


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known key of which an unknown one is probably a typing error; None if there is none."""
    return nearest(name, known, cutoff=SLIP)


def required_near(name: str, known: Mapping[str, Key], path: Path) -> str | None:
    """The required key that resembles an unknown one: it is not also reported as missing."""
    required = [key.name for key in known.values() if key.required]
    return nearest(name, required) or next((key for key in required if key == meaning(name, path)), None)


def is_several(text: str) -> bool:
    """Whether a text in place of a list looks like several items: words, or parts between commas outside brackets."""
    return bool(re.search(r"\s|,", re.sub(r"\[[^\]]*\]|\([^)]*\)", "", text.strip())))


def unknown_key(name: str, known: Iterable[str], root: type, path: Path, document: str) -> str:
    """Help for a key that does not exist at `path`."""
    listed = f"`dlrun keys{' --profile' if document == 'site' else ''}` lists the keys"
    here = set(known)
    plain = re.sub(r"[-\s]+", "_", name.strip().lower())
    if (match := re.fullmatch(r"([A-Za-z_]\w*)(\s+|\s*=\s*)(\S+)", name)) is not None and match[1] in here:
        value = "…" if "=" in match[2] or masked(match[3]) != match[3] else short(match[3])
        return f"write `{match[1]}: {value}`, with a colon"
    own = meaning(name, path) if document == "spec" and plain not in here else ""
    if " " in own:
        return own
    if own in here or (plain not in here and (own := FOREIGN_NAMES.get(plain, "")) in here):
        return f"the nearest key is `{own}`; {listed}"
    near = meant(name, here)
    # Options of the framework are a field of a spec, but no key of that name.
    places = {other[-1]: other for other in reversed(list(_places(root))) if other != ("options",)}
    if near and (one_slip(plain, near) or plain not in places or path):
        return f"the nearest key is `{near}`; {listed}"
    if (spelt := re.sub(r"[/:]", ".", name)) != name and spelt in map(dotted, places.values()):
        return f"the nearest key is `{spelt}`; {listed}"
    if document == "spec" and re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", name):
        return f"a variable belongs under `environment:`, as `variables: {{{short(name)}: …}}`"
    # First the same name elsewhere or in another program, then names with similar letters.
    candidates = (plain, FOREIGN_NAMES.get(plain, plain), TOPOLOGY_NAMES.get(plain, plain))
    for candidate in candidates:
        if candidate in here:
            return f"the nearest key is `{candidate}`; {listed}"
    for candidate in candidates:
        if (inside := _overridden(candidate, here, root, path)) is not None:
            return f"write it under `overrides:` here, `overrides: {inside}`; {listed}"
        if (other := places.get(candidate)) and other[:-1] != path and candidate not in _EVERYWHERE:
            return f"the nearest key is `{dotted(other)}`; {listed}"
    if near := nearest(name, here):
        return f"the nearest key is `{near}`; {listed}"
    if plain not in _EVERYWHERE and (near := nearest(name, places, cutoff=RELATED)):
        return f"the nearest key is `{dotted(places[near])}`; {listed}"
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


def mapping_form(name: str | int, schema: type, node: Node) -> str:
    """Help with the smallest valid mapping of a dataclass for a value that is none."""
    if isinstance(node, ListNode) and node.items and all(isinstance(item, MapNode) for item in node.items):
        return "write its keys without `- ` before them, or in `{ }` instead of `[ ]`"
    if getattr(schema, "OTHERS", None):
        values = (
            ", ".join(yaml_text(item.text) for item in node.items if isinstance(item, ScalarNode))
            if isinstance(node, ListNode)
            else "…"
        )
        return f"write `{name}: {{NAME: [{values}]}}`, with the name of the parameter"
    known = keys(schema)
    if isinstance(node, ScalarNode) and re.fullmatch(r"\{.*\}", node.text.strip(), re.DOTALL):
        return "remove the quotes"
    if (
        isinstance(node, ScalarNode)
        and (match := re.match(r"(\w+)[ =]+([^\s=]+)", node.text))
        and match[1] in known
    ):
        return f"write each key with `: ` after it, such as `{match[1]}: {short(match[2])}`"
    required = [key.name for key in known.values() if key.required]
    wanted = required or list(known)[:1]
    single = (
        isinstance(node, ScalarNode)
        and not node.is_null
        and len(required) == 1
        and masked(node.text) == node.text
    )
    value = yaml_text(node.text) if single and isinstance(node, ScalarNode) else "…"
    return f"write `{name}: {{{', '.join(f'{key}: {value}' for key in wanted)}}}`"
