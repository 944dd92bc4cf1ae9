"""What a log without a known error reports: its exception and where that was raised, or its gravest line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from dlrun.why.context import progress
from dlrun.why.known.form import Evidence
from dlrun.why.known.programs.general import LEVELS, WAYS
from dlrun.why.patterns import EXCEPTION, REPORTED, is_general

CALL = re.compile(r'(.* |)File "[^"]+", line \d+')
"""A call in a traceback; the next line, further to the right, is its source code."""
RAISED = re.compile(EXCEPTION.regex)
"""An exception by its name."""
_STATEMENT = 20
"""Lines of a statement in a traceback: since Python 3.13 it shows all of them, and marks below some."""
_BELOW_A_CALL = re.compile(
    r"^\W*(?:\[\S{1,40}\]\S*\s*|\d+: |\([^()]*\bpid=[^()]*\)\s*)*"
    r"((?:(?:\w+\.)*[A-Z]|(?:[a-z_]\w*\.)+[a-z])\w*(?:: .{0,120}|\s*$))"
)
"""An exception of any name, as it stands below the last call of a traceback."""
_FRAME = re.compile(
    r'\bFile "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<of>.+))?$'
    r"|^\W*[│|] (?P<box>/\S+):(?P<number>\d+) in (?P<name>\S+)"
)
"""A call in a traceback of Python, or of Rich (in a box)."""
_INSTALLED = re.compile(
    r"<(?!stdin)|.*/bin/[\w.-]+$|.*/(?:(?:site|dist)-packages|lib(?:64)?/python\d[\d.]*)/"
)
"""The beginning of a path that is not of the user's own program; what follows names the package."""
_WITHOUT_FILE = re.compile(r"<(?!stdin)")
"""The beginning of a path of code that was made while the program ran."""
_THROWN = re.compile(r"terminate called after throwing an instance of '((?!std::)[^']+)'")
_START = re.compile(r"Traceback \(most recent call last\)")
CHAINED = r"The above exception was the direct cause|During handling of the above"
"""The sentence between the tracebacks of an exception and of one that followed from it."""
_MOST = 200
"""Characters of a message that are shown, and lines above an exception that are searched for its calls."""
_STAMP = re.compile(r"^\W*\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[]\s|-]*")
_MESSAGE = re.compile(r"""\b(?:msg|message|event|error)"?\s*[=:]\s*"((?:[^"\\]|\\.)+)\"""")
"""The message in a line of fields (JSON, logfmt)."""
_ADVICE = re.compile(
    r"(?:^|[.!;:,] +(?:or |and )?|`)((?:[Pp]lease(?! report)|Consider|[Yy]ou (?:should|may|can|must|need to|might|have to)"
    r"|[Tt]ry|Hint: (?!the backtrace)|[Mm]ake sure|Ensure|Set|Use|Specify|Did you mean:?"
    r"|To (?:fix|avoid|resolve|enable|disable|load)|Convert|Run(?! \S+ (?:not|does|is|was|has)\b)|Install|Pass|Increase"
    r"|Decrease|Reduce|Rerun|Provide|Check(?! failed)) (?:[^.]|\.(?=\S)){8,}?)(?:\.(?:\s|$)|!|$)"
)
"""What a message advises."""
_OPEN = re.compile(
    r"^(?:[\w.]+:?)?\s*$|validation errors? for \S+$|root error\(s\) found\.$|:\s*$|^\{?Error using \S+(?: \(line \d+\))?$"
)
"""A message that continues in the next line."""
_ROOTS = re.compile(r"\d+ root error\(s\) found\.$")
_ROOT = re.compile(r"\s*\(\d+\)\s+(\S.*)")
_DERIVED = re.compile(r"(?i:cancelled|aborted|unavailable)\b")
"""TensorFlow's message of several operations, each of them, and kinds that follow from another's (errors_impl.py)."""
_REASON = re.compile(r"\s*(?:Caused by|Reason):?\s+(.+)")
"""A line below a message that has its reason, as Rust's anyhow and LLVM print it; the last of several is the first cause."""
_BELOW = re.compile(r"Error in \S+(?: \(line \d+\))?$")
"""Where MATLAB has what it printed above, without a mark, as its error."""
_SHORTENED = re.compile(r"\b(?:SimplifiedTraceback|UnfilteredStackTrace)\b")
"""What JAX chains before an exception to say that it removed calls from its traceback (jax/_src/traceback_util.py)."""
_APART = re.compile(
    rf"^\W*$|^\W*\d{{4}}-\d\d|^\[|(?:INFO|WARNING|ERROR)[\]: ]|Traceback \(most|^\W*File \"|{CHAINED}"
)
"""A line with which no message continues."""
_CODE = re.compile(r"^\W*(?:assert\b|raise\b|.*\bassert\w*\()")
"""Code that shows what an exception without a message is about."""
_NO_GPU = re.compile(
    r"raised AssertionError at `assert (?:torch\.)?cuda\.(?:is_available\(\)|device_count\(\)(?: > 0| >= 1)?)`"
)
_CALLED_BY = re.compile(r"\(in ([\w.-]+?)(?:/\S*|\.py)?, called by (\S+ line \d+)")
"""The package that raised an exception, and the line of the user's own program that called it, as `_where` writes them."""
_RULE = re.compile(r"^\W*-{9}")
_NODE = re.compile(r"\b(?:on node|[Nn]ode(?: name)?:|[Hh]ost(?:name)?:)\s+([\w.-]+\w)")
_FIELD = re.compile(
    r"\s*(Framework|Component|Program|Executable|Local (?:host|device)|Device|Interface|Parameter|Value|Option)\s*:\s+(\S+)$"
)
"""The thing that a message of Open MPI or PRRTE is about, in a line of its own."""
_USER_SITE = re.compile(r"/\.local/lib/python\d[\d.]*/site-packages/")
"""Where `pip install --user` puts packages, before those of an environment (site.USER_SITE)."""
_OF_VERSIONS = re.compile(
    r"\b(?:Import|Attribute|Syntax|VersionConflict|ContextualVersionConflict)Error|VersionConflict|undefined symbol"
    r"|binary incompatibility|_ARRAY_API|unexpected keyword argument"
)
"""Errors that packages of other versions cause than the environment has."""
_NEAR = 12
"""Lines of ordinary output after an error after which the program has continued."""


def exception(line: str, above: str) -> re.Match[str] | None:
    """An exception in a line, by its name or because the line above is a call of a traceback; None for another line."""
    return RAISED.match(line) or (_BELOW_A_CALL.match(line) if CALL.match(above) else None)


def raised(evidence: Evidence, lines: Sequence[str], whole: Sequence[str]) -> Evidence:
    """An exception that no table knows: the first of its chain, where it was raised, and the way out of its kind.

    lines, whole: the log without and with the source code of tracebacks.
    """
    at: int | None = index(evidence.line, lines)
    chain: list[str] = []
    line, place = evidence.line, ""
    while at is not None:
        line = lines[at].strip()
        message = _message(line, lines[at - 1] if at else "")
        root = _root(lines, at)
        if root:
            chain.append(f"{message.partition(':')[0]}: {root}"[:_MOST])
        else:
            chain.append(_whole(message, lines[at + 1 : at + 3], _code(line, whole)))
        place, at = _above(lines, at)
    means = f"the program raised {chain[-1]}{place and f' ({place})'}"
    if chain[0] != chain[-1]:
        means += f"; then {chain[0]}"
    return _answer(evidence, line, means, reversed(chain))


def asserted(evidence: Evidence) -> str:
    """What an assertion without a message is about, as a program says it that has one; empty where it may be anything."""
    return "AssertionError: CUDA is not available" if _NO_GPU.search(evidence.pattern.means) else ""


def marked(
    lines: Sequence[str],
    log: str,
    passes: Callable[[str], bool],
    about: Callable[[str], bool],
    *,
    surely: bool = False,
) -> Evidence | None:
    """The gravest line of an error among the last lines of a log, of these the first; None without one.

    passes: whether a line is not the cause; about: whether it belongs to a block of errors; surely: only with a mark.
    """
    levels = LEVELS[: -1 if surely else None]
    best: tuple[int, int] | None = None
    ordinary = 0
    done = progress.Steps()
    for at in range(len(lines))[::-1]:
        line = lines[at]
        level = next((n for n, regex in enumerate(levels) if regex.search(line[:_MOST])), None)
        if level is not None and not passes(line):
            ordinary = 0
            if best is None or level <= best[0]:
                best = level, at
        elif not about(line):
            ordinary += 1
        if ordinary > _NEAR or len(lines) - at > _MOST or done.are_many(line):
            break
    if best is None:
        return None
    if _BELOW.match(lines[best[1]]):
        best = best[0], _above_frame(lines, best[1])
    line = lines[best[1]].strip()
    fields = _MESSAGE.search(line)
    whole = _whole(fields[1] if fields else _STAMP.sub("", line), lines[best[1] + 1 : best[1] + 5])
    evidence = Evidence(log=log, line=line, pattern=REPORTED)
    return _answer(evidence, line, f"the program says: {whole}", (whole,))


def _above_frame(lines: Sequence[str], at: int) -> int:
    """The first line of the message above a call of MATLAB, of which it is the error; the call itself without one."""
    above = range(max(0, at - _NEAR), at)[::-1]
    text = list(itertools.dropwhile(lambda n: not lines[n].strip(), above))
    message = list(itertools.takewhile(lambda n: lines[n].strip(), text))
    return message[-1] if message else at


def _answer(evidence: Evidence, line: str, means: str, messages: Iterable[str]) -> Evidence:
    """An answer with what its message, or one of the others, advises, and the way out of its kind."""
    way = next((way for regex, way in WAYS if re.search(regex, means)), None)
    own = next(filter(None, map(_advice, (evidence.line, *messages))), "")
    if way is None and (call := _CALLED_BY.search(means)) is not None:
        way = f"compare the call at {call[2]} with the documentation of the installed version of `{call[1]}` (`pip list`)"
    step = "; ".join(part for part in (own, way, evidence.pattern.next) if part)
    return replace(evidence, line=line, pattern=replace(evidence.pattern, means=means, next=step))


def _advice(message: str) -> str:
    """What a message advises, as a part of the way out; empty if it advises nothing."""
    match = _ADVICE.search(message)
    return f"its own advice: {match[1].strip()[:_MOST]}" if match else ""


def of_user_site(evidence: Evidence, lines: Sequence[str]) -> Evidence:
    """An error that a package of another version may cause, with a way out if the log names packages of the user's own."""
    if not (_OF_VERSIONS.search(evidence.line) and any(map(_USER_SITE.search, lines[-_MOST:]))):
        return evidence
    own = "packages of `~/.local` come before those of the environment: `environment.variables: {PYTHONNOUSERSITE: 1}`"
    return replace(evidence, pattern=replace(evidence.pattern, next=f"{own}; {evidence.pattern.next}"))


def index(line: str, lines: Sequence[str]) -> int:
    """Where a line without control characters is among such lines, the last one; 0 without it."""
    return next((at for at in range(len(lines))[::-1] if lines[at].strip() == line), 0)


def _code(line: str, whole: Sequence[str]) -> str:
    """The source code above an exception."""
    above = range(index(line, whole))[::-1]
    return next((whole[at] for at in above if re.search(r"\w", whole[at])), "")


def innermost(line: str, whole: Sequence[str]) -> str:
    """The source code of the call that raised an exception, in one line; empty where the lines above it have no such call."""
    at = index(line, whole)
    for number, above in enumerate(whole[max(0, at - _STATEMENT) : at][::-1]):
        if (call := CALL.match(above)) is not None:
            code = whole[at - number : at]
            further_right = all(line.startswith(f"{call[1]}  ") for line in code)
            return " ".join(code) if further_right or number == 1 else ""
    return ""


def _message(line: str, above: str) -> str:
    """The message of an exception, without the prefixes of its line."""
    match, thrown = exception(line, above), _THROWN.search(above)
    message = next((value.strip() for value in match.groups() if value), line) if match else line
    return f"{thrown[1]}: {message}" if thrown else message


def completed(evidence: Evidence, lines: Sequence[str]) -> Evidence:
    """An error with its next lines about the thing that it names, where its line ends with that; or with the fields, or the
    node, that its message has."""
    at = index(evidence.line, lines)
    if not evidence.values:
        block = [*itertools.takewhile(lambda line: not _RULE.match(line), lines[at : at + _NEAR])]
        fields = [f"{match[1]} {match[2]}" for match in map(_FIELD.match, block) if match]
        if not fields and "the node that it names" in evidence.pattern.next:
            fields = [f"node {match[1]}" for match in map(_NODE.search, block) if match][-1:]
        means = f"{evidence.pattern.means} ({', '.join(fields)})" if fields else evidence.pattern.means
        return replace(evidence, pattern=replace(evidence.pattern, means=means))
    name = re.fullmatch(r"[\w.-]+", evidence.values[0])
    if not name and evidence.line.endswith(evidence.values[0]) and _OPEN.search(evidence.values[0]):
        return replace(
            evidence, values=(_whole(evidence.values[0], lines[at + 1 : at + 3]), *evidence.values[1:])
        )
    return evidence


def explained(evidence: Evidence, lines: Sequence[str], wraps: Callable[[str], object]) -> Evidence:
    """A known exception with its message, where the meaning has nothing of it, with the first one of its chain, and its advice.

    wraps: whether an exception is only about the failure of another call.
    """
    raised = RAISED.match(evidence.line)
    if raised is None or evidence.pattern.consequence or is_general(evidence.pattern):
        return evidence
    pattern = evidence.pattern
    message = _message(evidence.line, "")[:_MOST]
    first = at = index(evidence.line, lines)
    while (before := _above(lines, at).cause) is not None:
        at = before
    root = _message(lines[at], lines[at - 1])[:_MOST] if at < first else ""
    named = any(value in pattern.meaning(evidence.values) for value in evidence.values)
    more = "" if named else f": {message}"
    if root.partition(": ")[2] and root.partition(": ")[2] not in message and not wraps(root):
        more += f"; it began with {root}"
    step = "; ".join(part for part in (pattern.next, _advice(evidence.line)) if part)
    named_more = pattern.named and f"{pattern.named}{more}"
    return replace(
        evidence, pattern=replace(pattern, means=f"{pattern.means}{more}", named=named_more, next=step)
    )


def _root(lines: Sequence[str], at: int) -> str:
    """The operation that failed first by itself, with the lines that name it, below TensorFlow's message of several; empty
    without one."""
    if not _ROOTS.search(lines[at].rstrip()):
        return ""
    block = [*itertools.takewhile(lambda line: not _APART.search(line), lines[at + 1 : at + 1 + _NEAR])]
    roots = [(match[1], number) for number, line in enumerate(block) if (match := _ROOT.match(line))]
    text, number = next(
        (root for root in roots if not _DERIVED.match(root[0])), roots[0] if roots else ("", 0)
    )
    named = itertools.takewhile(lambda line: not _ROOT.match(line), block[number + 1 :])
    return " ".join((text, *(line.strip() for line in named)))[:_MOST]


def _whole(message: str, after: Iterable[str], code: str = "") -> str:
    """A message, cut, with the next lines where it continues there; code: the line above, for an exception without a message."""
    after = [*itertools.takewhile(lambda line: not (_APART.search(line) or RAISED.match(line)), after)]
    reasons = [match[1] for match in itertools.takewhile(bool, map(_REASON.match, after)) if match]
    if reasons:
        return f"{message[: _MOST // 2]}: {reasons[-1]}"[:_MOST]
    if _OPEN.search(message):
        message = " ".join((message, *(line.strip() for line in after[:2])))
    if ":" not in message and _CODE.match(code):
        message = f"{message} at `{code.strip()}`"
    return message[:_MOST]


class _Raised(NamedTuple):
    """Where an exception was raised, and the line of the one that it followed from; "" and None if unknown."""

    place: str
    cause: int | None = None


def _above(lines: Sequence[str], at: int) -> _Raised:
    """What stands above the exception in a line."""
    calls: list[tuple[str, str, str]] = []
    first = max(0, at - _MOST)
    for number in range(first, at)[::-1]:
        line = lines[number]
        if _START.search(line):
            return _Raised(_where(calls), _before(lines, first, number))
        if call := _FRAME.search(line):
            path, of = call["path"] or call["box"], call["of"] or call["name"] or ""
            if not _WITHOUT_FILE.match(path):
                calls.append((path, call["line"] or call["number"], of))
        elif exception(line, lines[number - 1]):
            break
    return _Raised(_where(calls))


def _before(lines: Sequence[str], first: int, start: int) -> int | None:
    """The exception above the sentence that introduces a traceback as its consequence; None without one."""
    near = [number for number in range(first, start)[::-1] if lines[number].strip(" \t|│+")][:1]
    if not near or not re.search(CHAINED, lines[near[0]]):
        return None
    at = next((n for n in range(first, near[0])[::-1] if exception(lines[n], lines[n - 1])), None)
    return None if at is None or _SHORTENED.search(lines[at]) else at


def _where(calls: Sequence[tuple[str, str, str]]) -> str:
    """`train.py line 31, in main`: the last call of the user's own program; and the package that raised it, if another."""
    if not calls:
        return ""
    own = next((call for call in calls if not _INSTALLED.match(call[0])), None)
    path, line, of = own or calls[0]
    place = f"{_INSTALLED.sub('', path)} line {line}" + (f", in {of}" if of and of != "<module>" else "")
    if own is None or own is calls[0]:
        return place
    return f"in {_INSTALLED.sub('', calls[0][0])}, called by {place}"
