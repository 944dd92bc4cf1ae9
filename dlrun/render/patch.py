"""Change of keys in the text of a YAML file; everything else, including comments, is unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def patched(text: str, sets: Mapping[str, str], comment: str | None = None) -> str:
    """The text with each key (`placement.smt`) set to a YAML value; `comment` is inserted above each change.

    Raises ValueError if the text is not a mapping, or the key cannot be set.
    """
    for key, value in sets.items():
        path = key.split(".")
        text = _set(text, path, value, comment)
        # The change of text may fail for unusual YAML (anchors, odd indentation), so the result is parsed and compared.
        if _plain(_found(_composed(text), path)) != _plain(_composed(value)):
            raise ValueError(f"`{key}` cannot be set there")
    return text


def _set(text: str, path: Sequence[str], value: str, comment: str | None) -> str:
    root = _composed(text)
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("it is not a mapping of keys")  # noqa: TRY004 - of the text, not of an argument
    node, depth = root, 0
    while True:
        entry = next((pair for pair in node.value if pair[0].value == path[depth]), None)
        if entry is None:
            return _inserted(text, node, path[depth:], value, comment)
        child = entry[1]
        if depth == len(path) - 1:
            if child.start_mark.index == child.end_mark.index:  # `key:` without a value
                return _above(text, child.start_mark.index, f" {value}", child.start_mark.index, comment)
            return _above(text, child.start_mark.index, value, child.end_mark.index, comment)
        if not isinstance(child, yaml.MappingNode):
            if child.tag != "tag:yaml.org,2002:null":
                raise ValueError(f"`{path[depth]}` is not a mapping")
            column = entry[0].start_mark.column + 2
            below = _block(path[depth + 1 :], value, column)
            end = _line_end(text, entry[0].end_mark.index)
            return (
                text[: entry[0].end_mark.index]
                + f":{_comment_line(comment, column)}\n{below}"
                + text[end:].lstrip("\n")
            )
        node, depth = child, depth + 1


def _composed(text: str) -> Any:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise ValueError("it is not YAML") from None


def _inserted(text: str, node: yaml.MappingNode, path: Sequence[str], value: str, comment: str | None) -> str:
    """A new key as the last of a mapping: after its last line, or before its closing brace."""
    if node.flow_style:
        flow = value
        for name in reversed(path[1:]):
            flow = f"{{{name}: {flow}}}"
        at = node.end_mark.index - 1
        comma = ", " if node.value else ""
        return _above(text, at, f"{comma}{path[0]}: {flow}", at, comment)
    # In block style, after the last line of the last value and before blank lines and comments that follow.
    column = node.start_mark.column
    at = _line_end(text, _content_end(text, node.value[-1][1].end_mark.index))
    before = text[:at] if text[:at].endswith("\n") else text[:at] + "\n"
    return (
        before
        + _comment_line(comment, column).removeprefix("\n")
        + ("\n" if comment else "")
        + _block(path, value, column)
        + text[at:]
    )


def _content_end(text: str, index: int) -> int:
    """The end of a node's content; the end marks of block mappings are at the next token, after blank lines and comments."""
    return len(text[:index].rstrip()) if index else 0


def _line_end(text: str, index: int) -> int:
    """The start of the next line."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _block(path: Sequence[str], value: str, column: int) -> str:
    lines = [f"{' ' * (column + 2 * depth)}{name}:" for depth, name in enumerate(path)]
    lines[-1] += f" {value}"
    return "\n".join(lines) + "\n"


def _above(text: str, start: int, new: str, end: int, comment: str | None) -> str:
    """The text with a part replaced, and the comment in the line above it."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start][: len(text[line:start]) - len(text[line:start].lstrip())]
    above = f"{indent}# {comment}\n" if comment and not text[:line].endswith(f"# {comment}\n") else ""
    return text[:line] + above + text[line:start] + new + text[end:]


def _comment_line(comment: str | None, column: int) -> str:
    return f"\n{' ' * column}# {comment}" if comment else ""


def _found(node: Any, path: Sequence[str]) -> Any:
    for name in path:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for key, value in entries if key.value == name), None)
    return node


def _plain(node: Any) -> Any:
    """The contents of a node, independent of its style."""
    if isinstance(node, yaml.ScalarNode):
        return node.tag, node.value
    if isinstance(node, yaml.SequenceNode):
        return [_plain(element) for element in node.value]
    return {key.value: _plain(value) for key, value in node.value} if node is not None else None
