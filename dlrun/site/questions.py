"""The questions of `dlrun site new` on a terminal: one for each missing option."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from dlrun.backends import FABRICS, LAUNCHERS, SCHEDULERS, scheduler
from dlrun.model.text import digits
from dlrun.model.units import Duration
from dlrun.terminal.printing import echo

Answer = TypeVar("Answer")


def ask_user(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the user's answers; an empty answer skips an option, an invalid one repeats the question."""
    answers = dict(options)

    def put(key: str, question: str, read: Callable[[str], Answer]) -> None:
        if answers[key] is None:
            answers[key] = click.prompt(
                question, default="", show_default=False, err=True, value_proc=lambda text: _read(text, read)
            )

    echo("Press Enter to skip a question; values can be added to the file later.", err=True)
    put("scheduler", f"Scheduler ({', '.join(SCHEDULERS)}) [slurm]", _one_of(SCHEDULERS))
    named = answers["scheduler"]
    queues = named is None or not scheduler(named).ON_THIS_MACHINE
    if queues:
        put("version", "Version, such as 23.11", str)
        put("cluster_name", "Slurm's ClusterName, or the PBS server", str)
        settings = dict(answers.get("settings") or {})
        for key, question in scheduler(named or "slurm").QUESTIONS.items():
            answers["answer"] = settings.get(f"scheduler.{key}")
            put("answer", question, str)
            if (answer := answers.pop("answer")) is not None:
                settings[f"scheduler.{key}"] = answer
        answers["settings"] = settings
    put("launcher", f"Launcher ({', '.join(LAUNCHERS)}) [the scheduler's default]", _one_of(LAUNCHERS))
    if queues:
        put("partition", "Default partition or queue", str)
        if answers["partition"]:
            put("max_walltime", "Longest walltime, such as 24h", _walltime)
    put("cores", "Cores per package (socket)", _number(1))
    if answers["cores"]:
        put("packages", "Packages (sockets) per node [1]", _number(1))
        put("smt", "Hardware threads per core [1]", _number(1))
    put("gpus", "GPUs per node [0]", _number(0))
    if answers["gpus"]:
        put("gpu_kind", "GPU runtime (cuda, rocm, ze) [cuda]", _one_of(("cuda", "rocm", "ze")))
    if queues:
        put("fabric", f"Fabric ({', '.join(FABRICS)})", _one_of(FABRICS))
        if answers["fabric"]:
            put("interface", "IP interface of the fabric on compute nodes, such as ib0", str)
    return answers


def _read(text: str, read: Callable[[str], Answer]) -> Answer | None:
    if not text.strip():
        return None
    try:
        return read(text.strip())
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"`{text}` is not one of {', '.join(names)}")
        return text

    return read


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not digits(text) or int(text) < least:
            raise ValueError(f"`{text}` is not a number of at least {least}")
        return int(text)

    return read


def _walltime(text: str) -> str:
    Duration.parse(text)
    return text
