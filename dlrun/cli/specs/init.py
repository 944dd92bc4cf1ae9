"""`dlrun init`: a first training spec, from five questions or from options."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.model.text import digits
from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import UserPath, force_option, json_option, site_option
from dlrun.terminal.printing import emit, notice

if TYPE_CHECKING:
    from dlrun.schedulers.draft import SpecDraft


@click.command(
    cls=Command,
    epilog=examples("dlrun init", "dlrun init --run 'python train.py --epochs 90' --nodes 2 --walltime 4h"),
)
@click.argument("spec", type=UserPath(), default=Path("spec.yaml"), metavar="[SPEC]")
@heading("Job")
@click.option("--run", "text", metavar="TEXT", help="Training command, as typed in a shell.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Number of nodes.")
@click.option("--gpus-per-node", metavar="N|auto", help="GPUs on each node; auto: all of them.")
@click.option("--walltime", metavar="TIME", help="Walltime limit: 90m, 4h, 1-12:00:00.")
@click.option(
    "--environment", metavar="PATH|NAME", help="Directory of a venv, or name of a conda environment."
)
@click.option("--partition", metavar="NAME", help="Partition (Slurm) or queue (PBS).")
@click.option("--account", metavar="NAME", help="Account (project) to charge.")
@site_option("Site profile to name in the spec.")
@heading("Output")
@force_option
@json_option
def command(
    spec: Path, text: str | None, site: str | None, force: bool, as_json: bool, **options: str | int | None
) -> int:
    """Write a first training spec with comments to SPEC (default: spec.yaml).

    On a terminal, missing options are asked for: the command, nodes, GPUs, walltime and environment.
    """
    from dlrun.config.secrets import refuse_secrets
    from dlrun.errors import Invalid
    from dlrun.importing import command_draft
    from dlrun.importing.text import spec_text
    from dlrun.system.paths import working_directory
    from dlrun.system.writing import refuse_existing, write_output

    # Before the questions: the answers would be lost.
    refuse_existing(spec, force=force)
    asks = sys.stdin.isatty()
    if text is None:
        if not asks:
            raise Invalid(
                "there is no command to run",
                help="give `--run 'python train.py'`, or run `dlrun init` on a terminal",
            )
        text = click.prompt("Training command, as typed in a shell", err=True)
    answers = {name: _answer(name, value, asks=asks) for name, value in options.items()}
    draft = command_draft(text, spec.name if spec.stem != "spec" else working_directory().name)
    _fill(draft, answers)
    written = spec_text(draft, None, site)
    refuse_secrets(written, "the command")
    write_output(spec, written, force=force)
    if as_json:
        left = [{"text": part.text, "because": part.because} for part in draft.left_out]
        emit("init", {"file": str(spec), "spec": written, "values": draft.values, "left_out": left})
    for part in draft.left_out:
        notice(f"{part.text.splitlines()[0]}: {part.because}")
    word = shlex.quote(str(spec))
    notice(f"wrote {spec}; `dlrun plan {word}` shows the resulting plan, `dlrun submit {word}` submits it")
    return 0


_QUESTIONS = {
    "nodes": ("Nodes", "1"),
    "gpus_per_node": ("GPUs on each node (auto: all that the node has)", "auto"),
    "walltime": ("Walltime limit (90m, 4h, 1-12:00:00)", "1h"),
    "environment": ("Directory of a venv, or name of a conda environment; empty: none", ""),
}
"""Option -> question and default answer. Partition and account are not asked for: many sites need neither."""


def _answer(name: str, value: str | int | None, *, asks: bool) -> str:
    if value is not None or name not in _QUESTIONS:
        return "" if value is None else str(value)
    question, default = _QUESTIONS[name]
    return (
        str(click.prompt(question, default=default, show_default=bool(default), err=True))
        if asks
        else default
    )


_COMMENTS = {
    "framework": "how ranks find one another: torch, horovod, mpi, jax, … (`dlrun keys framework`)",
    "resources": "what to request; `dlrun keys resources` lists the other keys",
    "resources.gpus_per_node": "auto: all GPUs of the node, as the site profile describes it; one rank for each",
    "environment": "also `modules: [...]`, `container:`, `variables:`, and `setup:` for shell lines",
}


def _fill(draft: SpecDraft, answers: dict[str, str]) -> None:
    """Put the answers into the spec; what the command itself sets (`torchrun --nnodes=4`) is kept."""
    nodes = answers["nodes"]
    if draft.values["resources"]["nodes"] == 1:
        draft.values["resources"]["nodes"] = int(nodes) if digits(nodes) else nodes
    gpus = answers["gpus_per_node"]
    draft.put("resources.gpus_per_node", int(gpus) if digits(gpus) else gpus)
    for name in ("walltime", "partition", "account"):
        if answers[name]:
            draft.put(f"resources.{name}", answers[name])
    if where := answers["environment"]:
        is_venv = "/" in where or Path(where, "bin", "activate").exists()
        draft.put(f"environment.{'venv' if is_venv else 'conda'}", where)
    for key, comment in _COMMENTS.items():
        if draft.get(key) is not None:
            draft.comments[key] = comment
