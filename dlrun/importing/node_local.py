"""Copies to node-local storage before the training become `data`, copies of its results back `results`.

All copies of a script are converted, or none: afterwards nothing of the job reads the script's own directories. The words of
the command name them by `{{ data.NAME }}` and `{{ results }}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dlrun.importing.commands import ends, harmless, prints
from dlrun.importing.directives import SUBMIT_DIRECTORIES
from dlrun.importing.launch import decompose
from dlrun.importing.options import name_set
from dlrun.importing.options.archives import unpacking
from dlrun.importing.program import movable
from dlrun.importing.statement import Form, Statement
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values
from dlrun.importing.words import Kind, Segment, Word, text_word
from dlrun.schedulers.draft import SpecDraft

NAMES = name_set("TMPDIR SLURM_TMPDIR LOCAL_SCRATCH PBS_JOBFS LOCALSCRATCH SGE_LOCALDIR TMP")
"""Variables with a directory of the node."""
_LOCAL = re.compile(rf"\$\{{(?:{'|'.join(sorted(NAMES))})\}}(?:/|$)")
_OPTIONS = {
    "cp": re.compile(r"-[rRavpf]+|--recursive|--archive|--verbose"),
    "rsync": re.compile(r"-[arvhPtlpz]+|--archive|--recursive|--verbose|--progress|--human-readable|--info=\w+"),
    "mkdir": re.compile(r"-p|-pv|-vp|--parents"),
    "rm": re.compile(r"-[rfv]+"),
}  # fmt: skip
"""Program -> its options that do not change what is copied where."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path of the script. `text`: with `${NAME}` for variables; `inside`: the content of the directory is meant."""

    text: str
    inside: bool = False

    @property
    def local(self) -> bool:
        """True if it is on node-local storage."""
        return _LOCAL.match(self.text) is not None

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rpartition("/")[2]

    @property
    def shared(self) -> str | None:
        """The path as a spec names it on the shared file system; None if it has a variable that a spec does not know there."""
        text = re.sub(r"^\$\{HOME\}(?=/|$)", "~", self.text)
        text = re.sub(rf"^\$\{{(?:{'|'.join(SUBMIT_DIRECTORIES)})\}}(?:/|$)", "", text) or "."
        return None if "$" in text or re.search(r"[*?\[{]", text) or re.match(r"~[^/]", text) else text


@dataclass(frozen=True, slots=True)
class Copied:
    """A data set: name, source, the statement that copies it, and whether that unpacks it."""

    name: str
    source: str
    statement: Statement
    unpack: bool = False


@dataclass(slots=True)
class Copies:
    """What the copies of a script are in a spec."""

    data: dict[str, Copied] = field(default_factory=dict)
    """Local path -> the data set that is there."""
    results: tuple[str, str, Statement] | None = None
    """Local path, directory on the shared file system, and the statement that copies."""
    uncertain: str = ""
    """What the user has to check about the results."""
    made: list[Statement] = field(default_factory=list)
    """All statements that the spec replaces."""
    variables: dict[str, str] = field(default_factory=dict)
    """Exported name -> a path on the node, as it is in the spec."""
    folders: set[str] = field(default_factory=set)
    """Directories that exist, by the script."""
    directories: list[tuple[Statement, list[Path]]] = field(default_factory=list)
    """Statements that make directories on the node, and these."""
    words: tuple[Word, ...] = ()
    """The words of the command, which name the paths as the spec does."""

    def marked(self, word: Word) -> Word:
        """The word with `{{ data.NAME }}` or `{{ results }}` in place of a local path."""
        text, replaced = _text(word.segments), []
        places = {path: f"{{{{data.{copied.name}}}}}" for path, copied in self.data.items()}
        if self.results is not None:
            places[self.results[0]] = "{{results}}"
        for path in sorted(places, key=len, reverse=True):
            at = text.find(path)
            if at >= 0 and re.match(r"/|$|[\s:,;]", text[at + len(path) :]):
                replaced = [text[:at], places[path], text[at + len(path) :]]
                break
        if not replaced or "$" in replaced[0] + replaced[2]:
            return word
        joined = "".join(replaced)
        return Word((Segment(Kind.TEXT, joined, True, f"'{joined}'"),))


def converted(
    draft: SpecDraft,
    before: Sequence[Statement],
    after: Sequence[Statement],
    words: Sequence[Word],
    start: Values,
    values: Values,
) -> Copies | None:
    """The copies and the command with them, if all of the script's can be converted; None if it has none, or one cannot."""
    copies, here = Copies(), start.copy()
    for statement in before:
        for part in _parts(statement):
            _to_node(part, here, copies, draft)
            _trap(part, here, copies)
        here.take(statement)
    for statement in after:
        if all(_back(part, here, copies) for part in _parts(statement)):
            copies.made.append(statement)
        elif not ends(statement):
            return None
    if not copies.data and copies.results is None:
        return None
    # dlrun makes these directories, and those above them.
    places = [*copies.data, *([copies.results[0]] if copies.results else [])]
    copies.made += [
        statement
        for statement, paths in copies.directories
        if all(any(f"{place}/".startswith(f"{p.text}/") for place in places) for p in paths)
    ]
    copies.made += [s for s in before if s.form is Form.CHAIN and all(p in copies.made for p in _parts(s))]
    known = [values.words(word) for word in words]
    if any(k is None for k in known):
        return None
    marked = tuple(copies.marked(word) for k in known for word in k or ())
    text = " ".join(_text(word.segments) for word in marked)
    used = [f"data.{copied.name}" for copied in copies.data.values()] + (
        ["results"] if copies.results else []
    )
    left = [s for s in before if s not in copies.made]
    if _moves(draft, left) and any(not path.startswith(("/", "~")) for path in _shared(copies)):
        return None
    if not _exports(left, values, copies) or not all(
        f"{{{{{name}}}}}" in text + " ".join(copies.variables.values()) for name in used
    ):
        return None
    if _LOCAL_NAME.search(text) or _read_elsewhere(left) or not movable(marked, values):
        return None
    assignments = tuple(text_word(f"{name}={value}") for name, value in copies.variables.items())
    # A spec's variables are set before the paths of its data are known: the command sets these.
    copies.words = (text_word("env"), *assignments, *marked) if assignments else marked
    return copies


_LOCAL_NAME = re.compile(rf"\$\{{?(?:{'|'.join(sorted(NAMES))})\b")


def _shared(copies: Copies) -> list[str]:
    """The paths on the shared file system."""
    return [copied.source for copied in copies.data.values()] + (
        [copies.results[1]] if copies.results else []
    )


def _moves(draft: SpecDraft, left: Iterable[Statement]) -> bool:
    """True if relative paths of the script may not start where those of a spec do, at the directory of the submission."""
    parts = [part for statement in left for part in statement.all()]
    submit = [
        p
        for p in parts
        if p.program == "cd" and len(p.words) == 2 and not p.words[1].names.isdisjoint(SUBMIT_DIRECTORIES)
    ]
    elsewhere = any(part.program in {"cd", "pushd"} and part not in submit for part in parts)
    return elsewhere or not (draft.starts_in_submit_directory or submit)


def _parts(statement: Statement) -> Iterator[Statement]:
    """The commands of `A && B`, else the statement."""
    if statement.form is Form.CHAIN and statement.operator == "&&":
        for part in statement.parts:
            yield from _parts(part)
    else:
        yield statement


class _Command(NamedTuple):
    """A program and the paths that are its arguments."""

    program: str
    paths: list[Path]


def _command(statement: Statement, values: Values) -> _Command | None:
    """A plain command, also one that srun starts once on each node; None if it is another, or has no paths alone."""
    if (
        statement.form is not Form.COMMAND or statement.background or statement.assignments or not statement.words
        or not all(map(harmless, statement.redirections))
    ):  # fmt: skip
        return None
    words, nodes = statement.words, values.counts.get("nodes")
    if statement.program == "srun":
        launch = decompose(statement.line, words, values)
        each = launch.counts.get("tasks_per_node") == 1 and launch.counts.get("tasks", nodes) == nodes
        if launch.checks or not launch.words or not each or launch.counts.get("nodes", nodes) != nodes:
            return None
        words = launch.words
    elif nodes != 1:
        return None  # the script's own shell copies on the first node only
    unpacked = unpacking(words)
    if unpacked is not None:
        named = [unpacked.archive, unpacked.directory]
    else:
        options = _OPTIONS.get(words[0].literal or "")
        flags = [w for w in words[1:] if w.lead.startswith("-")]
        if options is None or not all(options.fullmatch(w.literal or "") for w in flags):
            return None
        named = [w for w in words[1:] if not w.lead.startswith("-")]
    paths = [path for word in named if (path := _path(word, values)) is not None]
    return _Command(words[0].literal or "", paths) if paths and len(paths) == len(named) else None


def _to_node(statement: Statement, values: Values, copies: Copies, draft: SpecDraft) -> None:
    """Note a copy to node-local storage, or a directory that is made there."""
    command = _command(statement, values)
    if command is None:
        return
    program, known = command.program, command.paths
    if program == "mkdir":
        copies.folders |= {p.text for p in known}
        copies.directories.append((statement, known))
    elif program in {"cp", "rsync"} and len(known) == 2 and known[1].local and not known[0].local:
        source, target = known
        place = _placed(program, source, target, copies.folders) or target.text
        _note(Copied(_name_of(source), source.shared or "", statement), place, copies, draft)
    elif program in {"tar", "unzip"} and known[1].local and not known[0].local:
        source, target = known
        above = target.text.rpartition("/")[0] if program == "unzip" else target.text
        # Without the directory `tar` fails, and the script trains without data.
        if any(path in copies.folders or _LOCAL.fullmatch(path) for path in (target.text, above)):
            _note(Copied(_name_of(source), source.shared or "", statement, True), target.text, copies, draft)


def _name_of(source: Path) -> str:
    name = re.sub(r"\W+", "_", source.name.partition(".")[0]).strip("_").lower() or "data"
    return name if name[0].isalpha() else f"data_{name}"


def _note(copied: Copied, place: str, copies: Copies, draft: SpecDraft) -> None:
    """Note a data set at its place, unless a spec cannot have it."""
    nested = any(f"{place}/".startswith(f"{p}/") or f"{p}/".startswith(f"{place}/") for p in copies.data)
    taken = {other.name for other in copies.data.values()}
    if not copied.source or nested or copied.name in taken or draft.get("directory"):
        return
    copies.data[place] = copied
    copies.made.append(copied.statement)


def _placed(program: str, source: Path, target: Path, folders: set[str]) -> str | None:
    """Where a copy lies: the target, or below it; None if that depends on whether the target exists."""
    if source.inside and (program == "rsync" or target.text in folders or target.inside):
        return target.text
    if target.inside or program == "rsync" or target.text in folders or _LOCAL.fullmatch(target.text):
        return f"{target.text}/{source.name}"
    return None


def _trap(statement: Statement, values: Values, copies: Copies) -> None:
    """`trap 'cp -r $TMPDIR/out ~/x' EXIT`."""
    if statement.program != "trap" or len(statement.words) < 3:
        return
    signals = {w.literal for w in statement.words[2:]}
    action = values.words(statement.words[1]) if statement.words[1].literal is None else [statement.words[1]]
    if "EXIT" not in signals or not signals <= {"EXIT", "TERM", "INT"} or not action or len(action) != 1:
        return
    inside = statements(_text(action[0].segments), statement.line)
    parts = [part for command in inside for part in _parts(command)]
    if parts and all(
        _back(replace(part, line=statement.line), values, copies) or prints(part) for part in parts
    ):
        copies.made.append(statement)


def _back(statement: Statement, values: Values, copies: Copies) -> bool:
    """True if a statement copies results from node-local storage, makes a directory for them, or removes what is local."""
    command = _command(statement, values)
    if command is None:
        return False
    program, known = command.program, command.paths
    if program == "mkdir":
        copies.folders |= {p.text for p in known}
        return True
    if program == "rm":
        return all(p.local for p in known)
    local = len(known) == 2 and known[0].local and not known[1].local
    if program not in {"cp", "rsync"} or not local or copies.results is not None:
        return False
    source, target = known
    exists = copies.folders | {f"${{{name}}}" for name in (*SUBMIT_DIRECTORIES, "HOME")} | {"~", "."}
    place = _placed(program, source, replace(target, inside=False), exists)
    if place is None and source.inside:
        place = target.text
    if place is None:
        place = f"{target.text}/{source.name}" if target.inside else target.text
        copies.uncertain = f"if `{target.text}` exists, the script copies into it, otherwise to this name"
    shared = Path(place).shared
    if shared is None:
        return False
    copies.results = (source.text, shared, statement)
    return True


def _path(word: Word, values: Values) -> Path | None:
    """The path that a word is; `DIRECTORY/*`, `DIRECTORY/.` and `DIRECTORY/` mean what is inside."""
    segments = word.segments
    last = segments[-1] if segments else None
    content = last is not None and last.kind is Kind.TEXT and not last.quoted and last.text.endswith("/*")
    if content and last is not None:
        segments = (*segments[:-1], replace(last, text=last.text[:-1]))
    if word.in_home:
        known: list[Word] | None = [Word(segments)] if all(s.kind is Kind.TEXT for s in segments) else None
    else:
        known = values.words(Word(segments))
    if known is None or len(known) != 1 or any(s.is_pattern for s in known[0].segments):
        return None
    text = re.sub(r"/{2,}", "/", _text(known[0].segments))
    inside = content or text.endswith(("/", "/."))
    return Path(re.sub(r"(?:/\.?)+$", "", text) or text, inside) if text else None


def _text(segments: Iterable[Segment]) -> str:
    return "".join(f"${{{s.text}}}" if s.kind is Kind.NAME else s.text for s in segments)


def _exports(left: list[Statement], values: Values, copies: Copies) -> bool:
    """Note exported names of local paths; False if one cannot be set by the command."""
    for statement in list(left):
        if statement.keyword != "export" or not _LOCAL_NAME.search(statement.source):
            continue
        for assignment in statement.assignments:
            known = values.words(assignment.value) if assignment.value is not None else None
            marked = [copies.marked(word) for word in known or ()]
            if len(marked) != 1 or "$" in _text(marked[0].segments) or len(statement.assignments) != 1:
                return False
            copies.variables[assignment.name] = _text(marked[0].segments)
            copies.made.append(statement)
            left.remove(statement)
    return True


def _read_elsewhere(left: list[Statement]) -> bool:
    """True if what stays of the script may use the local directories."""
    tainted = set(NAMES)
    for statement in left:
        reads = statement.reads & tainted
        if statement.form is Form.ASSIGNMENT and statement.keyword != "export":
            tainted |= {a.name for a in statement.assignments} if reads else set()
        elif (reads and not prints(statement)) or statement.form is Form.FUNCTION:
            return True
    return False


def put(draft: SpecDraft, copies: Copies, *, known: bool) -> None:
    """Write the keys; `known`: the site is, and has node-local storage."""
    for copied in copies.data.values():
        how: dict[str, object] = {"unpack": True} if copied.unpack else {"strategy": "copy"}
        draft.put(f"data.{copied.name}", {"source": copied.source, **how}, _from(copied.statement))
    if copies.results is None:
        return
    _, target, statement = copies.results
    draft.put("results", target, _from(statement))
    if copies.uncertain:
        draft.check(statement.line, statement.source, copies.uncertain, "results")
    if not known:
        because = "`results` needs node-local storage in the site profile: convert with `--site NAME`"
        draft.check(statement.line, statement.source, because, "results")


def _from(statement: Statement) -> str:
    return f"in place of line {statement.line}: {' '.join(statement.source.split())}"
