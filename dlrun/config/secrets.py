"""Problems with secrets (plain values, missing sources), and masking of secrets in displayed source lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlrun.config.document import parse
from dlrun.config.nodes import ListNode, MapNode, Node, ScalarNode, short
from dlrun.config.secret_names import (
    ARGUMENT,
    KEY,
    PASSWORD,
    SIGNATURE,
    KeyParts,
    holds_secret,
    is_confidential,
    is_named_key,
    is_secret_argument,
    looks_secret,
    masked,
    secret_words,
    secrets_in,
    stars,
)
from dlrun.errors import Invalid
from dlrun.model.origin import Layer, Origin
from dlrun.model.problem import Problem
from dlrun.model.text import lazy_pattern


def plain_secrets(root: Node, *, site: bool = False) -> Iterator[Problem]:
    """A problem for each plain value that is a secret, by its form or by its name in `environment.variables`.

    `site`: the tree is a site profile's, which has no `secrets` of its own.
    """
    places = set()
    for problem in (*_secret_variables(root, site=site), *_secret_values(root, (), site=site)):
        # The text of `run:` is also an argument of `command:`, and that of an anchor also the value of its aliases.
        if problem.origin not in places:
            places.add(problem.origin)
            yield problem


def refuse_secrets(text: str, where: str) -> None:
    """Raise Invalid if the text of a new spec has a plain secret; where: what it was made from, in which it is to be replaced."""
    root = parse(text, Origin(layer=Layer.SPEC, name=where)).root
    messages = {problem.message: None for problem in (plain_secrets(root) if root is not None else ())}
    if messages:
        raise Invalid(
            "; ".join(messages),
            help=f"in {where}, write `$NAME` in its place, and export NAME in the shell that submits",
        )


def _secret_variables(root: Node, *, site: bool) -> Iterator[Problem]:
    variables = root.get("environment", "variables") if isinstance(root, MapNode) else None
    for name, entry in variables.entries.items() if isinstance(variables, MapNode) else ():
        if not isinstance(entry.value, ScalarNode) or not holds_secret(name, entry.value.text):
            continue
        yield Problem(
            code="DLR001",
            message=f"`{short(name)}` looks like a secret, and its value would be written to disk with the job",
            origin=entry.key.origin,
            width=entry.key.width,
            help=("remove it here, and in specs name its source" if site else "name its source instead")
            + f": `secrets: {{{name}: {{env: {name}}}}}` (or `file:`, `command:`)",
        )


def _secret_values(node: Node, path: KeyParts, *, site: bool) -> Iterator[Problem]:
    """A problem for each text with a secret that its form shows, whatever the key is."""
    if isinstance(node, MapNode):
        if path == ("environment", "variables"):
            node = MapNode(
                entries={name: e for name, e in node.entries.items() if not looks_secret(name)},
                origin=node.origin,
            )
        for name, entry in node.entries.items():
            yield from _secret_values(entry.key, path, site=site)
            yield from _secret_values(entry.value, (*path, name), site=site)
    elif isinstance(node, ListNode):
        values = secret_words([item.text if isinstance(item, ScalarNode) else "" for item in node.items])
        for index, item in enumerate(node.items):
            if index in values:
                yield _secret_value(item, path, ARGUMENT, site=site)
            else:
                yield from _secret_values(item, (*path, index), site=site)
    elif (secret := next(secrets_in(node.text), None)) is not None:
        yield _secret_value(node, path, secret.kind, site=site)
    elif is_named_key(path, node.text):
        yield _secret_value(node, path, ARGUMENT, site=site)


def _secret_value(node: Node, path: KeyParts, kind: str, *, site: bool) -> Problem:
    help_ = "name its source instead: `secrets: {NAME: {file: PATH}}` (or `env:`, `command:`), and let the program read `$NAME`"
    if path[:1] == ("data",) and kind == PASSWORD:
        help_ = (
            "leave it out, and name its source: `secrets: {NAME: {file: PATH}}` and "
            "`credentials: {headers: {Authorization: NAME}}` of the data set"
        )
    elif path[:1] == ("data",) and kind == SIGNATURE:
        help_ = (
            "leave out everything from the `?` on, and name the source of the whole URL: `secrets: {NAME: {file: PATH}}` and "
            "`credentials: {url: NAME}` of the data set"
        )
    elif site:
        help_ = "remove it here, and in specs name its source: `secrets: {NAME: {file: PATH}}` (or `env:`, `command:`)"
    place = ".".join(str(part) for part in path if isinstance(part, str)) or "the file"
    return Problem(
        code="DLR001",
        message=f"`{short(place)}` has {kind}, which would be written to disk with the job",
        origin=node.origin,
        width=node.width,
        help=help_,
    )


def faulty_secrets(root: Node) -> Iterator[Problem]:
    """A problem for each entry of `secrets` that does not name exactly one source."""
    secrets = root.get("secrets") if isinstance(root, MapNode) else None
    for name, entry in secrets.entries.items() if isinstance(secrets, MapNode) else ():
        if not isinstance(entry.value, MapNode):
            continue  # the decoder reports that a mapping is expected
        sources = [k for k in ("env", "file", "command") if not _absent(entry.value.get(k))]
        if len(sources) != 1:
            fault = f"names {' and '.join(sources)}" if sources else "does not name the source of its value"
            yield Problem(
                code="DLR002",
                message=f"secret `{short(name)}` {fault}",
                origin=entry.key.origin,
                width=entry.key.width,
                help=f"give exactly one of `env`, `file` and `command`, such as `{name}: {{env: {name}}}`",
            )


def _absent(node: Node | None) -> bool:
    return node is None or (isinstance(node, ScalarNode) and node.is_null)


def hide(sources: Mapping[str, str], trees: Mapping[str, Node]) -> dict[str, str]:
    """Sources for display with secrets masked: by their trees, or by patterns if there is no tree."""
    return {name: _hidden(text, trees.get(name)) for name, text in sources.items()}


def _hidden(text: str, tree: Node | None) -> str:
    root = tree if tree is not None else parse(text, Origin(layer=Layer.SPEC, name="")).root
    if root is None:
        return mask(text)
    pieces, end = [], 0
    for first, last, whole in sorted(set(_places(root, ()))):
        # Spans repeat: an alias has the span of its anchor.
        if first >= end:
            pieces += [
                _by_look(text[end:first]),
                stars(text[first:last]) if whole else _by_look(text[first:last]),
            ]
            end = last
    return "".join([*pieces, _by_look(text[end:])])


def _by_look(text: str) -> str:
    return "".join(map(masked, text.splitlines(keepends=True)))


def _places(node: Node, path: KeyParts) -> Iterator[tuple[int, int, bool]]:
    """(begin, end, secret) of each text of a tree."""
    if isinstance(node, ScalarNode):
        # Its lines are not recognised one by one.
        is_key = any(secret.kind == KEY for secret in secrets_in(node.text))
        yield (*node.span, is_key or is_confidential(path) or is_named_key(path, node.text))
    elif isinstance(node, ListNode):
        words = [item.text if isinstance(item, ScalarNode) else "" for item in node.items]
        values = secret_words(words)
        for index, item in enumerate(node.items):
            named = index and is_secret_argument(words[index - 1], words[index])
            if isinstance(item, ScalarNode) and (named or index in values):
                yield (*item.span, True)
            else:
                yield from _places(item, (*path, index))
    else:
        for name, entry in node.entries.items():
            first, last = entry.key.span
            boundary = last - len(name.partition("=")[2])  # `NAME=value` as a key
            yield (first, boundary, False)
            yield (boundary, last, True)
            yield from _places(entry.value, (*path, name))
        for name, dropped in node.dropped:
            yield from _places(dropped, (*path, name))


_OPENS = lazy_pattern(r"([ \t-]*)[\"']?([A-Za-z_][A-Za-z0-9_-]*)[\"']?[ \t]*[:=]")
_ENTRY = lazy_pattern(r"[ \t-]*[\"']?[A-Za-z_][A-Za-z0-9_]*[\"']?[ \t]*[:=]|[ \t-]*")


def mask(text: str) -> str:
    """A source with masked values of everything that looks like a secret, for files that cannot be parsed.

    Lines below `variables:`, `secrets:` or the name of a secret belong to it if they are indented more.
    """
    shown: list[str] = []
    # Indentation of the key whose value is masked (-1: none), and of the names below it (None: not known yet).
    inside = -1
    entries: int | None = -1
    for line in text.splitlines(keepends=True):
        opens, indentation = _OPENS.match(line), len(line) - len(line.lstrip())
        if line.strip() and indentation <= inside:
            inside = -1
        if inside >= 0:
            entries = indentation if entries is None else entries
            entry = _ENTRY.match(line) if indentation <= entries else None
            first = entry.end() if entry else 0
            shown.append(line[:first] + stars(line[first:]))
        elif opens and (opens[2] in ("variables", "secrets") or looks_secret(opens[2])):
            inside = len(opens[1])
            entries = -1 if looks_secret(opens[2]) else None
            shown.append(line[: opens.end()] + stars(line[opens.end() :]))
        else:
            shown.append(masked(line))
    return "".join(shown)
