"""Host names that a script cuts out of the scheduler's list of nodes, as markers `{{node.INDEX}}` in its variables."""

from __future__ import annotations

import re
from dataclasses import replace

from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Segment, Word

MARKER = re.compile(r"\{\{ ?node\.(\d+) ?\}\}")
_LIST = re.compile(r"scontrol show hostnames?(?: \"?\$\{?SLURM_(?:JOB_)?NODELIST\}?\"?)?")
_HERE = re.compile(r"hostname(?: -[sfiI]| --ip-address)*")
_ITEMS = re.compile(r"([A-Za-z_]\w*)\[[@*]\](?::([^:]+))?(?::([^:]+))?")
_INDEX = re.compile(r"([A-Za-z_]\w*)\[(-\d+)\]")
_VALUE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?:\[-?\d+\])?\})")
_ADDRESS = re.compile(r"(?:srun|ssh) .*\bhostname(?: -[sfiI]| --ip-address)*")


def marker(index: int) -> str:
    """What stands for the name of a node in words and text."""
    return f"{{{{node.{index}}}}}"


def rewritten(statement: Statement, values: Values, count: int) -> Statement:
    """The statement, with markers in place of what it cuts out of the node list of `count` nodes."""
    if statement.form is Form.COMMAND and statement.program in {"mapfile", "readarray"}:
        match = re.fullmatch(r"\w+ -t ([A-Za-z_]\w*) < <\((.*)\)", statement.source)
        indexes = _cut(match[2], values, count) if match else None
        return _replaced(statement, f"{match[1]}=({_items(indexes)})") if match and indexes else statement
    if (
        statement.form is Form.BLOCK
        and statement.keyword in {"until", "while"}
        and "'" not in statement.source
    ):
        loop = _VALUE.sub(lambda m: _plain(m[0], values), statement.source)
        return _replaced(statement, loop) if loop != statement.source else statement
    if statement.form is not Form.ASSIGNMENT or len(statement.assignments) != 1:
        return statement
    assignment = statement.assignments[0]
    keyword = f"{statement.keyword} " if statement.keyword else ""
    if assignment.items is not None and len(assignment.items) == 1 and not assignment.append:
        indexes = of_word(assignment.items[0], values, count)
        return (
            _replaced(statement, f"{keyword}{assignment.name}=({_items(indexes)})") if indexes else statement
        )
    if assignment.value is None or assignment.append or assignment.index is not None:
        return statement
    indexes = of_word(assignment.value, values, count) if _cuts(assignment.value) else None
    separator = (
        "," if re.search(r"tr .*,|paste|IFS=,", assignment.value.source or assignment.value.shell) else " "
    )
    known = values.words(replace(assignment.value, segments=tuple(map(_quoted, assignment.value.segments))))
    literal = known[0].literal if known and len(known) == 1 else None
    text = separator.join(map(marker, indexes or ())) or literal
    if not text or not MARKER.search(text):
        return statement
    escaped = re.sub(r'([\\"$`])', r"\\\1", text)
    return _replaced(statement, f'{keyword}{assignment.name}="{escaped}"')


def _plain(text: str, values: Values) -> str:
    """An expansion in the text of a loop that waits, or its value where that is a node or a number."""
    known = values.words(statements(f"x {text}")[0].words[1])
    value = known[0].literal if known and len(known) == 1 else None
    return value if value and re.fullmatch(r"(?:\{\{node\.\d+\}\}|[\w.:/-]+)+", value) else text


def of_word(word: Word, values: Values, count: int) -> list[int] | None:
    """The nodes that a word names; None if it is anything else."""
    parts = [s for s in word.segments if s.text]
    if len(parts) == 1 and parts[0].kind is Kind.SUBSTITUTION:
        return _cut(parts[0].text, values, count)
    if len(parts) == 1 and parts[0].kind is Kind.EXPANSION:
        return _sliced(parts[0], values)
    known = values.words(word)
    return _named(" ".join(w.literal or "?" for w in known)) if known else None


def _cuts(value: Word) -> bool:
    return any(
        s.kind is Kind.SUBSTITUTION
        or (s.kind is Kind.EXPANSION and (_INDEX.fullmatch(s.text) or ":" in s.text))
        for s in value.segments
    )


def _quoted(segment: Segment) -> Segment:
    """The segment as in an assignment, which does not split it."""
    return segment if segment.kind is Kind.TEXT else replace(segment, quoted=True)


def _named(text: str) -> list[int] | None:
    """The nodes in text that has nothing but names of nodes."""
    rest = MARKER.sub("", text)
    return [int(n) for n in MARKER.findall(text)] or None if not rest.strip(" ,\n") else None


def _sliced(segment: Segment, values: Values) -> list[int] | None:
    if match := _INDEX.fullmatch(segment.text):
        items = _named(" ".join(w.literal or "?" for w in values.arrays.get(match[1], ())))
        return [items[int(match[2])]] if items and -int(match[2]) <= len(items) else None
    match = _ITEMS.fullmatch(segment.text)
    items = _named(" ".join(w.literal or "?" for w in values.arrays.get(match[1], ()))) if match else None
    if match is None or items is None:
        return None
    first = values.number_of(match[2]) if match[2] else 0
    length = values.number_of(match[3]) if match[3] else len(items)
    if first is None or length is None or first < 0 or length < 0:
        return None
    return items[first : first + length] or None


def _cut(command: str, values: Values, count: int) -> list[int] | None:
    """The nodes that a command prints: the list of the job, or names in variables, cut by `head`, `tail`, `sed`, `awk`."""
    text = re.sub(r"^IFS=',?'?;\s*|^IFS=,\s*;\s*", "", " ".join(command.split()))
    inside = statements(text)
    if len(inside) != 1:
        return None
    stages = inside[0].parts if inside[0].form is Form.PIPELINE else (inside[0],)
    indexes = _printed(stages[0], values, count)
    for stage in stages[1:]:
        indexes = _stage(stage.source, indexes) if indexes else None
    return indexes


def _printed(stage: Statement, values: Values, count: int) -> list[int] | None:
    text = stage.source
    if _LIST.fullmatch(text):
        return list(range(count))
    if _HERE.fullmatch(text):
        return [0]
    if _ADDRESS.fullmatch(text):
        before = dict(zip(stage.words[1:], stage.words, strict=False))
        hosts = [w for w in stage.words[1:] if before[w].literal in {"-w", "--nodelist", "ssh"}]
        hosts += [w.after(len("--nodelist=")) for w in stage.words if w.lead.startswith("--nodelist=")]
        indexes = of_word(hosts[0], values, count) if len(hosts) == 1 else None
        return indexes if indexes and len(indexes) == 1 else None
    if stage.program == "echo" and not stage.redirections:
        named = [of_word(word, values, count) for word in stage.words[1:]]
        return [n for indexes in named if indexes for n in indexes] if named and None not in named else None
    return None


def _stage(text: str, indexes: list[int]) -> list[int] | None:
    """What one stage of a pipe leaves of the names, one on each line or all on one."""
    if match := re.fullmatch(r"(head|tail) (?:-n ?)?-?([1-9]\d*)", text):
        return indexes[: int(match[2])] if match[1] == "head" else indexes[-int(match[2]) :]
    if match := re.fullmatch(r"tail -n ?\+(\d+)", text):
        return indexes[int(match[1]) - 1 :]
    if match := re.fullmatch(
        r"sed -n ['\"]?(\d+)p['\"]?|awk ['\"]NR ?== ?(\d+)(?: ?\{ ?print ?(?:\$[01])? ?\})?['\"]", text
    ):
        return indexes[int(match[1] or match[2]) - 1 :][:1]
    if re.fullmatch(r"sed ['\"]?1d['\"]?", text):
        return indexes[1:]
    if re.fullmatch(r"tr .*|paste -s ?-?d ?['\"]?,['\"]?(?: -)?|paste -sd, ?-?|sed ['\"]s/,\$//['\"]", text):
        return indexes
    if len(indexes) == 1 and re.fullmatch(
        r"(?:awk ['\"]\{ ?print ?\$1 ?\}['\"]|cut -d ?['\"] ['\"] -f ?1|xargs)", text
    ):
        return indexes
    return None


def _items(indexes: list[int] | None) -> str:
    return " ".join(f'"{marker(n)}"' for n in indexes or ())


def _replaced(statement: Statement, source: str) -> Statement:
    return replace(statements(source, statement.line)[0], line=statement.line)
