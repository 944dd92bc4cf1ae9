"""Secrets in the text of a script, whose values must not reach the spec; `files`: those that it reads from files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dlrun.config.secret_names import holds_secret, secrets_in, without_secrets
from dlrun.importing.statement import Form, Statement
from dlrun.importing.words import Kind, Word
from dlrun.schedulers.draft import SpecDraft

_ENVIRONMENT = "its value is not copied into the spec: export it in the shell that submits, or name a `file:` of mode 0600"
_INSIDE = "its secret is not copied into the spec: put it under `secrets`"


def left_out(statements: Iterable[Statement], draft: SpecDraft) -> list[Statement]:
    """The statements that are kept, without secrets: assignments of these are secrets of the spec, all are to be checked."""
    kept: list[Statement] = []
    for statement in statements:
        names = [a.name for a in statement.assignments if is_secret(a.name, a.value)]
        if statement.form is Form.ASSIGNMENT and names:
            for name in names:
                put(draft, statement.line, name)
            if len(names) == len(statement.assignments):
                continue
        source = statement.source
        for part in statement.all():
            for assignment in part.assignments:
                if assignment.value is not None and is_secret(assignment.name, assignment.value):
                    source = source.replace(assignment.value.source, "'***'")
        source = "\n".join(map(without_secrets, source.split("\n")))
        if source != statement.source:
            draft.check(statement.line, source, _INSIDE)
            statement = replace(statement, source=source)  # noqa: PLW2901 - the same statement without its secret
        kept.append(statement)
    return kept


def put(draft: SpecDraft, line: int, name: str) -> None:
    """Make a variable a secret of the spec, whose value the shell that submits has."""
    draft.put(f"secrets.{name}", {"env": name})
    draft.came_from(f"secrets.{name}", line)
    draft.check(line, f"export {name}=…", _ENVIRONMENT, f"secrets.{name}")


def is_secret(name: str, value: Word | None) -> bool:
    """True if the value of a variable is a secret, and not that of a file or another variable."""
    if value is None or any(s.kind is Kind.SUBSTITUTION for s in value.segments):
        return False
    texts = [s.text for s in value.segments if s.kind is Kind.TEXT]
    return any(len(text) > 3 and holds_secret(name, text) for text in texts) or any(
        next(secrets_in(text), None) is not None for text in texts
    )
