"""Blocks of a script whose conditions its text decides: `if [ "$MODE" = ddp ]` after `MODE=ddp`, `if [ -z "$SLURM_JOB_ID" ]`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Word
from dlrun.schedulers.draft import SpecDraft

_TAKEN = "the script decides which branch runs: only its lines are in the spec"
_NOT_TAKEN = "no branch of it runs in the job"
_IN_JOB = re.compile(
    r"SLURM_(?:JOB_?ID|JOB_NAME|(?:JOB_)?NODELIST|NNODES|JOB_NUM_NODES|SUBMIT_DIR|JOB_PARTITION)|HOME|USER"
)
"""Variables that each job of Slurm has."""
_LEAVES = frozenset({"exit", "return", "break", "continue", "exec"})
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq, "-ne": operator.ne, "-lt": operator.lt, "-le": operator.le, "-gt": operator.gt, "-ge": operator.ge,
}  # fmt: skip


def taken(script: Sequence[Statement], start: Values, draft: SpecDraft, *, slurm: bool) -> list[Statement]:
    """The statements of a script, with the lines of the branch that is taken in place of each block whose condition is known."""
    values, result = start.copy(), list[Statement]()
    for statement in script:
        lines = _lines(statement, values, slurm=slurm)
        if lines is None:
            values.take(statement)
            result.append(statement)
            continue
        draft.leave(statement.line, statement.parts[0].source, _TAKEN if lines else _NOT_TAKEN)
        inside = taken(lines, values, draft, slurm=slurm)
        for part in inside:
            values.take(part)
        result += inside
    return result


def _lines(block: Statement, values: Values, *, slurm: bool) -> list[Statement] | None:
    """The lines of the branch of an `if` that is taken; None if that is not known, or the branch leaves the script."""
    if (
        block.form is not Form.BLOCK
        or block.keyword not in {"if", "elif"}
        or block.redirections
        or block.background
        or block.faulty
    ):
        return None
    # The parser has all branches beside one another.
    others = [
        part for part in block.parts[1:] if part.form is Form.BLOCK and part.keyword in {"elif", "else"}
    ]
    lines = list[Statement]()
    for branch in (block, *others):
        if branch.keyword == "else":
            lines = list(branch.parts)
            break
        holds = _condition(branch, values, slurm=slurm)
        if holds is None:
            return None
        if holds:
            lines = [part for part in branch.parts[1:] if part not in others]
            break
    return None if any(part.program in _LEAVES for line in lines for part in line.all()) else lines


def _condition(branch: Statement, values: Values, *, slurm: bool) -> bool | None:
    """Whether the condition of an `if` or `elif` holds; None if it is not known, or more than one command."""
    if not branch.parts:
        return None
    source = re.escape(branch.parts[0].source)
    if not re.match(rf"{branch.keyword}\s+{source}\s*(?:;\s*|\n\s*)then\b", branch.source):
        return None
    return _holds(branch.parts[0], values, slurm=slurm)


def _holds(condition: Statement, values: Values, *, slurm: bool) -> bool | None:
    """Whether a test holds; None if its words are not known."""
    if condition.form is Form.CHAIN and len(condition.parts) == 2 and condition.operator in {"&&", "||"}:
        first, second = (_holds(part, values, slurm=slurm) for part in condition.parts)
        decides = condition.operator == "||"
        if first is decides:
            return decides
        return None if first is None else second
    match = re.fullmatch(r"(\[\[?)\s+(.*?)\s+\]\]?", condition.source, re.DOTALL)
    if condition.form is not Form.OTHER or match is None:
        return None
    inside = statements(f"x {match[2]}")
    if len(inside) != 1 or inside[0].form is not Form.COMMAND or inside[0].redirections:
        return None
    return _test(inside[0].words[1:], values, double=match[1] == "[[", slurm=slurm)


def _test(words: Sequence[Word], values: Values, *, double: bool, slurm: bool) -> bool | None:
    texts = [word.literal for word in words]
    if len(words) == 2 and texts[0] in {"-z", "-n"}:
        text = _known(words[1], values, double=double)
        empty = text == "" if text is not None else (False if slurm and _in_job(words[1], values) else None)
        return None if empty is None else empty == (texts[0] == "-z")
    if len(words) != 3:
        return None
    left, right = (_known(word, values, double=double) for word in (words[0], words[2]))
    if left is None or right is None:
        return None
    if texts[1] in {"=", "==", "!="}:
        # Text without quotes is a pattern in `[[ ]]`.
        pattern = double and any(not s.quoted and re.search(r"[*?\[(]", right) for s in words[2].segments)
        return None if pattern else (left == right) == (texts[1] != "!=")
    compare = _NUMBERS.get(texts[1] or "")
    plain = all(re.fullmatch(r"-?(?:0|[1-9]\d{0,15})", text) for text in (left, right))
    return compare(int(left), int(right)) if compare and plain else None


def _known(word: Word, values: Values, *, double: bool) -> str | None:
    """The text of a word in a test; None if it is not known, or not one word in `[ ]`."""
    if double:
        return values.text_of(word)
    expanded = values.words(word)
    return expanded[0].literal if expanded and len(expanded) == 1 else None


def _in_job(word: Word, values: Values) -> bool:
    """True for a variable that is set in each job."""
    return all(
        s.kind is Kind.NAME and _IN_JOB.fullmatch(s.text) and s.text not in values.unknown
        for s in word.segments
        if s.text
    ) and any(s.kind is Kind.NAME for s in word.segments)
