"""Conversion of the commands of a batch script to keys of a spec and lines of `environment.setup`."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import replace

from dlrun.config.batch_script import constants, launch
from dlrun.config.batch_script.draft import SpecDraft
from dlrun.config.batch_script.launch import DECIDED, RENDEZVOUS_VARIABLES
from dlrun.config.batch_script.shell import Command, names_used

_PRINTS = {"echo", "printf", "date", "hostname", "pwd", "nvidia-smi", "rocm-smi", "env", "printenv", "lscpu", "which", "ls",
           "scontrol", "cat", "squeue", "qstat", "flux", "sacct", "free", "df"}  # fmt: skip
_SUBMIT_DIRECTORY = re.compile(r"\"?\$\{?(?:SLURM_SUBMIT_DIR|PBS_O_WORKDIR|SGE_O_WORKDIR)\}?\"?")
_EXPORT = re.compile(r"export\s+([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=(.*)", re.DOTALL)
_STARTS = re.compile(
    r"\b(?:srun|mpirun|mpiexec|ibrun|torchrun|deepspeed|accelerate\s+launch|horovodrun|python[\d.]*)\s"
)
_NOT_CONVERTED = "dlrun runs nothing after the training"


def take(found: list[Command], draft: SpecDraft) -> None:
    """Turn the commands of a script's body into the spec."""
    values = constants.known(found, draft.counts)
    found = [c if c.block else _with_numbers(c, values) for c in found]
    chosen = _training(found)
    before = found if chosen is None else [c for c in found if c.line < chosen.line]
    body = _Preamble(draft)
    for command in before:
        body.take(command)
    stripped = None if chosen is None else _stripped(chosen, draft)
    body.finish(set() if stripped is None else _read_by(stripped))
    if chosen is None or stripped is None:
        draft.loop = next((c.line for c in found if c.block and _STARTS.search(c.text)), None)
        return
    for command in found:
        if command.line > chosen.line:
            words = _words(command)
            is_second = words is not None and launch.is_launch(words)
            prints = words is not None and words[0] in _PRINTS | {"wait", "exit", "fi", "done"}
            if not prints:
                why = (
                    "a second launch: write a separate spec for it, with `after:`"
                    if is_second
                    else _NOT_CONVERTED
                )
                draft.leave(command.line, command.text, why)
    _launch(chosen, stripped, draft)


def _with_numbers(command: Command, values: Mapping[str, str]) -> Command:
    """A launch line with known variables substituted; any other command unchanged."""
    text = constants.expanded(command.text, values)
    split = launch.words_of(text) if text != command.text else None
    return (
        replace(command, text=text)
        if split is not None and split[0] and launch.is_launch(split[0])
        else command
    )


def _words(command: Command) -> list[str] | None:
    """Words of a command without leading assignments; None for a block or text that cannot be split."""
    split = None if command.block else launch.words_of(command.text)
    if split is None:
        return None
    words = split[0]
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        words = words[1:]
    return words or None


def _training(found: list[Command]) -> Command | None:
    """The line that starts the training: one with a launcher if there is any; among several, one with an agent or Python."""
    simple = [(c, words) for c in found if (words := _words(c)) is not None]
    launched = [(c, words) for c, words in simple if launch.is_launch(words)]
    candidates = launched or [(c, words) for c, words in simple if launch.is_program(words)]
    python = [c for c, words in candidates if any(re.fullmatch(r"python[\d.]*|.*\.py", w) for w in words)]
    agents = [
        c
        for c, words in candidates
        if any(launch.program(w) in {"torchrun", "deepspeed", "accelerate"} for w in words)
    ]
    # A script may start several programs; the training is most likely the one with an agent, else in Python.
    chosen = agents or python or [c for c, _ in candidates]
    return chosen[0] if chosen else None


class _Preamble:
    """Commands before the training. A job applies keys in a fixed order (modules, conda, venv, setup lines, variables): a line
    that does not fit into this order, and later lines that depend on it, become setup lines."""

    def __init__(self, draft: SpecDraft) -> None:
        self.draft = draft
        self.lines: list[Command] = []
        self.exports: list[tuple[Command, str, str]] = []

    def take(self, command: Command) -> None:
        """Convert one command."""
        words = None if command.block else _split(command.text)
        if not words:
            self.lines.append(command)
        elif words[0] == "set" and len(words) > 1 and words[1][:1] in "-+":
            self.draft.leave(command.line, command.text, "the job script sets its own shell options")
        elif words[0] == "cd" and len(words) == 2:
            self._cd(command, words[1])
        elif words[0] in {"module", "ml"}:
            self._module(command, words)
        elif words[0] in {"source", "."} and len(words) == 2 and words[1].endswith("/bin/activate"):
            self._activate(command, "venv", words[1].removesuffix("/bin/activate"))
        elif (
            words[:2] in (["conda", "activate"], ["source", "activate"], ["mamba", "activate"])
            and len(words) == 3
        ):
            self._activate(command, "conda", words[2])
        elif words[0] == "eval" and "conda" in command.text:
            pass  # the job itself initialises conda for `environment.conda`
        elif match := _EXPORT.fullmatch(command.text):
            self._export(command, match[1], match[2])
        elif words[0] in _PRINTS:
            self.draft.leave(command.line, command.text, "it only prints")
        elif (match := _ASSIGN.fullmatch(command.text)) and match[1] in RENDEZVOUS_VARIABLES | DECIDED:
            self._export(command, match[1], match[2])
        else:
            self.lines.append(command)

    def _cd(self, command: Command, to: str) -> None:
        if _SUBMIT_DIRECTORY.fullmatch(to):
            return  # the default of `directory`
        if "$" in to.replace("$HOME", "") or "`" in to:
            self.lines.append(command)
        else:
            self.draft.put("directory", to.replace("${HOME}", "~").replace("$HOME", "~"))

    def _module(self, command: Command, words: list[str]) -> None:
        if (
            words[1:] in (["purge"], ["reset"])
            and not self.lines
            and not self.draft.get("environment.modules")
        ):
            because = "`environment.hygiene` of the site profile sets what happens to modules that are already loaded"
            self.draft.leave(command.line, command.text, because)
            return
        names = words[2:] if words[1:2] in (["load"], ["add"]) else words[1:] if words[0] == "ml" else []
        plain = bool(names) and not any(n.startswith("-") or "$" in n for n in names)
        if (
            plain
            and not self.lines
            and names[0] not in {"purge", "use", "reset", "restore", "swap", "unload"}
        ):
            self.draft.add("environment.modules", *names)
        else:
            self.lines.append(command)

    def _activate(self, command: Command, kind: str, what: str) -> None:
        path = what.replace("${HOME}", "~").replace("$HOME", "~")
        taken = self.draft.get("environment.conda") or self.draft.get("environment.venv")
        if "$" in path or taken or any(not _ASSIGN.fullmatch(c.text) for c in self.lines):
            self.lines.append(command)
        else:
            self.draft.put(f"environment.{kind}", path)

    def _export(self, command: Command, name: str, value: str) -> None:
        if name in RENDEZVOUS_VARIABLES:
            self.draft.leave(command.line, command.text, "dlrun sets it for each rank")
        elif name in DECIDED:
            self.draft.leave(command.line, command.text, "dlrun derives it from the placement of the ranks")
        else:
            self.exports.append((command, name, value))
            self.lines.append(command)

    def finish(self, used_by_command: set[str]) -> None:
        """Write the remaining lines as setup lines; variables read only by the training become spec variables."""
        lines = self.lines
        while True:
            # Repeated, because a line that is left out may have been the only one to use another variable.
            read = used_by_command.union(*(names_used(c.text) for c in lines)) if lines else used_by_command
            unread = [c for c in lines if (m := _ASSIGN.fullmatch(c.text)) and m[1] not in read]
            if not unread:
                break
            for command in unread:
                self.draft.leave(
                    command.line,
                    command.text,
                    "its value is already in the command, or only lines that dlrun replaces need it",
                )
            lines = [c for c in lines if c not in unread]
        for command, name, value in self.exports:
            others = set().union(*(names_used(c.text) for c in lines if c is not command)) if lines else set()
            literal = _literal(value)
            if literal is not None and name not in others | used_by_command:
                self.draft.put(f"environment.variables.{name}", literal)
                lines = [c for c in lines if c is not command]
        if lines:
            self.draft.add("environment.setup", *(_for_ranks(c.text, used_by_command) for c in lines))


def _for_ranks(text: str, used: set[str]) -> str:
    """A setup line; an assignment read by the training is exported, because ranks are other processes."""
    match = _ASSIGN.fullmatch(text)
    return f"export {text}" if match and match[1] in used and "[" not in text.partition("=")[0] else text


def _split(text: str) -> list[str] | None:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return None


def _literal(value: str) -> str | None:
    """The text of a value without shell expansions; None for any other value."""
    if "$" in value or "`" in value:
        return None
    words = _split(value)
    return (
        (words[0] if words else "")
        if words is not None and len(words) <= 1 and not value.startswith("~")
        else None
    )


def _stripped(chosen: Command, draft: SpecDraft) -> launch.Launch:
    """The training command without launchers; their numbers and leading assignments go to the draft."""
    split = launch.words_of(chosen.text)
    assert split is not None  # noqa: S101 - it was split to be chosen
    words = split[0]
    while words and (match := re.fullmatch(r"([A-Za-z_]\w*)=(.*)", words[0])):
        if match[1] not in RENDEZVOUS_VARIABLES | DECIDED:
            draft.put(f"environment.variables.{match[1]}", match[2])
        words = words[1:]
    return launch.strip(words, chosen.text, draft)


def _read_by(found: launch.Launch) -> set[str]:
    """Names of the variables that the training reads."""
    texts = (
        *found.command,
        found.text or "",
        *found.agent_arguments,
        *map(str, (found.container or {}).values()),
    )
    return set().union(*map(names_used, texts))


def _launch(chosen: Command, found: launch.Launch, draft: SpecDraft) -> None:
    split = launch.words_of(chosen.text)
    behind = split[1] if split is not None else []
    if found.container and "image" in found.container:
        draft.put("environment.container", dict(found.container))
    for option, why in found.left:
        draft.leave(chosen.line, option, why)
    if behind:
        after = "".join(chosen.text.partition(behind[0])[1:]) or " ".join(behind)
        output = behind[0] in {"|", "|&", "&>", "&>>", ">&"} or behind[0][0] in "12>"
        why = "each rank's output is in its own log: `dlrun logs`" if output else _NOT_CONVERTED
        draft.leave(chosen.line, after, why)
    command = found.command
    if found.text is not None:
        draft.put("run", textwrap.dedent(found.text).strip() + "\n")
    elif names := sorted(set().union(*map(names_used, command)) if command else ()):
        draft.put(
            "run",
            _shell(command, chosen.text),
            f"bash expands {', '.join(f'${name}' for name in names)} on the node",
        )
    else:
        draft.put("command", list(command))
    draft.put("framework", *_framework(found, draft))
    if found.framework and found.agent_arguments:
        draft.put(f"{found.framework}.agent", True, "the framework's own launcher gets the options below")
        draft.put(f"{found.framework}.agent_arguments", list(found.agent_arguments))


def _shell(words: tuple[str, ...], source: str) -> str:
    """Words as shell text with the same expansions and word splitting as in the script."""
    return " ".join(_shell_word(word, source) for word in words)


def _shell_word(word: str, source: str) -> str:
    if "$" not in word or f"'{word}'" in source:
        return shlex.quote(word)
    whole = f'"{word}"' in source or re.search(r"[^\w$%+,./:=@{}^-]", word)
    return '"' + re.sub(r'(["`])', r"\\\1", word) + '"' if whole else word


_NAMED = {
    "horovod": r"horovod", "deepspeed": r"deepspeed", "lightning": r"lightning|torch-pl",
    "tensorflow": r"tensorflow|\btf\d?[-_\d]", "torch": r"torch",
}  # fmt: skip
"""Framework -> pattern of its name in modules, environments and commands."""


def _framework(found: launch.Launch, draft: SpecDraft) -> tuple[str, str]:
    """The framework of the spec, and the evidence for it."""
    if found.framework:
        return found.framework, f"the batch script starts it with {found.launchers[-1]}"
    sets_address = any("MASTER_ADDR" in left.text for left in draft.left_out)
    words = [*found.command, found.text or "", *map(str, draft.get("environment.modules") or ())]
    words += [str(draft.get(f"environment.{key}") or "") for key in ("conda", "venv", "container")]
    words += draft.get("environment.setup") or ()
    everything = " ".join(words).lower()
    named = next((name for name, pattern in _NAMED.items() if re.search(pattern, everything)), None)
    if named == "horovod":
        return named, "the batch script names it"
    if sets_address:
        return "torch", "the batch script sets MASTER_ADDR"
    if named:
        return named, "check this: the batch script names it; `mpi` for a program that uses MPI itself"
    python = any(re.search(r"\bpython[\d.]*\b", word) for word in (*found.command, found.text or ""))
    gpus = any(name.startswith("gpus") for name in draft.counts)
    if python and (not found.launchers or (gpus and found.launchers in (("srun",), ("flux",)))):
        return "torch", "check this: `mpi` for a program that uses MPI itself"
    return (
        "mpi",
        "check this: `torch`, `horovod` … for a program that uses a framework (`dlrun schema spec` lists them)",
    )
