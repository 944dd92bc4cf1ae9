"""Bash text as statements: tree-sitter's syntax tree, reduced to what the import looks at.

tree-sitter reads any text, and marks what is not bash as errors. Every statement keeps its own text, so that it can be copied.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from dlrun.errors import OperationFailed
from dlrun.importing.statement import Assignment, Form, Redirection, Statement
from dlrun.importing.words import Kind, Segment, Word, merged

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


def statements(text: str, first_line: int = 1) -> list[Statement]:
    """The statements of bash text at its top level, without comments."""
    source = text.encode("utf-8", "surrogatepass")
    root = _parser().parse(source).root_node
    while lost := list(_lost_names(root, source)):
        for start, end in sorted(lost, reverse=True):
            source = b"%s{%s}%s" % (source[:start], source[start:end], source[end:])
        root = _parser().parse(source).root_node
    return list(_Reader(source, first_line).block(root))


_NAME = re.compile(rb"[A-Za-z_]\w*|[0-9@*#?]")


def _lost_names(root: Node, source: bytes) -> Iterator[tuple[int, int]]:
    """Places of names that tree-sitter-bash 0.25 reads as a word after a `$`: the second of `$A/$B/c`, but not of `$A/${B}/c`."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "concatenation":
            names = (_NAME.match(source, child.end_byte) for child in node.children if child.type == "$")
            yield from (name.span() for name in names if name)
        stack += node.children


@cache
def _parser() -> Parser:
    try:
        import tree_sitter  # noqa: PLC0415 - only the import of scripts needs it
        import tree_sitter_bash  # noqa: PLC0415
    except ImportError as error:
        raise OperationFailed(
            f"reading a batch script needs the Python packages tree-sitter and tree-sitter-bash: {error}",
            help="install them for the Python that runs dlrun: `pip install tree-sitter tree-sitter-bash`",
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


_GROUPS = {"compound_statement", "subshell"}
_BLOCKS = {
    "if_statement", "for_statement", "c_style_for_statement", "while_statement", "case_statement", "do_group", "case_item",
    "elif_clause", "else_clause",
}  # fmt: skip
_SETTERS = {
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "unset",
    "let",
    "printf",
    "local",
    "export",
    "declare",
    "typeset",
    "readonly",
}
_STATEMENTS = {
    "command", "variable_assignment", "variable_assignments", "declaration_command", "unset_command", "pipeline", "list",
    "redirected_statement", "function_definition", "test_command", "negated_command", "ERROR", *_GROUPS, *_BLOCKS,
}  # fmt: skip


class _Reader:
    """Converts nodes of tree-sitter."""

    def __init__(self, source: bytes, first_line: int) -> None:
        self.bytes = source
        self.first_line = first_line

    def text(self, node: Node) -> str:
        return self.bytes[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def block(self, node: Node) -> Iterator[Statement]:
        """The statements directly inside a node."""
        last: Statement | None = None
        for child in node.children:
            if child.type == "&" and last is not None:
                last = replace(last, background=True, source=f"{last.source} &")
            elif child.type in _STATEMENTS or (
                child.is_named and child.type not in {"comment", "heredoc_body", "word"}
            ):
                if last is not None:
                    yield last
                last = self.statement(child)
        if last is not None:
            yield last

    def statement(self, node: Node) -> Statement:
        made = self._statement(node)
        # Trailing blank lines belong to some nodes; a here-document's last line needs its line feed.
        source = self.text(node).rstrip()
        return replace(made, source=source, faulty=node.has_error, sets=frozenset(self._names_set(node)))

    def _statement(self, node: Node) -> Statement:
        kind, line = node.type, node.start_point[0] + self.first_line
        source = self.text(node)
        if kind == "command":
            return self._command(node, line, source)
        if kind in {"variable_assignment", "variable_assignments", "declaration_command"}:
            return self._assignments(node, line, source)
        if kind == "pipeline":
            parts = tuple(self.statement(c) for c in node.named_children if c.type != "comment")
            operators = [c.type for c in node.children if not c.is_named]
            return Statement(
                Form.PIPELINE, line, source, parts=parts, operator=operators[0] if operators else "|"
            )
        if kind == "list":
            left, right = node.named_children[0], node.named_children[-1]
            operator = next((c.type for c in node.children if not c.is_named), "&&")
            return Statement(
                Form.CHAIN,
                line,
                source,
                parts=(self.statement(left), self.statement(right)),
                operator=operator,
            )
        if kind == "redirected_statement":
            return self._redirected(node, line, source)
        if kind in _GROUPS:
            return Statement(
                Form.GROUP,
                line,
                source,
                parts=tuple(self.block(node)),
                keyword="(" if kind == "subshell" else "{",
            )
        if kind == "function_definition":
            return Statement(
                Form.FUNCTION, line, source, parts=tuple(self.block(node)), keyword=self._name_of(node)
            )
        if kind in _BLOCKS:
            return self._block(node, line, source)
        parts = tuple(self.block(node)) if kind in {"negated_command", "ERROR"} else ()
        return Statement(Form.OTHER, line, source, parts=parts)

    def _name_of(self, node: Node) -> str:
        return next((self.text(c) for c in node.children if c.type == "word"), "")

    def _block(self, node: Node, line: int, source: str) -> Statement:
        parts: list[Statement] = []
        subject: list[Word] = []
        for child in node.children:
            if child.type == "&" and parts:
                parts[-1] = replace(parts[-1], background=True)
            if not child.is_named or child.type in {"comment", "variable_name"}:
                continue
            if child.type in _STATEMENTS:
                parts.append(self.statement(child))
            elif node.type == "for_statement":
                subject.append(self.word(child))
        keyword = node.children[0].type if node.children else ""
        return Statement(
            Form.BLOCK, line, source, parts=tuple(parts), keyword=keyword, subject=tuple(subject)
        )

    def _command(self, node: Node, line: int, source: str) -> Statement:
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type == "command_name":
                words.append(self.word(child))
            elif child.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                redirections.append(self._redirection(child, words))
            elif child.type != "comment":
                words.append(self.word(child))
        return Statement(
            Form.COMMAND, line, source, words=tuple(words), assignments=tuple(assignments),
            redirections=tuple(redirections),
        )  # fmt: skip

    def _redirected(self, node: Node, line: int, source: str) -> Statement:
        body: Statement | None = None
        redirections: list[Redirection] = []
        words: list[Word] = []
        pipe: Statement | None = None
        for child in node.named_children:
            if child.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                redirections.append(self._redirection(child, words))
                inner = [c for c in child.named_children if c.type in {"pipeline", "command", "list"}]
                pipe = self.statement(inner[0]) if inner else pipe
            elif child.type != "comment":
                body = self.statement(child)
        if body is None:
            return Statement(Form.OTHER, line, source, redirections=tuple(redirections))
        if pipe is not None:
            # `cat <<EOF | program`: tree-sitter has the rest of the line inside the redirection.
            return Statement(Form.OTHER, line, source, parts=(body, pipe), redirections=tuple(redirections))
        return replace(
            body, line=line, words=(*body.words, *words), redirections=(*body.redirections, *redirections)
        )

    def _redirection(self, node: Node, words: list[Word]) -> Redirection:
        """A redirection; adds the words after it to `words`: tree-sitter counts those of the same command to it."""
        operator, targets = "", []
        for child in node.children:
            if child.type == "file_descriptor" or not child.is_named:
                operator += self.text(child)
            elif not child.type.startswith("heredoc"):
                targets.append(self.word(child))
        words += targets[1:]
        return Redirection(operator, targets[0] if targets else None, self.text(node))

    def _assignments(self, node: Node, line: int, source: str) -> Statement:
        keyword, options = "", []
        assignments: list[Assignment] = []
        nodes = [node] if node.type == "variable_assignment" else node.children
        for child in nodes:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif not child.is_named:
                keyword = keyword or self.text(child)
            elif child.type == "variable_name":
                assignments.append(Assignment(self.text(child), None))
            elif child.type != "comment":
                options.append(self.word(child))
        return Statement(
            Form.ASSIGNMENT,
            line,
            source,
            words=tuple(options),
            assignments=tuple(assignments),
            keyword=keyword,
        )

    def _assignment(self, node: Node) -> Assignment:
        left = node.children[0]
        name, index = self.text(left), None
        if left.type == "subscript":
            name, _, index = name.rstrip("]").partition("[")
        append = any(c.type == "+=" for c in node.children)
        value = node.children[-1]
        if value.type in {"=", "+="}:
            return Assignment(name, Word(()), append=append, index=index)
        if value.type == "array":
            items = tuple(self.word(c) for c in value.named_children if c.type != "comment")
            return Assignment(name, None, items, append=append, index=index)
        return Assignment(name, self.word(value), append=append, index=index)

    def word(self, node: Node) -> Word:
        """A node that is one word."""
        return Word(merged(list(self._segments(node, quoted=False))), self.text(node))

    def _segments(self, node: Node, *, quoted: bool) -> Iterator[Segment]:
        kind, source = node.type, self.text(node)
        if kind in {
            "word",
            "number",
            "variable_name",
            "special_variable_name",
            "test_operator",
            "extglob_pattern",
            "regex",
        }:
            yield from _bare(source)
        elif kind in {"command_name", "concatenation", "variable_assignment"}:
            yield from self._children(node, quoted=quoted, between=_bare)
        elif kind == "raw_string":
            yield Segment(Kind.TEXT, source[1:-1], True, source)
        elif kind == "string":
            yield from self._string(node)
        elif kind == "simple_expansion":
            yield Segment(Kind.NAME, source[1:], quoted, source)
        elif kind == "expansion":
            yield _expansion(source, quoted=quoted)
        elif kind == "arithmetic_expansion":
            inner = source[3:-2] if source.startswith("$((") else source[2:-1]
            yield Segment(Kind.ARITHMETIC, inner.strip(), quoted, source)
        elif kind in {"command_substitution", "process_substitution"}:
            inner = source[1:-1].replace("\\`", "`") if source[:1] == "`" else source[2:-1]
            yield Segment(Kind.SUBSTITUTION, inner.strip(), quoted, source)
        elif kind in {"ansi_c_string", "translated_string"}:
            yield Segment(Kind.EXPANSION, source, False, source)
        elif kind == "brace_expression":
            yield Segment(Kind.TEXT, source, False, source)
        elif not node.is_named or not node.children:
            yield from _bare(source)
        else:
            yield Segment(Kind.EXPANSION, source, quoted, source)

    def _string(self, node: Node) -> Iterator[Segment]:
        yield Segment(Kind.TEXT, "", True, "''")  # an empty string is a word, too
        inner = [c for c in node.children if c.type in {
            "simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"
        }]  # fmt: skip
        place = node.start_byte + 1
        for child in inner:
            yield from _in_double_quotes(self._slice(place, child.start_byte))
            yield from self._segments(child, quoted=True)
            place = child.end_byte
        yield from _in_double_quotes(self._slice(place, node.end_byte - 1))

    def _children(self, node: Node, *, quoted: bool, between: Any) -> Iterator[Segment]:
        place = node.start_byte
        for child in node.children:
            yield from between(self._slice(place, child.start_byte))
            yield from self._segments(child, quoted=quoted)
            place = child.end_byte
        yield from between(self._slice(place, node.end_byte))

    def _slice(self, start: int, end: int) -> str:
        return self.bytes[start:end].decode("utf-8", "replace")

    def _names_set(self, node: Node) -> Iterator[str]:
        """Names that a node may assign; `*` for any name."""
        stack = [node]
        while stack:
            here = stack.pop()
            if here.type == "variable_assignment":
                if here.parent is None or here.parent.type != "command":
                    yield re.split(r"[\[+=]", self.text(here), maxsplit=1)[0]
            elif here.type in {"for_statement", "unset_command", "declaration_command"}:
                yield from (self.text(c) for c in here.children if c.type == "variable_name")
            elif here.type == "command":
                yield from self._set_by_command(here)
            elif here.type in {"postfix_expression", "unary_expression", "binary_expression"}:
                text = self.text(here)
                yield from re.findall(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))", text)
                yield from re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", text)
            elif here.type == "expansion":
                yield from re.findall(r"^\$\{([A-Za-z_]\w*):?=", self.text(here))
            stack += here.children

    def _set_by_command(self, node: Node) -> Iterator[str]:
        words = [self.text(c) for c in node.children if c.type not in {"comment", "variable_assignment"}]
        program = words[0] if words else ""
        if (
            program in {"source", "."}
            and not (len(words) == 2 and words[1].rstrip("\"'").endswith("/bin/activate"))
        ) or (program == "eval" and "conda" not in self.text(node)):
            yield "*"
        elif program in _SETTERS:
            yield from (
                w.partition("=")[0] for w in words[1:] if re.fullmatch(r"[A-Za-z_]\w*(?:=.*)?", w, re.DOTALL)
            )


def _expansion(source: str, *, quoted: bool) -> Segment:
    inner = source[2:-1]
    if re.fullmatch(r"[A-Za-z_]\w*|[0-9@*#?$!-]", inner):
        return Segment(Kind.NAME, inner, quoted, source)
    if match := re.fullmatch(r"([A-Za-z_]\w*)\[(?:@|\*)\]", inner):
        if quoted and inner.endswith("[*]"):
            return Segment(Kind.EXPANSION, inner, quoted, source)  # one word
        return Segment(Kind.ARRAY, match[1], quoted, source)
    return Segment(Kind.EXPANSION, inner, quoted, source)


def _bare(text: str) -> Iterator[Segment]:
    """Unquoted text: a backslash quotes the next character."""
    for part in re.findall(r"\\\n|\\.|[^\\]+|\\$", text, re.DOTALL):
        if part == "\\\n":
            continue
        if part[0] == "\\" and len(part) > 1:
            yield Segment(Kind.TEXT, part[1:], True, part)
        else:
            yield Segment(Kind.TEXT, part, False, part)


def _in_double_quotes(text: str) -> Iterator[Segment]:
    """Text in double quotes: a backslash quotes only some characters."""
    plain = re.sub(r"\\([$`\"\\\n])", lambda m: "" if m[1] == "\n" else m[1], text)
    if plain:
        yield Segment(Kind.TEXT, plain, True, shlex.quote(plain))
