"""One launch of several programs (`mpirun -n 1 A : -n 3 B`, `srun --multi-prog FILE`) as one that looks at its rank."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlrun.importing.options import Table, read
from dlrun.importing.statement import Statement
from dlrun.importing.words import Word, text_word

Known = Callable[[Word], Sequence[Word] | None]
"""What a word of the script is with the values of its variables; None: only its shell knows."""
_MOST = 512
"""Ranks up to which the program of each is written out."""
_TO_FILE = re.compile(r"cat\s*>\s*(\S+)\s*<<(['\"]?)(\w+)\2\n(.*\n)\3\s*", re.DOTALL)
_LINE = re.compile(r"(\*|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\s+(\S.*)")


@dataclass(frozen=True, slots=True)
class Part:
    """A program, and the ranks that run it; empty: the rest."""

    ranks: Sequence[int]
    words: Sequence[str]


def of_colons(
    words: tuple[Word, ...], table: Table, counts: Mapping[str, str], known: Known
) -> list[Part] | None:
    """The programs between the colons of MPI's launcher, in the order of their ranks; None if one has other options."""
    parts: list[Part] = []
    first = 0
    for group in _groups(words):
        call = read(group, table)
        numbers = [option.value or "" for option in call.options if counts.get(option.name) == "tasks"]
        program = _literals(call.rest, known)
        if (
            call.unknown is not None
            or program is None
            or (parts and len(call.options) > 1)
            or len(numbers) != 1
        ):
            return None
        if not re.fullmatch(r"[1-9]\d{0,2}", numbers[0]):
            return None
        parts.append(Part(range(first, first + int(numbers[0])), program))
        first += int(numbers[0])
    return parts if first <= _MOST else None


def _groups(words: Iterable[Word]) -> Iterator[tuple[Word, ...]]:
    group: list[Word] = []
    for word in words:
        if word.literal == ":":
            yield tuple(group)
            group = []
        else:
            group.append(word)
    yield tuple(group)


def _literals(words: Iterable[Word], known: Known) -> list[str] | None:
    """The words of a program, where the text of all is known; None where it is not, or there are none."""
    expansions = [known(word) for word in words]
    texts = [word.literal for each in expansions for word in each or (None,) if word is not None]
    if not expansions or None in expansions or any(t is None or "{{" in t for t in texts):
        return None
    return [text or "" for text in texts]


def of_file(text: str) -> list[Part] | None:
    """The programs of a configuration of `srun --multi-prog`; None if it is not understood."""
    parts: list[Part] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or re.search(r"[\\'\"]", line) or (parts and not parts[-1].ranks):
            return None
        ranks = [] if match[1] == "*" else [n for each in match[1].split(",") for n in _range(each)]
        if len(ranks) > _MOST or (match[1] != "*" and not ranks):
            return None
        parts.append(Part(ranks, match[2].split()))
    used = [n for part in parts for n in part.ranks]
    return parts if parts and len(set(used)) == len(used) else None


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def note(statement: Statement, files: dict[str, str]) -> None:
    """Follow the files whose whole text is in the script: what else has the name of one may change it."""
    for name in [name for name in files if name in statement.source]:
        del files[name]
    match = _TO_FILE.fullmatch(f"{statement.source}\n")
    if match is not None and (match[2] or not re.search(r"[$`\\]", match[4])):
        files[match[1]] = match[4]


def program(parts: Sequence[Part], *, of_srun: bool) -> tuple[Word, ...] | None:
    """The words of one program that starts that of its rank; None for a place that depends on more than the rank."""
    lines = ['case "$DLRUN_RANK" in']
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        shown = "*" if last else "|".join(map(str, part.ranks))
        begins = part.ranks[0] if part.ranks else 0
        if (
            of_srun
            and any("%o" in word for word in part.words)
            and list(part.ranks) != [begins + n for n in range(len(part.ranks))]
        ):
            return None
        words = (_placed(word, begins) if of_srun else shlex.quote(word) for word in part.words)
        lines.append(f"  {shown}) exec {' '.join(words)} ;;")
    return tuple(map(text_word, ("bash", "-c", "\n".join([*lines, "esac"]))))


def _placed(word: str, begins: int) -> str:
    """A word of srun's configuration: `%t` is the rank, `%o` its place among those of the line."""
    values = {"%t": '"$DLRUN_RANK"', "%o": f'"$((DLRUN_RANK - {begins}))"'}
    pieces = re.split(r"(%[to])", word)
    return "".join(values.get(piece) or (shlex.quote(piece) if piece else "") for piece in pieces)
