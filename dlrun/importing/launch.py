"""The launch line: what its launchers, containers and agents ask for, and the program that they start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from dlrun.importing import by_rank
from dlrun.importing.agents import BY_DLRUN, IN_LOG, Agent, read_agent
from dlrun.importing.options import Option, launchers as known, read
from dlrun.importing.syntax import statements
from dlrun.importing.values import Values, expanded
from dlrun.importing.words import Kind, Word, program, text_word

_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
BY_STATUS = "`dlrun status` shows the time"
ONE_WORLD = (
    "programs of one launch are one MPI world, and `roles` are a world each: if these do not talk over MPI, write a role for "
    "each, with `nodes` and `command`"
)
BARE = (
    "it starts the program in your home directory, without modules and variables of the script: set `directory`, and leave only "
    "what it needs under `environment`"
)
OPEN_NUMBER = "the number is known only when the script runs"
_RELATIVE_HOSTS = re.compile(r"\"?\$\{?(?:SLURM_(?:JOB_)?NODELIST|PBS_NODEFILE|PE_HOSTFILE)\}?\"?")


@dataclass(slots=True)
class Launch:
    """A launch line, taken apart. `words`: the program of each task as the line has it."""

    line: int
    words: tuple[Word, ...]
    launchers: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    open_counts: dict[str, Word] = field(default_factory=dict)
    """Counts whose numbers are known only when the script runs; each is in `checks`, too."""
    agent: Agent | None = None
    variables: list[tuple[str, Word]] = field(default_factory=list)
    container: dict[str, object] = field(default_factory=dict)
    left: list[tuple[str, str]] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    open_mpi: bool = False


def decompose(line: int, words: tuple[Word, ...], values: Values) -> Launch:
    """Take a launch line apart; what is not understood is in `checks`, or stays part of the program."""
    launch = Launch(line, words)
    before: tuple[Word, ...] = ()
    while launch.words:
        first = program(launch.words[0])
        if first in known.LAUNCHERS and (first != "flux" or _flux_words(launch.words)):
            skip = _flux_words(launch.words) if first == "flux" else 1
            launch.launchers.append(first)
            _launcher(first, launch, expanded(launch.words[skip:], values), values)
        elif (
            first in {"exec", "nohup", "command"}
            and len(launch.words) > 1
            and not launch.words[1].lead.startswith("-")
        ):
            launch.words = launch.words[1:]
        elif skipped := _timed(launch.words):
            launch.left.append((" ".join(w.shell for w in launch.words[:skipped]), BY_STATUS))
            launch.words = launch.words[skipped:]
        elif (
            first == "timeout"
            and len(launch.words) > 2
            and program(launch.words[2]) in known.LAUNCHERS
            and launch.words[1].literal
        ):
            # Each rank ends after the time, as the launcher would.
            before, launch.words = launch.words[:2], launch.words[2:]
        else:
            break
    if words[0].literal == "time" and len(words) > 1 and words[1].lead.startswith("-"):
        launch.checks.append((words[1].shell, "bash's own `time` takes no such option"))
    if launch.words and program(launch.words[0]) == "pbsdsh" and not launch.launchers:
        _spawned(launch)
    launch.agent = None if before else read_agent(launch.words, values)
    launch.words = (*before, *launch.words)
    _check_program(launch)
    return launch


def _spawned(launch: Launch) -> None:
    """Take pbsdsh off: it starts a program for each line of the node file, in an environment of its own."""
    call = read(launch.words[1:], known.PBSDSH)
    names = {option.name for option in call.options}
    if call.unknown is not None:
        launch.checks.append((call.unknown, "not an option of pbsdsh that dlrun knows"))
    launch.launchers.append("pbsdsh")
    launch.words = call.rest
    if "u" in names:
        launch.counts["tasks_per_node"] = 1
    if names & {"n", "c", "h"}:
        launch.checks.append(
            ("pbsdsh", "it starts the program on some of the job's nodes alone: set `resources.nodes`")
        )
    launch.checks.append(("pbsdsh", BARE))


def _timed(words: tuple[Word, ...]) -> int:
    """Number of words of `time` before a program; with options it is a program (time(1)), left out only before a launcher."""
    if program(words[0]) != "time" or len(words) < 2:
        return 0
    if not words[1].lead.startswith("-"):
        return 1
    at = next((i for i, word in enumerate(words) if program(word) in known.LAUNCHERS), 0)
    plain = all(word.literal for word in words[1:at])
    return (
        at if words[0].literal != "time" and plain and not {"-o", "-a"} & {w.lead for w in words[1:at]} else 0
    )


def _check_program(launch: Launch) -> None:
    if not launch.words:
        launch.checks.append(("", "no program after the launcher"))
        return
    first = launch.words[0]
    text = first.literal
    if (
        text is None
        and not any(s.kind is Kind.TEXT and "/" in s.text for s in first.segments)
        and launch.launchers
    ):
        reason = "whether this is the program or options of the launcher is known only when the script runs"
        launch.checks.append((first.shell, reason))
    if text is not None and (text.startswith("-") or not re.search(r"[A-Za-z]", text)):
        launch.checks.append((text, "not a program"))
    if not launch.launchers and any(
        program(word) in known.LAUNCHERS and program(word) != "flux" for word in launch.words[1:]
    ):
        launch.checks.append((first.shell, "it starts a launcher, which dlrun starts itself"))
    if program(first) in known.SPAWNERS and not launch.launchers:
        launch.checks.append(
            (first.shell, "it starts programs on the job's nodes, without the script's environment")
        )
    if any(word.literal == ":" for word in launch.words):
        launch.checks.append((":", ONE_WORLD))


def _flux_words(words: tuple[Word, ...]) -> int:
    """Number of words of `flux run`, `flux submit` or `flux mini run`; 0 for any other Flux command."""
    names = [w.literal for w in words[1:3]]
    names = names if names[:1] == ["mini"] else names[:1]
    return 1 + len(names) if names and names[-1] in {"run", "submit"} else 0


# ---- launchers ------------------------------------------------------------------------------------------------


def _launcher(name: str, launch: Launch, words: tuple[Word, ...], values: Values) -> None:
    table = known.LAUNCHERS[name]
    kind = name if name in known.COUNTS else ""
    if table is known.MPI:
        words = _joined_env(words)
    call = read(words, table)
    if call.unknown is not None:
        launch.checks.append((call.unknown, f"not an option of {name} that dlrun knows"))
    for option in call.options:
        _launcher_option(kind, option, launch)
    launch.words = call.rest
    if any(option.name == "multi-prog" for option in call.options):
        known_text = values.files.get(call.rest[0].literal or "") if len(call.rest) == 1 else None
        parts = by_rank.of_file(known_text) if known_text is not None else None
        if not _by_rank(launch, parts, of_srun=True):
            launch.checks.append(
                ("--multi-prog", "the programs of its file are not in the script, or not understood")
            )
    elif table is known.MPI and any(word.literal == ":" for word in call.rest):
        one_by_one = not launch.variables and "tasks_per_node" not in launch.counts
        _by_rank(
            launch, by_rank.of_colons(words, table, known.COUNTS[kind], values.words) if one_by_one else None
        )


def _by_rank(launch: Launch, parts: Sequence[by_rank.Part] | None, *, of_srun: bool = False) -> bool:
    """Let the program of each rank be one of these; False if they are not known."""
    words = by_rank.program(parts, of_srun=of_srun) if parts else None
    if parts is None or words is None:
        return False
    launch.words = words
    if not of_srun:
        launch.counts["tasks"] = sum(len(part.ranks) for part in parts)
    return True


def _joined_env(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """PALS takes NAME=VALUE as one word, MPICH as two: as two for the table."""
    result: list[Word] = []
    for index, word in enumerate(words):
        before = words[index - 1].literal if index else None
        if before in {"-env", "--env", "-genv", "--genv"} and (match := _ASSIGNED.match(word.lead)):
            result += [text_word(match[0][:-1]), word.after(len(match[0]))]
        else:
            result.append(word)
    return tuple(result)


def _launcher_option(kind: str, option: Option, launch: Launch) -> None:
    name = option.name
    if kind == "" and name in known.OPEN_MPI:
        launch.open_mpi = True
    if name in known.COUNTS[kind]:
        text = (option.value or "").rpartition(":")[2]
        if re.fullmatch(r"[1-9]\d{0,8}", text):
            launch.counts[known.COUNTS[kind][name]] = int(text)
        else:
            if option.values and option.values[0].is_expansion:
                launch.open_counts[known.COUNTS[kind][name]] = option.values[0]
            launch.checks.append((option.text, OPEN_NUMBER))
    elif name in {"x", "genv", "env", "export"}:
        _environment(option, launch)
    elif name == "pernode":
        launch.counts["tasks_per_node"] = 1
    elif (kind == "srun" and name.startswith(("container-", "no-container-"))) or name in {
        "container",
        "image",
    }:
        _pyxis(option, launch)
    elif name in {"nodelist", "w"} and option.values and _RELATIVE_HOSTS.fullmatch(option.values[0].shell):
        launch.left.append((option.text, "all nodes of the job"))
    elif (
        name in {"hostfile", "machinefile", "f", "H", "host", "hosts", "hostlist", "nodelist"}
        and "tasks" not in launch.counts
        and not (option.values and _RELATIVE_HOSTS.fullmatch(option.values[0].shell))
    ):
        launch.checks.append((option.text, "it may select some of the job's nodes"))
    elif name == "mpi" and kind == "srun":
        launch.left.append((option.text, "`launcher.mpi` of the site profile"))
    elif name in {"het-group", "pack-group"}:
        launch.checks.append(
            (option.text, "a part of a heterogeneous job: write a role for each, with `nodes` and `command`")
        )
    elif name in known.PLACED[kind]:
        because = IN_LOG if kind == "srun" and name in {"output", "error"} else BY_DLRUN
        launch.left.append((option.text, because))
    else:
        launch.checks.append((option.text, "dlrun has no key for this option"))


def _environment(option: Option, launch: Launch) -> None:
    """`-x NAME=V`, `-genv NAME V`, `--export=ALL,NAME=V`."""
    if option.name == "export":
        text = option.values[0].shell if option.values else ""
        first, *more = re.split(r",(?=[A-Za-z_]\w*(?:=|,|$))", text)
        if first != "ALL" or any("=" not in part for part in more):
            if text != "ALL":
                launch.checks.append((option.text, "set variables under `environment.variables`"))
            return
        for part in more:
            name, _, value = part.partition("=")
            launch.variables.append((name, _as_word(value)))
        return
    if len(option.values) == 2:
        name = option.values[0].literal or ""
        if _ASSIGNED.fullmatch(f"{name}="):
            launch.variables.append((name, option.values[1]))
        else:
            launch.checks.append((option.text, "set variables under `environment.variables`"))
        return
    word = option.values[0]
    if match := _ASSIGNED.match(word.lead):
        launch.variables.append((match[0][:-1], word.after(len(match[0]))))
    elif word.literal is None:
        launch.checks.append((option.text, "the variable is known only when the script runs"))


def _as_word(text: str) -> Word:
    inner = statements(f"x {text}")
    return inner[0].words[1] if inner and len(inner[0].words) == 2 else text_word(text)


def _pyxis(option: Option, launch: Launch) -> None:
    value = option.value
    container = launch.container
    arguments = container.setdefault("arguments", [])
    assert isinstance(arguments, list)  # noqa: S101 - set here alone
    if option.values and value is None and option.name != "container-mounts":
        launch.checks.append((option.text, "write the value under `environment.container`"))
    if option.name == "container-image":
        container |= {"image": value or option.values[0].shell, "runtime": "enroot"}
    elif option.name == "container-mounts":
        binds = (value or option.values[0].shell.strip('"')).split(",")
        if any("$" in bind and not re.fullmatch(r"\$\{?HOME\}?(?:/[^$]*)?", bind) for bind in binds):
            launch.checks.append((option.text, "write the paths under `environment.container.binds`"))
        container["binds"] = binds
    elif option.name == "container-workdir":
        container["workdir"] = value or option.values[0].shell
    else:
        arguments.append(f"--{option.name}" + (f"={value}" if option.values else ""))
