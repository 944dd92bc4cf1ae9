"""What the script's variables are at the launch line, as far as its text shows it.

A variable is known if it is assigned at the top level of the script, to a value that is known itself. Anything else that
may assign it (a block, a function, `read`, a sourced file) makes it unknown: then the script's own shell expands it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlrun.importing import by_rank
from dlrun.importing.directives import VARIABLES
from dlrun.importing.secrets import is_secret
from dlrun.importing.statement import Assignment, Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.words import Kind, Segment, Word, is_one, merged, names_of, repeatable, text_word

_OPERATIONS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_NODE_FILE = r"\"?\$\{?(?:PBS_NODEFILE|PE_HOSTFILE)\}?\"?"
_SORTS = r"(?:sort -u|sort|uniq)"
_HOST_LIST = r"scontrol show hostnames?(?: \"?\$\{?SLURM_(?:JOB_)?NODELIST\}?\"?)?"
_COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"(?:cat {_NODE_FILE} \| )?{_SORTS}(?: {_NODE_FILE})?(?: \| {_SORTS})* \| wc -l"), "nodes"),
    (re.compile(rf"{_HOST_LIST} \| wc -l"), "nodes"),
    (re.compile(rf"wc -l < ?{_NODE_FILE}"), "lines"),
    (re.compile(rf"cat {_NODE_FILE} \| wc -l"), "lines"),
    (re.compile(rf"wc -l {_NODE_FILE} \| (?:awk '\{{ ?print \$1 ?\}}'|cut -d ?' ' -f ?1)"), "lines"),
    (re.compile(r"nvidia-smi (?:-L|--list-gpus) \| wc -l"), "gpus"),
    (re.compile(r"nvidia-smi --query-gpu=\w+ --format=csv,noheader \| wc -l"), "gpus"),
)  # fmt: skip
"""Pattern of a command that counts, and what it counts."""
_ENVIRONMENT = re.compile(rf"HOME|USER|LOGNAME|{VARIABLES}")
"""Names that the job's own environment has, whatever a sourced file assigns."""
_EXPR = re.compile(r"expr ((?:[^`$]|\$\{?\w+\}?)*)")


@dataclass(slots=True)
class Values:
    """Known variables: name -> the segments of its value, or the words of an array."""

    counts: Mapping[str, int | None]
    """What the directives request: nodes, lines of the node file, GPUs of a node; None: unknown."""
    scalars: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    arrays: dict[str, tuple[Word, ...]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Names whose value at the launch line only the script's own shell knows."""
    any_unknown: bool = False
    """A sourced file or `eval` may have assigned any name, so a name without a known value need not be the environment's."""
    exported: set[str] = field(default_factory=set)
    nounset: bool = False
    """The script ends at a variable that is not set: `set -u`."""
    functions: dict[str, frozenset[str]] = field(default_factory=dict)
    """Function of the script -> names that it may assign."""
    files: dict[str, str] = field(default_factory=dict)
    """Files that the script writes -> their text, where it is known."""

    def submitted_with(self, arguments: Sequence[str]) -> None:
        """The arguments of the script, `$1` and so on."""
        for index, text in enumerate(arguments[:9], start=1):
            self.scalars[str(index)] = text_word(text).segments
        self.scalars["#"] = text_word(str(len(arguments))).segments
        self.arrays["@"] = tuple(map(text_word, arguments))

    # ---- what the script's statements assign --------------------------------------------------------------

    def take(self, statement: Statement) -> None:
        """Follow one statement of the script's top level."""
        by_rank.note(statement, self.files)
        if any(
            p.program == "shift" or [w.literal for w in p.words[:2]] == ["set", "--"] for p in statement.all()
        ):
            for name in [n for n in (*self.scalars, *self.arrays) if not n[0].isalpha() and n[0] != "_"]:
                self._forget(name)
        if statement.form is Form.FUNCTION:
            self.functions[statement.keyword] = statement.sets
        for part in statement.all():
            for name in self.functions.get(part.program, ()) if part.form is Form.COMMAND else ():
                self._forget_all() if name == "*" else self._forget(name)
        if statement.program == "set":
            self.nounset = self.nounset or re.search(r"\s-\w*u|nounset", statement.source) is not None
        if statement.form is Form.COMMAND and statement.program == "let":
            self._let(statement)
        elif statement.form is Form.ASSIGNMENT and not self._typed(statement):
            for assignment in statement.assignments:
                if statement.keyword == "export" or "-x" in {w.literal for w in statement.words}:
                    self.exported.add(assignment.name)
                self._assign(assignment)
        else:
            for name in statement.sets - {"*"}:
                self._forget(name)
            if "*" in statement.sets and statement.form is not Form.FUNCTION:
                self._forget_all()
            if statement.form is not Form.FUNCTION:
                for part in statement.all():
                    if part.form is Form.ASSIGNMENT and part.keyword == "export":
                        self.exported |= {a.name for a in part.assignments}

    def _let(self, statement: Statement) -> None:
        """`let NAME=EXPRESSION …`."""
        for word in statement.words[1:]:
            name, _, expression = word.source.strip("\"'").partition("=")
            number = self.number_of(expression) if re.fullmatch(r"[A-Za-z_]\w*", name) else None
            for changed in {name} if number is not None else statement.sets:
                self._forget(changed)
            if number is not None:
                self.unknown.discard(name)
                self.scalars[name] = text_word(str(number)).segments

    @staticmethod
    def _typed(statement: Statement) -> bool:
        """True for `declare -i` and the like, which change what an assignment means."""
        return any(re.search(r"-\w*[ilunA]", w.literal or "-i") for w in statement.words)

    def _assign(self, assignment: Assignment) -> None:
        name = assignment.name
        if assignment.value is None and assignment.items is None:
            return  # `export NAME`
        if assignment.index is not None:
            self._forget(name)
        elif assignment.items is not None:
            items: list[Word] = list(self.arrays.get(name, ())) if assignment.append else []
            for item in assignment.items:
                words = self.words(item)
                if words is None and repeatable(item):
                    words = [item]
                if words is None or (assignment.append and name in self.unknown):
                    self._forget(name)
                    return
                items += words
            self._forget(name)
            self.unknown.discard(name)
            self.arrays[name] = tuple(items)
        elif is_secret(name, assignment.value):
            # Words that read it have its name, which becomes a secret of the spec: never its value.
            self._forget(name)
            self.unknown.discard(name)
        elif assignment.value is not None:
            value = self._segments(assignment.value)
            before = self.scalars.get(name, ()) if assignment.append else ()
            # `X=$X:more` of an unknown X: in its own value the name would stand for the new one.
            if (
                value is None
                or (assignment.append and name not in self.scalars)
                or any(name in names_of(s) for s in (*before, *value))
            ):
                self._forget(name)
                return
            self._forget(name)
            self.unknown.discard(name)
            self.scalars[name] = merged([*before, *value])

    def _forget_all(self) -> None:
        """Any name may have been assigned."""
        self.any_unknown = True
        for name in [*self.scalars, *self.arrays]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        """The value is unknown from now on, and so are values in which the name stands for the earlier one."""
        self.scalars.pop(name, None)
        self.arrays.pop(name, None)
        self.unknown.add(name)
        users = [n for n, v in self.scalars.items() if any(name in names_of(s) for s in v)]
        users += [n for n, items in self.arrays.items() if any(name in word.names for word in items)]
        for user in users:
            self._forget(user)

    def _segments(self, value: Word) -> tuple[Segment, ...] | None:
        """The right side of an assignment, which is not split; None if only the shell can expand it."""
        segments: list[Segment] = []
        if value.in_home:
            return None
        for segment in value.segments:
            expanded = self._expanded(segment)
            if expanded is None:
                return None
            segments += (replace(s, quoted=True, source=_requoted(s)) for s in expanded)
        return merged(segments)

    def text_of(self, word: Word) -> str | None:
        """The text of a word that is not split, as in `[[ ]]`; None if it is not known."""
        segments = self._segments(word)
        if segments is None or any(s.kind is not Kind.TEXT for s in segments):
            return None
        return "".join(s.text for s in segments)

    # ---- what words expand to -----------------------------------------------------------------------------

    def words(self, word: Word) -> list[Word] | None:
        """The words that a word expands to, with names of the environment left in it; None if only the shell knows."""
        parts: list[list[Segment]] = [[]]
        for segment in word.segments:
            if segment.kind is Kind.ARRAY or (
                segment.kind is Kind.NAME
                and segment.text in {"@", "*"}
                and (segment.text == "@" or not segment.quoted)
            ):
                items = self.arrays.get("@" if segment.text == "*" else segment.text)
                if items is None or (
                    not segment.quoted
                    and any(i.literal is None or " " in i.literal or not i.literal for i in items)
                ):
                    return None
                if not items:
                    if len(word.segments) > 1 and any(s.text for s in word.segments if s is not segment):
                        return None
                    return []
                first, *rest = (list(i.segments) for i in items)
                parts[-1] += first
                parts += rest
                continue
            expanded = self._expanded(segment)
            if expanded is None:
                return None
            if segment.kind is Kind.TEXT or segment.quoted:
                parts[-1] += expanded
            elif not self._split(expanded, parts):
                return None
        kept = [merged(p) for p in parts]
        has_quotes = any(s.quoted for s in word.segments)
        made = [Word(k) for k in kept if k and (has_quotes or any(s.text for s in k))]
        return [replace(word)] if made and _same(made, word) else made

    def _split(self, expanded: Iterable[Segment], parts: list[list[Segment]]) -> bool:
        """Add what an unquoted expansion gives, split at blanks; False if it may match file names, or `IFS` is another."""
        if "IFS" in self.scalars or "IFS" in self.unknown:
            return False
        for segment in expanded:
            if segment.kind is not Kind.TEXT:
                # A value of the environment, unquoted as in the script.
                parts[-1].append(replace(segment, quoted=False))
                continue
            if re.search(r"[*?\[]", segment.text):
                return False
            for index, piece in enumerate(re.split(r"[ \t\n]+", segment.text)):
                if index:
                    parts.append([])
                if piece:
                    parts[-1].append(
                        replace(
                            segment, text=piece, quoted=True, source=_requoted(replace(segment, text=piece))
                        )
                    )
        return True

    def _expanded(self, segment: Segment) -> tuple[Segment, ...] | None:
        if segment.kind is Kind.TEXT:
            return None if segment.is_pattern else (segment,)
        if segment.kind is Kind.NAME:
            return self._name(segment)
        if segment.kind is Kind.ARITHMETIC:
            return _text(self.number_of(segment.text))
        if segment.kind is Kind.SUBSTITUTION:
            return _text(self._counted(segment.text))
        if segment.kind is Kind.EXPANSION:
            return self._expansion(segment)
        return None

    def _name(self, segment: Segment) -> tuple[Segment, ...] | None:
        name = segment.text
        if name in self.scalars:
            return self.scalars[name]
        if name in self.arrays:
            # `$ARRAY` is its first item.
            items = self.arrays[name]
            return items[0].segments if items and items[0].literal is not None and is_one(items[0]) else None
        # The name of an unknown variable stands for its value: it is forgotten with every assignment to the variable.
        if name in self.unknown:
            return (segment,)
        if (count := self._of_scheduler(name)) is not None:
            return _text(count)
        return (segment,) if re.fullmatch(r"[A-Za-z_]\w*", name) else None

    def _of_scheduler(self, name: str) -> int | None:
        kind = SCHEDULER_COUNTS.get(name)
        return self.counts.get(kind) if kind else None

    def in_ranks(self, name: str) -> bool:
        """True if a rank has the variable as the script's shell has it: from the environment, or exported."""
        if name in self.exported:
            return True
        return name not in self.unknown and (not self.any_unknown or _ENVIRONMENT.fullmatch(name) is not None)

    def _expansion(self, segment: Segment) -> tuple[Segment, ...] | None:
        text = segment.text
        if match := re.fullmatch(r"#([A-Za-z_]\w*)\[[@*]\]", text):
            items = self.arrays.get(match[1])
            return _text(len(items)) if items is not None and all(map(is_one, items)) else None
        if match := re.fullmatch(r"([A-Za-z_]\w*)\[([^][]+)\]", text):
            index = self.number_of(match[2])
            items = self.arrays.get(match[1])
            if (
                not items
                or index is None
                or not 0 <= index < len(items)
                or not all(map(is_one, items[: index + 1]))
            ):
                return None
            return items[index].segments
        if match := re.fullmatch(r"([A-Za-z_]\w*):-([\w./=-]*)", text):
            known = self._name(Segment(Kind.NAME, match[1], segment.quoted, ""))
            if known and all(s.kind is Kind.TEXT for s in known):
                return known if "".join(s.text for s in known) else text_word(match[2]).segments
        return None

    def number_of(self, expression: str) -> int | None:
        """The value of arithmetic over known numbers; None if it is not one."""

        def value(match: re.Match[str]) -> str:
            known = self._name(Segment(Kind.NAME, match[1] or match[2], True, ""))
            text = "".join(s.text for s in known) if known and all(s.kind is Kind.TEXT for s in known) else ""
            return text if re.fullmatch(r"-?(?:0|[1-9]\d*)", text) else "unknown"

        expression = expression.replace("$((", "((")
        named = re.sub(r"\$\{(\w+)\}|\$?\b([A-Za-z_]\w*)", value, expression)
        if "unknown" in named or "//" in named or "**" in named:
            return None
        try:
            return _value(ast.parse(named.strip().replace("/", "//"), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            return None

    def _counted(self, command: str) -> int | str | None:
        text = " ".join(command.split())
        for pattern, kind in _COMMANDS:
            if pattern.fullmatch(text):
                return self.counts.get(kind)
        if match := _EXPR.fullmatch(text):
            return self.number_of(match[1].replace("\\*", "*").replace("'*'", "*").replace('"*"', "*"))
        inner = statements(command)
        if (
            len(inner) == 1
            and inner[0].form is Form.COMMAND
            and inner[0].program == "echo"
            and not inner[0].redirections
        ):
            words = [w for word in inner[0].words[1:] for w in (self.words(word) or [Word(())])]
            texts = [w.literal for w in words]
            if all(texts) and not any((t or "").startswith("-") for t in texts):
                return " ".join(t or "" for t in texts)
        return None

    def copy(self) -> Values:
        """An independent copy."""
        return replace(
            self,
            scalars=dict(self.scalars),
            arrays=dict(self.arrays),
            unknown=set(self.unknown),
            exported=set(self.exported),
            functions=dict(self.functions),
            files=dict(self.files),
        )


def expanded(words: tuple[Word, ...], values: Values) -> tuple[Word, ...]:
    """The words with what is known put in; a word that only the shell can expand stays as it is."""
    result: list[Word] = []
    for word in words:
        inner = values.words(word)
        result += [word] if inner is None else inner
    return tuple(result)


SCHEDULER_COUNTS = {
    "SLURM_NNODES": "nodes", "SLURM_JOB_NUM_NODES": "nodes", "NHOSTS": "nodes", "PBS_NUM_NODES": "nodes",
    "SLURM_NTASKS": "tasks", "SLURM_NPROCS": "tasks", "SLURM_NTASKS_PER_NODE": "tasks_per_node",
    "SLURM_CPUS_PER_TASK": "cpus_per_task", "SLURM_GPUS_ON_NODE": "gpus", "SLURM_GPUS_PER_NODE": "gpus",
    "NSLOTS": "slots", "PBS_NP": "lines",
}  # fmt: skip
"""Variable of a scheduler -> the count in it."""


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 10**9:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not a sum of numbers")


def _text(value: int | str | None) -> tuple[Segment, ...] | None:
    return None if value is None else text_word(str(value)).segments


def _requoted(segment: Segment) -> str:
    return text_word(segment.text).segments[0].source if segment.kind is Kind.TEXT else segment.source


def _same(made: list[Word], word: Word) -> bool:
    return len(made) == 1 and made[0].segments == merged(word.segments)
