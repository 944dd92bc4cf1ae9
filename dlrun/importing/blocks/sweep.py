"""Job arrays and loops over literal values as `sweep:`.

Every array becomes a sweep over its indexes, with the scheduler's variable as in the script. Where the words of the command
depend on the index through literal values alone, these become parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dlrun.importing.commands import Role, prints, pure_assignment, role_of
from dlrun.importing.peel import peel
from dlrun.importing.program import movable
from dlrun.importing.statement import Form, Statement
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Segment, Word, text_word
from dlrun.schedulers.draft import SpecDraft

INDEXES = ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID", "SGE_TASK_ID")
"""Variables with the index of a task; `DLRUN_POINT` is that of dlrun's job, from 0."""
_MOST = 1000
"""Indexes up to which the values of each are worked out."""
_TAKEN = re.compile(
    r"nodes|ranks|ranks_per_node|gpus_per_node|cpus_per_rank|threads|batch_per_rank|global_batch|name|env|data|results|run_dir|job_dir|task|rank|local_rank|point|walltime|site|list|zip|grid|at_once|points_per_node|points_per_gpu|nodes_per_point"
)


def marker(name: str) -> tuple[Segment, ...]:
    """The segments that stand for a parameter in the command."""
    text = f"{{{{{parameter(name)}}}}}"
    return (Segment(Kind.TEXT, text, True, text),)


def parameter(name: str) -> str:
    """The parameter's name for a variable of the script."""
    return "task" if name in INDEXES else f"{name}_value" if _TAKEN.fullmatch(name) else name


@dataclass(slots=True)
class Loop:
    """A loop over literal values with one launch in it. `inside`: the statements of its body."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    inside: list[Statement] = field(default_factory=list)


def loop_of(statement: Statement, values: Values) -> Loop | None:
    """The loop that a statement is, if it only starts the same launch with other values; loops in it are parameters, too."""
    if (
        statement.form is not Form.BLOCK
        or statement.keyword != "for"
        or statement.faulty
        or statement.redirections
        or any(part.background for part in statement.all())  # a sweep is several jobs, on as many nodes
    ):
        return None
    match = re.match(r"for\s+([A-Za-z_]\w*)\s+in\b", statement.source)
    items = [text for word in statement.subject for text in _texts(word, values)]
    if match is None or not items or None in items or len(statement.parts) != 1:
        return None
    loop = Loop({match[1]: tuple(t or "" for t in items)})
    inner = values.copy()
    inner.scalars[match[1]] = marker(match[1])
    inner.unknown.discard(match[1])
    started = 0
    for part in statement.parts[0].parts:
        roles = {role_of(p, inner) for p in part.all()}
        if part.form is Form.BLOCK:
            below = loop_of(part, inner)
            if below is None:
                return None
            loop.names |= below.names
            loop.inside += below.inside
            started += 1
        elif roles & {Role.LAUNCH, Role.AGENT, Role.PROGRAM}:
            words = [word for p in part.all() if p.form is Form.COMMAND for word in p.words]
            peeled = peel(part, inner)
            # Lines of set-up know no parameter.
            if peeled is None or not all(map(prints, (*peeled.before, *peeled.after))):
                return None
            if any(inner.words(word) is None for word in words):
                return None
            loop.inside.append(part)
            started += 1
        elif (pure_assignment(part) and part.keyword != "export") or prints(part):
            loop.inside.append(part)
        else:
            return None
        inner.take(part)
    return loop if started == 1 else None


def _texts(word: Word, values: Values) -> list[str | None]:
    source = word.source
    if match := re.fullmatch(
        r"\{(\d{1,4})\.\.(\d{1,4})\}|\$\(seq (\d{1,4})(?: (\d{1,4}))?\)|`seq (\d{1,4}) (\d{1,4})`", source
    ):
        numbers = [int(g) for g in match.groups() if g]
        first, last = (1, numbers[0]) if len(numbers) == 1 else numbers
        return [str(n) for n in range(first, last + 1)]
    known = values.words(word)
    return (
        [None]
        if known is None
        else [w.literal if w.literal and "{{" not in w.literal else None for w in known]
    )


def put_loop(draft: SpecDraft, loop: Loop, line: int) -> None:
    """Write the parameters of a loop."""
    draft.put(
        "sweep",
        {parameter(name): list(items) for name, items in loop.names.items()},
        f"the loop in line {line}",
    )


class ArrayCommand(NamedTuple):
    """The words of the command of a job array, and the values with which they are expanded."""

    words: tuple[Word, ...]
    values: Values


def put_array(
    draft: SpecDraft, before: Sequence[Statement], words: Sequence[Word], start: Values, values: Values
) -> ArrayCommand:
    """Write the parameters of a job array; returns the command with them."""
    sweep: dict[str, object] = {}
    used = {name for word in words for name in word.names} | _inside(words, values)
    each = _each(draft.tasks, before, start) if len(draft.tasks) <= _MOST else []
    varying = _varying(each)
    kept = {name for s in before if not pure_assignment(s) or s.keyword == "export" for name in s.reads}
    changed = values
    if varying and used & varying.keys() and not kept & varying.keys():
        changed = values.copy()
        for name in varying:
            changed.scalars[name] = marker(name)
            changed.unknown.discard(name)
        for statement in before:
            if statement.form is Form.ASSIGNMENT and not statement.sets & varying.keys():
                changed.take(statement)
        sweep["zip"] = {
            parameter(name): items for name, items in varying.items() if name in _expanded(words, changed)
        }
    if not sweep.get("zip") or any(changed.words(word) is None for word in words):
        by_words = None if kept & varying.keys() else _by_words(words, each, varying, values)
        sweep, changed = {"task": list(draft.tasks)}, values
        if by_words is not None:
            sweep, words = {"zip": by_words.parameters}, by_words.words
    if draft.at_once:
        sweep["at_once"] = draft.at_once
    draft.put("sweep", sweep, "the job array of the batch script")
    return ArrayCommand(tuple(words), changed)


class _InWords(NamedTuple):
    """Words that differ between tasks as parameters, and the command with these."""

    parameters: dict[str, list[str]]
    words: list[Word]


def _by_words(
    words: Sequence[Word], each: Sequence[Values], varying: dict[str, list[str]], values: Values
) -> _InWords | None:
    """The words that are different texts in each task as parameters, and the command with these; None if it has others."""
    known = [[v.words(word) for word in words] for v in each]
    if not known or any(w is None for task in known for w in task):
        return None
    tasks = [[w for ws in task for w in ws or ()] for task in known]
    if any(len(task) != len(tasks[0]) for task in tasks):
        return None
    parameters: dict[str, list[str]] = {}
    made: list[Word] = []
    for index, column in enumerate(zip(*tasks, strict=True)):
        if all(w.segments == column[0].segments for w in column):
            made.append(column[0])
            continue
        texts = [w.literal for w in column]
        if any(t is None or "{{" in t or not t.isprintable() for t in texts):
            return None
        whole = [t or "" for t in texts]
        option = re.match(r"--?[\w-]+=", whole[0])
        lead = option[0] if option and all(t.startswith(option[0]) for t in whole) else ""
        items = [t[len(lead) :] for t in whole]
        before = (lead or (tasks[0][index - 1].literal or "")).strip("-=").replace("-", "_")
        name = next((n for n, known_items in varying.items() if known_items == items), before)
        name = parameter(name) if re.fullmatch(r"[A-Za-z_]\w*", name) else f"word_{index}"
        if parameters.setdefault(name, items) != items:
            return None
        text = f"{lead}{{{{{name}}}}}"
        made.append(Word((Segment(Kind.TEXT, text, True, text),)))
    # A word that only the script's own shell expands has the others with it in `setup`, which has no parameters.
    return _InWords(parameters, made) if parameters and movable(made, values) else None


def _inside(words: Sequence[Word], values: Values) -> set[str]:
    names: set[str] = set()
    for word in words:
        for segment in word.segments:
            if segment.kind is Kind.NAME and segment.text in values.scalars:
                names |= {s.text for s in values.scalars[segment.text] if s.kind is Kind.NAME}
    return names


def _expanded(words: Sequence[Word], values: Values) -> set[str]:
    """Variables whose marker is in the expanded words."""
    text = " ".join(w.shell for word in words for w in values.words(word) or ())
    return {
        name
        for name, segments in values.scalars.items()
        if len(segments) == 1 and segments == marker(name) and segments[0].text in text
    }


def _each(tasks: Sequence[int], before: Sequence[Statement], start: Values) -> list[Values]:
    """The values at the launch line in each task."""
    each = []
    for task in tasks:
        values = start.copy()
        for name in INDEXES:
            values.scalars[name] = text_word(str(task)).segments
        for statement in before:
            values.take(statement)
        each.append(values)
    return each


def _varying(each: Sequence[Values]) -> dict[str, list[str]]:
    """Variable -> its value in each task, for those that differ and are known."""
    known = [
        {
            n: "".join(s.text for s in v)
            for n, v in values.scalars.items()
            if all(s.kind is Kind.TEXT for s in v)
        }
        for values in each
    ]
    # In the order of the script, so that the same script has the same spec each time.
    names = [n for n in known[0] if all(n in k for k in known)] if known else []
    varying = {n: [k[n] for k in known] for n in names}
    return {
        n: v
        for n, v in varying.items()
        if len(set(v)) > 1
        and re.fullmatch(r"[A-Za-z_]\w*", n)
        and not any("{{" in t or not t.isprintable() for t in v)
    }


def index_lines(draft: SpecDraft, *, slurm: bool) -> list[str]:
    """Lines that give the scheduler's variable the index that the script's array has."""
    tasks = draft.tasks
    if not tasks or (slurm and tasks == tuple(range(len(tasks)))):
        return []
    names = ("SLURM_ARRAY_TASK_ID",) if slurm else draft.index_names
    first = tasks[0]
    if tasks == tuple(range(first, first + len(tasks))):
        value = f"$((DLRUN_POINT + {first}))"
        return [f"export {name}={value}" for name in names]
    listed = " ".join(map(str, tasks))
    return [
        line
        for name in names
        for line in (f"set -- {listed}", f"shift $DLRUN_POINT; export {name}=$1; set --")
    ]
