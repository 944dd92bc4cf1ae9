"""Frameworks' own launchers in a launch line: torchrun, deepspeed, horovodrun, and what they start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from dlrun.importing.directives import VARIABLES
from dlrun.importing.options import Option, launchers as known, read
from dlrun.importing.statement import Form
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import Kind, Word, program, text_word

BY_DLRUN = "dlrun itself starts and places ranks"
IN_LOG = "each rank's output is in its own log: `dlrun logs`"
_PYTHON = re.compile(r"python[\d.]*")


@dataclass(slots=True)
class Agent:
    """A framework's own launcher: it starts `per_node` processes on each node (None: unknown) of `nodes`."""

    program: str
    framework: str
    words: tuple[Word, ...]
    """What each of its processes runs."""
    per_node: int | None = None
    nodes: int | None = None
    total: int | None = None
    open_counts: dict[str, Word] = field(default_factory=dict)
    """Of `per_node`, `nodes` and `total`: those whose numbers are known only when the script runs."""
    convertible: bool = True
    because: str = ""
    """Why it is not convertible."""
    left: list[tuple[str, str]] = field(default_factory=list)
    in_shell: bool = False
    """Its words are text of a `bash -c`, which each process expands itself."""

    def refuse(self, because: str) -> None:
        """Mark the agent as one whose processes dlrun cannot start itself."""
        self.convertible, self.because = False, self.because or because

    def count(self, name: str, option: Option) -> int | None:
        """The number of an option; None, and the word in `open_counts`, if only the script knows it."""
        if option.values and option.values[0].is_expansion:
            self.open_counts[name] = option.values[0]
        text = option.value or ""
        return int(text) if re.fullmatch(r"[1-9]\d{0,6}", text) else None


def read_agent(words: tuple[Word, ...], values: Values) -> Agent | None:
    """The agent that the program is, with or without `uv run` and `bash -c` around it; None if it is another program."""
    prefix: tuple[Word, ...] = ()
    in_shell = False
    if (
        len(words) == 3
        and program(words[0]) in {"bash", "sh"}
        and re.fullmatch(r"-[el]*c", words[1].literal or "")
    ):
        inner = _inner(words[2], values)
        if inner is None:
            return None
        words, in_shell = inner, True
    if (
        len(words) > 2
        and program(words[0]) in known.PREFIXES
        and words[1].literal == "run"
        and not words[2].lead.startswith("-")
    ):
        prefix, words = words[:2], words[2:]
    call = agent_of(words)
    if call is None:
        return None
    name = call.name
    framework, table = known.AGENTS[name]
    agent = Agent(name, framework, words, in_shell=in_shell)
    arguments = read(expanded(call.arguments, values), table)
    unset = any(
        _may_vanish(word, values)
        for o in arguments.options
        for word in o.values
        if "=" not in o.text.split()[0]
    )
    if because := _unread(name, words, arguments.rest, arguments.unknown, unset=unset):
        agent.refuse(because)
        return agent
    legacy = any(w.literal == "torch.distributed.launch" for w in words[:4])
    _READERS[name](agent, arguments.options, arguments.rest, legacy)
    if agent.words and program(agent.words[0]) == "python" and call.python:
        agent.words = (*call.python, *agent.words[1:])
    agent.words = (*prefix, *agent.words)
    if in_shell and any(name in values.unknown for word in agent.words for name in word.names):
        # The text of an unknown value becomes shell text, which may be more than one word.
        agent.refuse("a value in its shell text is known only when the script runs")
    return agent


def _unread(
    name: str, words: tuple[Word, ...], rest: tuple[Word, ...], unknown: str | None, *, unset: bool
) -> str:
    """Why the command of an agent is not understood; empty if it is."""
    if "/" in words[0].lead:
        return f"`{words[0].shell}` belongs to one environment: dlrun would start another Python"
    if unknown is not None:
        return f"`{unknown}` is not an option of {name} that dlrun knows"
    if unset:
        return f"a value of an option of {name} may be unset"
    if not rest:
        return f"no program follows {name}"
    # Without a plain word for the program, more of the agent's options may be in it.
    return (
        f"whether `{rest[0].shell}` is the program or options of {name} is known only when the script runs"
        * (rest[0].literal is None)
    )


def _may_vanish(word: Word, values: Values) -> bool:
    """True if a word is none where its variable is not set, so that the option before it takes the next word."""
    kinds = {(s.kind, s.quoted) for s in word.segments if s.text}
    return kinds == {(Kind.NAME, False)} and not any(
        name in values.unknown or name in values.exported or _SET.fullmatch(name) for name in word.names
    )


_SET = re.compile(VARIABLES + r"|(?:OMPI|PMI)_\w+|HOME|USER|HOSTNAME|RANDOM|NHOSTS|NSLOTS|JOB_ID|PWD")
"""Variables that a job always has, or that the launcher sets."""


class AgentCall(NamedTuple):
    """The agent's name, its arguments, and the Python that runs it as a module."""

    name: str
    arguments: tuple[Word, ...]
    python: tuple[Word, ...]


def agent_of(words: tuple[Word, ...]) -> AgentCall | None:
    """The command as a call of an agent; None if it is not one."""
    first = program(words[0]) if words else ""
    if first in known.AGENTS and (first != "accelerate" or (len(words) > 1 and words[1].literal == "launch")):
        return AgentCall(first, words[2 if first == "accelerate" else 1 :], ())
    if _PYTHON.fullmatch(first):
        place = 1
        while place < len(words) and words[place].literal in {"-u", "-O", "-B", "-s", "-I", "-E"}:
            place += 1
        module = (
            words[place + 1].literal or "" if place + 1 < len(words) and words[place].literal == "-m" else ""
        )
        if module in known.AGENT_MODULES:
            return AgentCall(known.AGENT_MODULES[module], words[place + 2 :], words[:1])
    return None


def mentions_agent(words: tuple[Word, ...]) -> bool:
    """True if an agent may be somewhere in the words, such as in the text of `bash -c`."""
    # The value of an option, such as `--run-name gpt-no-torchrun`, starts nothing.
    text = re.sub(
        r"(?<=\s)(--[\w-]+)[\s=]+[\w-]*-torchrun(?![\w./-])", r"\1", " ".join(w.shell for w in words)
    )
    return (
        re.search(
            r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate[ .]|deepspeed\s+(?!--)|horovodrun)",
            text,
        )
        is not None
    )


def kept_as_program(agent: Agent | None) -> str:
    """Why an agent is kept as the program; None: a program that may start one."""
    if agent is None:
        return "kept as it is: if it starts ranks itself, dlrun does not bind them"
    because = f" ({agent.because})" if agent.because else ""
    return (
        f"kept as the program of each node{because}: it starts the ranks itself, and dlrun does not bind them"
    )


def _inner(word: Word, values: Values) -> tuple[Word, ...] | None:
    """The words of the single command in the text of `bash -c`; None if it is more, or its text is not known."""
    known_words = values.words(word)
    if known_words is None or len(known_words) != 1:
        return None
    text = ""
    for segment in known_words[0].segments:
        if segment.kind is not Kind.TEXT:
            if segment.kind is not Kind.NAME:
                return None
            text += f"${{{segment.text}}}"
        else:
            text += segment.text
    inside = statements(text)
    if len(inside) != 1 or inside[0].form is not Form.COMMAND or inside[0].faulty:
        return None
    command = inside[0]
    if command.redirections or command.assignments or command.background:
        return None
    words = command.words
    if program(words[0]) == "exec" and len(words) > 1:
        words = words[1:]
    return words


def _python(rest: tuple[Word, ...], options: list[Option]) -> tuple[Word, ...]:
    """The program that an agent starts: Python with a script, with a module, or anything else."""
    names = {o.name for o in options}
    if "no-python" in names:
        return rest
    python = text_word("python")
    return (python, text_word("-m"), *rest) if "module" in names else (python, *rest)


def _torchrun(agent: Agent, options: list[Option], rest: tuple[Word, ...], legacy: bool) -> None:
    agent.per_node, agent.nodes = 1, 1
    for option in options:
        if option.name == "nproc-per-node":
            agent.per_node = agent.count("per_node", option)
            if option.value in {"gpu", "auto"}:
                agent.per_node = ALL_GPUS
        elif option.name == "nnodes":
            agent.nodes = agent.count("nodes", option)
            if (
                option.value is not None
                and (match := re.fullmatch(r"(\d+):(\d+)", option.value))
                and match[1] == match[2]
            ):
                agent.nodes = int(match[1])
        elif option.name == "run-path":
            agent.refuse(f"`{option.text}` of torchrun has no counterpart")
        elif option.name not in {"module", "no-python", "standalone", "use-env"}:
            agent.left.append((option.text, BY_DLRUN))
    # Its processes get another argument, `--local-rank` or `--local_rank`, depending on the version of PyTorch.
    if legacy and not any(o.name == "use-env" for o in options):
        agent.refuse(
            "`torch.distributed.launch` without `--use_env` gives each process the argument `--local_rank`"
        )
    agent.words = _python(rest, options)


def _deepspeed(agent: Agent, options: list[Option], rest: tuple[Word, ...], _legacy: bool) -> None:
    agent.per_node, agent.nodes = ALL_GPUS, 1
    for option in options:
        if option.name == "num-gpus":
            agent.per_node = agent.count("per_node", option)
        elif option.name == "num-nodes":
            agent.nodes = agent.count("nodes", option)
        elif option.name in {"master-port", "master-addr"}:
            agent.left.append((option.text, BY_DLRUN))
        elif option.name not in {"module", "no-local-rank"}:
            agent.refuse(f"`{option.text}` of deepspeed has no counterpart")
    if agent.nodes != 1:
        # It would start processes on other nodes itself, by ssh and a file with the hosts.
        agent.refuse("deepspeed starts processes on other nodes itself")
    words = _python(rest, options)
    if not any(o.name == "no-local-rank" for o in options):
        place = 3 if any(o.name == "module" for o in options) else 2
        local = statements("x --local_rank=$LOCAL_RANK")[0].words[1]
        words = (*words[:place], local, *words[place:])
        agent.in_shell = True
        agent.because = "deepspeed gives each process the argument `--local_rank`"
    agent.words = words


def _accelerate(agent: Agent, _options: list[Option], _rest: tuple[Word, ...], _legacy: bool) -> None:
    """Its processes depend on a configuration file of the user: the agent is kept."""
    agent.refuse("the processes of `accelerate launch` depend on its own configuration")


def _horovodrun(agent: Agent, options: list[Option], rest: tuple[Word, ...], _legacy: bool) -> None:
    for option in options:
        if option.name in {"np", "num-proc"}:
            agent.total = agent.count("total", option)
        elif option.name in {
            "hosts",
            "hostfile",
            "verbose",
            "mpi",
            "gloo",
            "network-interface",
            "start-timeout",
            "ssh-port",
        }:
            agent.left.append((option.text, BY_DLRUN))
        else:
            agent.refuse(f"`{option.text}` of horovodrun has no counterpart")
    agent.words = rest


ALL_GPUS = -1
"""One process for each GPU of the node."""
_READERS = {
    "torchrun": _torchrun,
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
    "horovodrun": _horovodrun,
}
