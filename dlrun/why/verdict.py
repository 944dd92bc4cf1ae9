"""The line with the cause at the end of one log: the earliest known error of the last block of errors, else an exception."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from dlrun.why import reported
from dlrun.why.context import attempts, barriers, levels, prefixes, progress, steps
from dlrun.why.context.grades import LOST, grade
from dlrun.why.known.form import Evidence
from dlrun.why.matching import Match, Table, below, is_claimed, is_harmless
from dlrun.why.patterns import EXCEPTION, FRAMED

_LONGEST = 2000
"""Characters of a line that are searched, half of them at its end: a line may list all keys of a model."""
_NEAR = 50
"""Lines after an exception within which a consequence belongs to it."""
_PROGRESS = 12
"""Lines of ordinary output after which a program has continued: an error before them did not end it."""
_WORK = 40
"""The same where the reason of the end is unknown: a program may print more after its error."""
_BLOCK = 200
"""Lines before an error that may belong to the same block of errors."""
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0e-\x1f\x7f-\x9f]"
)
_CHAINED = re.compile(rf"^\W*(?:\[\S+\]:?\s*|\d+: )?(?:{reported.CHAINED})")
_WRAPPER = re.compile(
    r"ChildFailedError|Engine core initialization failed|CalledProcessError|SignalException|RayTaskError|SystemExit(?:: \d+)?\s*$"
    r"|\bHccl\w+, error code is|Process(?:Exited|Raised)Exception|Inner error is reported as above"
    r"|Caught \w+ in (?:DataLoader worker|replica|pin memory)"
    r"|Capture cuda graph failed|SimplifiedTraceback|ExceptionGroup|Server process terminated unexpectedly"
    r"|TrainingFailedError|FailedJobError|WorkerGroupError|RaySystemError|Trials did not complete|CheckpointException ranks:"
    r"|(?i:\b(?:see|check|inspect)\b.{0,40}\b(?:root cause|stack ?trace|traceback|previous|above|below|logs?)\b)"
)
"""Exceptions that only say that another process or call failed: the detail has its own line."""
_RECOVERED = re.compile(
    r"(?i:\b(?:re-?try(?:ing)?|trying again|skip(?:ping|ped)?|ignor(?:ing|ed)|fall(?:ing|s)? ?back|attempt \d"
    r"|reduc(?:ing|ed)|halv(?:ing|ed)|disabl(?:ing|ed)|continu(?:ing|es?)|recovered|succeeded|from scratch"
    r"|using \S+ instead|no errors?)\b)|(?i:\berrors?\b[\"']?\s*[:=]\s*[\d.]+(?:e-?\d+)?\s*(?:$|[|,;}]))"
)
"""Words of a program that continues after an error; and of a measure that is called one."""
_AFTER = 3
"""Lines after an error in which a program may announce that it continues, or that it prints before it ends."""
_SEVERE = frozenset(
    (
        "disk-full",
        "gpu-broken",
        "gpu-memory",
        "memory",
        "quota",
        "shared-memory",
        "too-many-files",
        "too-many-threads",
    )
)
"""Causes after which anything may fail: raised, they win over what its clean-up raises, and over what it logged before."""
_OF_THE_KERNEL = re.compile(r"\bNVRM: (?:Xid|.*fallen off)")
"""The kernel's report of a broken GPU, which comes later than what programs failed of."""
_OF_A_SHELL = re.compile(
    r"(?:Lmod has detected|ModuleCmd\S* *ERROR|(?:mkdir|cp|mv|ln|rm|chmod|cat|touch|tar|source): )"
)
"""Errors of commands before a program, after which a script continues."""
_BY_ITSELF = frozenset(
    ("arithmetic", "bus-error", "exception", "illegal-instruction", "reported", "segmentation-fault")
)
"""Ends of a process that no other one causes."""
_ASIDE = re.compile(
    r"^\W*(?:\[[^\]\s]{1,40}\](?:<std(?:err|out)>)?:?\s*)?"
    r"(?:Exception ignored (?:in|on|while)\b|Error in atexit\._run_exitfuncs:|--- Logging error ---)"
)
"""What Python prints before an exception that ends nothing, often while it ends for another reason."""
_BARE = re.compile(r"(?:\S+ )?")
"""What is before a call without its indentation: nothing, or the prefix of a rank."""
_CALLER = re.compile(r", in \S+$")
_MARKS = re.compile(r"^\W*[~^][\W]*$")
"""A line below source code that marks a part of it."""
_ABOUT_AN_ERROR = re.compile(
    r"^\W*$|^(?:\[\S+\]:?|\d+:)?\s|^#\s*include\b|^compilation terminated|\ufffd|\b(?:Current t|T)hread 0x|\bNVRM: "
    r"|(?i:error|fail|fatal|abort|exception|traceback|caught|killed|signal|unable|cannot|could not)"
)
"""Lines within a block of errors: empty, indented, about an error, or what the kernel reports of a GPU."""
_FRAME = re.compile(
    r"\bframe #\d+|\[0x[0-9a-f]+\]$|^\W*[│╭╰]|^File \"|^ *\d* *\| |^\w+\(\d+\)\.*:|^In file included from\b"
    r"|^\S+: In (?:\w+ )*function\b"
)
"""Lines of a stack, as compiled code and tracebacks in boxes have them, and what a compiler and MPICH show around an
error, and no text."""
_OF_THREAD = re.compile(r"\b(Current thread|Thread 0x|Extension modules)")
"""Heads of the parts of what faulthandler writes."""
_INNERMOST = 3
"""Calls of a thread that crashed below which a file is no more where it did."""
_RULE = re.compile(r"(?<!-)-{74}$")
"""The line above and below each message of Open MPI and PRRTE (opal/util/show_help.c)."""
_SENTENCE = re.compile(r"^(?:\[\S+\](?:<std(?:err|out)>)?:?\s*)?([A-Z]\w*(?: \S+){3,})")
_ASIDE_OF_MPI = re.compile(
    r"(?i:warning|performance|by default|ignored|deprecated|turn off|OpenFabrics|will (?:continue|be disabled|attempt))"
)
"""Words of such messages after which the job continues."""
_LEAST_OF_PEERS = 5
"""The grade from which a consequence only ends a process together with others."""
_SUMMARY = re.compile(
    r"(?i:\bnon-?zero (?:exit|return|status)|\bexit(?:ed|s|ing)?\b.{0,20}\b(?:code|status|rc)\b|\bcontainer failed\b|\(rc=\d+\)"
    r"|\bfailed \(exitcode\b|[Bb]acktrace for this error"
    r"|flux-shell(?:\[\d+\])?: |\bjob\.exception\b)"
    r"|^(?:srun|slurmstepd[\w.-]*): (?:(?!error:|fatal:)|.*\*\*\* (?:STEP|JOB) )"
)
"""Messages that only say that a process ended, and those of Slurm without a mark of an error (src/api/step_launch.c)."""
_AFTER_A_MESSAGE = frozenset(("abort", "mpi-abort", "mpi-ended", "terminated", "launcher"))
"""Consequences of an end of which the program mostly says the reason before."""


def verdict(lines: Sequence[str], table: Table, log: str) -> Evidence | None:
    """The cause at the end of one log, of this name: a known error, else an exception, else a consequence; None without any.

    The last block of errors counts, since a program continues after earlier ones; in it the earliest, since later ones follow
    from it; of consequences the earliest with the least grade. `passing` errors count only in an exception or if none follows.
    """
    whole = [*map(plain, lines)]
    bare = prefixes.stripped(whole)
    lines = steps.without_ends(levels.stripped(bare))
    evidence = _of_one(lines, table, log)
    if evidence is None and len(lines) <= _PROGRESS:  # a few errors alone, which have their level rightly
        evidence = _of_one(steps.without_ends(bare), table, log)
    if evidence is not None:
        evidence = attempts.first_cause(evidence, lines, partial(_of_one, table=table, log=log), grade)
    return evidence and prefixes.restored(evidence, whole)


def _of_one(lines: Sequence[str], table: Table, log: str) -> Evidence | None:
    """The same, whatever the number of attempts in the log."""
    whole, all_of_it = lines, _without_code(lines)
    lines = _without_asides(all_of_it)
    evidence = _found(lines, table, log)
    if evidence is None and len(lines) < len(all_of_it):
        lines = all_of_it
        evidence = _found(lines, table, log)
    if evidence is None:
        return None
    if evidence.pattern.cause == EXCEPTION.cause:
        evidence = reported.raised(evidence, lines, whole)
        if (match := table.match(reported.asserted(evidence))) is not None:
            evidence = _evidence(log, evidence.line, match)
    else:
        evidence = reported.explained(reported.completed(evidence, lines), lines, _WRAPPER.search)
        evidence = barriers.counted(evidence, lines, reported.index(evidence.line, lines))
    evidence = reported.of_user_site(evidence, lines)
    match = below(evidence.line, partial(_calls_of, evidence.line, lines, whole))
    if match is None:
        return evidence
    by_calls = _evidence(log, evidence.line, match)
    if not match.pattern.consequence or evidence.pattern.consequence:
        return by_calls
    other = _found([line for line in lines if line.strip() != evidence.line], table, log)
    return by_calls if other is None else min(by_calls, other, key=grade)


def _calls_of(line: str, lines: Sequence[str], whole: Sequence[str]) -> str:
    """The calls of the traceback that ends with a line, and where a process crashed its innermost ones; then the source code of
    the innermost one. whole: the lines with code."""
    at = reported.index(line, lines)
    above = itertools.takewhile(reported.CALL.match, reversed(lines[max(0, at - _BLOCK) : at]))
    crashed = _crashed(lines) if "us error" in line else ()
    return "\n".join((*above, *crashed, reported.innermost(line, whole)))


def _crashed(lines: Sequence[str]) -> Iterator[str]:
    """The calls and the files of compiled code in which a Python process crashed, as faulthandler writes them below its error
    (https://docs.python.org/3/library/faulthandler.html): of the thread that crashed, wherever it is among the others."""
    at = next((at for at in range(len(lines))[::-1] if "Fatal Python error: " in lines[at]), len(lines))
    within, calls = False, 0
    for line in lines[at + 1 : at + 1 + _BLOCK]:
        if (head := _OF_THREAD.search(line)) is not None:
            within = head[1] == "Current thread"
        elif within and reported.CALL.match(line):
            calls += 1
            if calls <= _INNERMOST:
                yield line
        elif within and 'Binary file "' in line:
            yield line


def _found(lines: Sequence[str], table: Table, log: str) -> Evidence | None:
    """What `verdict` finds in lines without code and asides, by the line alone."""
    exception: Evidence | None = None
    consequence: Evidence | None = None
    after = distance = ordinary = calm = raised = 0
    chained = within = False
    printed: deque[str] = deque(maxlen=_AFTER)
    done = progress.Steps()
    # From the end: the first match is the last message, and mostly few lines are read.
    before = reversed(lines)
    for line in before:
        distance += 1
        within ^= _RULE.search(line) is not None
        if _CHAINED.match(line):
            chained = True
            continue
        error = reported.exception(line, lines[-distance - 1] if distance < len(lines) else "")
        match = table.match(line)
        if match is None and error is None:
            ordinary += not _is_about_an_error(line)
            if done.are_many(line) or ordinary > (_PROGRESS if exception is not None else _WORK):
                break
        ended = error is not None and not chained and not _continues(line, printed)
        calm += error is None and is_harmless(line)
        printed.append(line)
        if match and match.pattern.consequence:
            evidence = _evidence(log, line, match)
            near = consequence is not None and distance - after <= _NEAR
            if consequence is None or (
                near and (grade(evidence) <= grade(consequence) or consequence.pattern.cause == "abort")
            ):
                consequence, after, ordinary = evidence, distance, 0
        elif match and _was_survived(line, printed, done, exception or consequence):
            continue
        elif match and (
            not match.pattern.passing
            or (exception is None and ordinary <= _PROGRESS)
            or (error and chained)
            or (ended and ((not ordinary and calm <= _AFTER) or match.pattern.cause in _SEVERE))
            or line.endswith("raised:")
        ):
            least: Collection[str] | None = _SEVERE if error and match.pattern.cause in _SEVERE else None
            if _OF_THE_KERNEL.search(line):
                least = (match.pattern.cause,)
            return _earliest(before, table, log, least, within=within) or _evidence(log, line, match)
        elif (
            error
            and not (match or _WRAPPER.search(error[0]))
            and (
                exception is None
                or (ended and not ordinary and calm <= _AFTER)
                or (ended and ordinary <= _PROGRESS and grade(exception) == 2)
            )
        ):
            if exception is None and consequence is not None and distance - after > _NEAR:
                return consequence
            exception, raised = _evidence(log, line, Match(EXCEPTION, _values(error))), distance
            ordinary = calm = 0
        if error:
            chained = False
    if exception is not None:
        # A process that crashed before a peer was lost is why; one that was ended is not.
        crashed = consequence is not None and after > raised and grade(consequence) < _LEAST_OF_PEERS
        return consequence if crashed and grade(exception) == 2 else exception
    end = lines[-_BLOCK:]
    passes = partial(_is_no_cause, table)
    if consequence is not None and consequence.pattern.cause not in _AFTER_A_MESSAGE:
        return _marked_before(consequence, end, passes) or consequence
    framed = None if consequence else _framed(end, log)
    return framed or reported.marked(end, log, passes, _is_about_an_error) or consequence


def _marked_before(lost: Evidence, lines: Sequence[str], passes: Callable[[str], bool]) -> Evidence | None:
    """What a log marks as an error before a Python program lost a peer, such as the process that it fed; None without it."""
    if lost.pattern.cause != "peer-lost" or not LOST.search(lost.line):
        return None
    before = itertools.takewhile(lambda line: line.strip() != lost.line, lines)
    others = [line for line in before if not line.startswith("Exception in thread")]  # its own
    return reported.marked(others, lost.log, passes, _is_about_an_error, surely=True)


def _is_no_cause(table: Table, line: str) -> bool:
    """Whether a line that is marked as an error is known not to be the cause, or known otherwise."""
    no_cause = _WRAPPER.search(line) or _RECOVERED.search(line) or _SUMMARY.search(line)
    no_cause = no_cause or _ASIDE_OF_MPI.search(line)
    return bool(no_cause or is_harmless(line) or table.match(line))


def _continues(line: str, printed: Iterable[str]) -> bool:
    """Whether a program says in an error, or in the lines after it, that it continues."""
    return any(map(_RECOVERED.search, (line, *printed)))


def _was_survived(line: str, printed: Iterable[str], done: progress.Steps, end: Evidence | None) -> bool:
    """Whether a program has certainly continued after an error, up to another end: by a step, by its words, or by both where what
    it ended of may follow from the error in another process."""
    if end is None or end.line == line:
        return False
    if done.seen and _OF_A_SHELL.match(line):
        return True
    by_itself = end.pattern.cause in _BY_ITSELF and grade(end) <= 2 and not LOST.search(end.line)
    return (done.seen or _continues(line, printed)) if by_itself else done.seen and _continues(line, printed)


def _framed(lines: Sequence[str], log: str) -> Evidence | None:
    """The earliest of the messages between rules with which a log ends, as Open MPI writes them; None without one."""
    evidence: Evidence | None = None
    rules = [number for number, line in enumerate(lines) if _RULE.search(line.rstrip())]
    last = len(lines)
    for start, end in zip(rules[-2::-1], rules[:0:-1], strict=True):
        if last - end > _PROGRESS:
            break
        text = [line for line in lines[start + 1 : end] if line.strip()]
        if text:
            last = start
            sentence = _SENTENCE.match(text[0])
            if sentence and not any(map(_ASIDE_OF_MPI.search, text)):
                evidence = _evidence(log, text[0], Match(FRAMED, _values(sentence)))
    return evidence


def _without_code(lines: Sequence[str]) -> list[str]:
    """Lines without those of source code in tracebacks, which have the words of every error that they may raise."""
    return [
        line
        for line, before in zip(lines, ("", *lines), strict=False)
        if reported.RAISED.match(line) or not (_is_code(line, before) or _MARKS.match(line))
    ]


def _is_code(line: str, before: str) -> bool:
    """Whether a line is the source code of a call in the line before it; some logs lose the indentation of both."""
    at = reported.CALL.match(before)
    if at is None or '.c", line ' in before:  # HDF5 has its message there
        return False
    bare = _BARE.fullmatch(at[1]) and _CALLER.search(before)
    if bare and not reported.CALL.match(line) and not reported.exception(line, before):
        return line.startswith(at[1]) and line != at[1]
    return line.startswith(f"{at[1]}  ")


def _without_asides(lines: Sequence[str]) -> Sequence[str]:
    """Lines without the exceptions that Python only mentions."""
    if not any(
        "xception ignored " in line or "exitfuncs:" in line or "Logging error" in line for line in lines
    ):
        return lines
    kept: list[str] = []
    aside = False
    for line in lines:
        if _ASIDE.match(line):
            aside = True
        elif not aside:
            kept.append(line)
        elif reported.RAISED.match(line):
            aside = False
    return kept


def _earliest(
    before: Iterable[str], table: Table, log: str, least: Collection[str] | None, *, within: bool
) -> Evidence | None:
    """The earliest cause among the lines before an error (backwards) that belong to the same block; None without one.

    An exception of a severe cause belongs to it, too, though the program printed something before its clean-up failed.
    least: the causes that count; None: all. within: whether the error is within a message between rules, of which no line is
    ordinary output.
    """
    evidence: Evidence | None = None
    ordinary = 0
    done = progress.Steps()
    printed: deque[str] = deque(maxlen=_AFTER)
    for number, line in enumerate(before):
        match = table.match(line)
        within ^= _RULE.search(line) is not None
        if match and not match.pattern.consequence:
            cause = match.pattern.cause
            severe = cause in _SEVERE and not (done.seen or _continues(line, printed))
            raised = severe and (reported.RAISED.match(line) or not ordinary)
            if (raised or not (match.pattern.passing or ordinary)) and (least is None or cause in least):
                evidence = _evidence(log, line, match)
        elif not (match or within or _is_about_an_error(line)):
            ordinary += 1
        printed.append(line)
        if number > _BLOCK or ordinary > _PROGRESS or (match is None and done.are_many(line)):
            break
    return evidence


def _is_about_an_error(line: str) -> bool:
    """Whether a line belongs to a block of errors, or is of a library or of a level that may stand within one."""
    match = _ABOUT_AN_ERROR.search(line) or _FRAME.search(line)
    return match is not None or is_harmless(line) or is_claimed(line)


def _evidence(log: str, line: str, match: Match) -> Evidence:
    return Evidence(log=log, line=line.strip(), pattern=match.pattern, values=match.values)


def _values(match: re.Match[str]) -> tuple[str, ...]:
    return tuple(v.strip() for v in match.groups() if v and v.strip())


def plain(line: str) -> str:
    """A line without control characters, cut in the middle beyond `_LONGEST` characters."""
    if len(line) > _LONGEST:
        line = line[: _LONGEST // 2] + line[-_LONGEST // 2 :]
    return _CONTROL.sub("", line)
