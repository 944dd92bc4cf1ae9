"""Secrets that a script reads from files when it runs: `secrets` of the spec where nothing but the ranks needs them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dlrun.config.secret_names import looks_secret
from dlrun.importing.options import name_set
from dlrun.importing.statement import Form, Statement
from dlrun.importing.words import Kind
from dlrun.schedulers.draft import SpecDraft

_FROM_FILE = "dlrun reads the file for each rank, if only you can read it: `chmod 600`"
_KEPT = "kept in `setup`, which reads it in the job: lines after it may need it. `secrets` gives it to the ranks alone"
_READS_FILE = re.compile(r"(?:cat|<)\s*(\"?)((?:~|\$HOME|\$\{HOME\})?/[\w./@+-]+)\1")
_NO_USE = name_set("cd mkdir echo set module ml conda mamba ulimit umask shopt export date sleep")
_SOURCED = re.compile(r"(?i)(?:^|[/._-])(?:env|secrets?|tokens?|credentials?|keys?|passwords?)(?:[._-]|$)")


def from_files(statements: Sequence[Statement], draft: SpecDraft, read: set[str]) -> list[Statement]:
    """The statements without exports of a file's content that are secrets of the spec; `read`: names that other set-up reads."""
    kept: list[Statement] = []
    for place, statement in enumerate(statements):
        name, path = _file_of(statement)
        if name:
            used = read.union(*(s.reads for s in statements if s is not statement))
            if path and name not in used and not any(map(_has_use, statements[place + 1 :])):
                draft.put(f"secrets.{name}", {"file": path})
                draft.came_from(f"secrets.{name}", statement.line)
                draft.leave(statement.line, statement.source, _FROM_FILE)
                continue
            draft.leave(statement.line, statement.source, _KEPT)
        elif statement.program in {"source", "."} and _SOURCED.search(statement.words[-1].shell.strip("\"'")):
            draft.leave(statement.line, statement.source, _KEPT)
        kept.append(statement)
    return kept


def _file_of(statement: Statement) -> tuple[str, str]:
    """A variable that an assignment reads from somewhere and that is a secret, and the file if it is read from one as it is."""
    assignment = (
        statement.assignments[0] if statement.form is Form.ASSIGNMENT and statement.assignments else None
    )
    segments = assignment.value.segments if assignment is not None and assignment.value is not None else ()
    if (
        assignment is None
        or len(statement.assignments) > 1
        or not looks_secret(assignment.name)
        or not any(s.kind is Kind.SUBSTITUTION for s in segments)
    ):
        return "", ""
    match = _READS_FILE.fullmatch(segments[0].text.strip()) if len(segments) == 1 else None
    plain = (
        statement.keyword == "export"
        and not statement.words
        and not assignment.append
        and assignment.index is None
    )
    return assignment.name, re.sub(r"^\$\{?HOME\}?", "~", match[2]) if match and plain else ""


def _has_use(statement: Statement) -> bool:
    """True if a statement may start a program that uses a variable of the environment."""
    parts = (part for part in statement.all() if part.form is not Form.ASSIGNMENT)
    words = [w for a in statement.assignments for w in (a.value, *(a.items or ())) if w is not None]
    run = [s.text.strip() for w in words for s in w.segments if s.kind is Kind.SUBSTITUTION]
    idle = (part.form is Form.COMMAND and part.program in _NO_USE for part in parts)
    return not (all(map(_READS_FILE.fullmatch, run)) and all(idle))
