"""`dlrun tune`: short runs of a training to find settings that make it faster."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dlrun.errors import Invalid
from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import UserPath, json_option, seconds, spec_options
from dlrun.terminal.printing import echo, notice

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.trials.tune.record import Tuning

_LENGTH, _REPEAT = 60.0, 3


@click.command(
    cls=Command,
    epilog=examples(
        "dlrun tune spec.yaml --try workers=2,4,8 --budget 4", "dlrun tune resnet50-tuning --show"
    ),
)
@heading("Inputs")
@spec_options
@heading("Trials")
@click.option(
    "--try",
    "tries",
    multiple=True,
    metavar="NAME=A,B",
    help="Values to try of a key of the spec, or of a parameter `{{ NAME }}` of the command (first: the current value). "
    "Repeatable.",
)
@click.option("--only", is_flag=True, help="Try only the settings of --try, not those that dlrun proposes.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), metavar="HOURS",
    help="Maximum node-hours of all trials together; default: asked for on a terminal.",
)  # fmt: skip
@click.option(
    "--length", callback=seconds, metavar="TIME",
    help="Duration of a trial, from its first throughput value.  [default: 60s]",
)  # fmt: skip
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Runs of each setting that is not dropped.  [default: 3]",
)
@click.option("--out", type=UserPath(), help="Directory of the trials; default: NAME-tuning.")
@heading("Execution")
@click.option(
    "--pool", type=click.IntRange(min=1), metavar="NODES",
    help="One job with so many nodes, on which trials run at the same time, each alone on the number of nodes of SPEC. "
    "`sweep.points_per_node: 2` lets two trials of one node share each node.",
)  # fmt: skip
@click.option(
    "--here",
    is_flag=True,
    help="Run in the allocation of this shell (salloc, qsub -I) instead of submitting a job.",
)
@click.option(
    "--no-wait", is_flag=True, help="Submit the job and return; the same command shows the result later."
)
@heading("Results")
@click.option(
    "--show", is_flag=True, help="Print the measurements so far; SPEC is then the directory of the trials."
)
@click.option(
    "--apply",
    "write",
    is_flag=True,
    help="Write the confirmed settings into SPEC, with the evidence as comments.",
)
@click.option("--inside", is_flag=True, hidden=True, help="Run in the job that `tune` itself submitted.")
@click.option("--seconds", type=float, hidden=True, help="Seconds that job has.")
@json_option
def command(spec: Path, site: str | None, sets: tuple[str, ...], **options: Any) -> int:
    """Find settings that make the training of SPEC faster, by short runs on its nodes.

    Threads, SMT, cores for communication and data loading, ranks per node and settings of the communication libraries are
    varied one at a time, in one allocation. Slow settings are dropped early, fast ones are combined, and the best
    combination is compared with the original plan in new runs. The throughput is read from the log, as in `dlrun results`.
    The results of the training do not change. The same command resumes an interrupted run.
    """
    from dlrun.trials.tune import record, run as race

    if options["inside"]:
        tuning = _load(spec)
        with record.locked(tuning):
            race.run(tuning, echo, time.monotonic() + options["seconds"] if options["seconds"] else None)
        return 0
    if options["show"]:
        return _print(_load(spec), spec_file=None, **options)
    tuning = _load_or_begin(spec, site, sets, options)
    try:
        _carry_out(tuning, options)
    except KeyboardInterrupt:
        notice(f"\ninterrupted; the same command resumes with `{tuning.directory}`")
        return 130
    return _print(tuning, spec_file=spec, **options)


def _load(directory: Path) -> Tuning:
    """The tuning of a directory; raises Invalid if there is none."""
    from dlrun.trials.tune import record

    tuning = record.load(directory.absolute())
    if tuning is None:
        raise Invalid(f"`{directory}` has no trials of `dlrun tune`", help="`dlrun tune SPEC` starts them")
    return tuning


def _load_or_begin(spec: Path, site: str | None, sets: tuple[str, ...], options: dict[str, Any]) -> Tuning:
    """The tuning to resume, else a new one with the budget that the user allows."""
    from dataclasses import replace

    from dlrun.jobs.records import directories
    from dlrun.jobs.submission.prepare import read_inputs
    from dlrun.trials.tune import allocation, begin, record

    if options["out"] is None:
        read = read_inputs(spec, sets=sets, site=site) if not options["tries"] else None
        name = read.spec.name if read is not None else _name(spec)
    else:
        name = ""
    directory = allocation.directory_of(name, options["out"])
    known = record.load(directory)
    if known is not None:
        directories.require_list(directory, record.KIND, f"dlrun tune {shlex.quote(str(directory))} --show")
        if not known.unchanged():
            raise Invalid(
                f"the spec has changed since the trials in `{directory}` were started",
                help="start others with `--out`",
            )
        tuning = replace(known, budget=options["budget"] or known.budget)
        tuning.save()
        return tuning
    if not directories.is_free(directory, record.KIND):
        raise Invalid(f"`{directory}` exists and has no trials", help="choose another directory with `--out`")
    tuning = begin.begin(
        spec, sets=sets, site=site, tries=options["tries"], only=options["only"], directory=directory,
        length=options["length"] or _LENGTH, repeat=options["repeat"] or _REPEAT, here=options["here"],
        pool=options["pool"], notice=notice,
    )  # fmt: skip
    others = len(tuning.candidates) - 1
    notice(f"{others} setting{'s' if others != 1 else ''} to compare with the current plan:")
    for candidate in tuning.candidates[1:]:
        notice(f"  {candidate.name}: {candidate.because}")
    tuning = replace(tuning, budget=_budget(tuning, options["budget"]))
    tuning.save()
    return tuning


def _name(spec: Path) -> str:
    """The name in a spec. It is not decoded: its command may have parameters that only `--try` defines."""
    try:
        match = re.search(
            r"^name\s*:\s*([\w.-]+)", spec.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
    except OSError:
        match = None
    return match[1] if match else spec.stem


def _budget(tuning: Tuning, budget: float | None) -> float:
    """The node-hours that the user allows; raises Invalid without a terminal."""
    import sys

    if budget is not None:
        return budget
    about = f"about {tuning.budget:.2g} node-hours ({tuning.nodes} node{'s' if tuning.nodes > 1 else ''})"
    if not sys.stdin.isatty():
        raise Invalid(f"the trials need {about}: set a budget", help=f"`--budget {tuning.budget:.2g}`")
    return float(
        click.prompt(
            f"The trials need {about}; budget in node-hours",
            default=round(tuning.budget, 3),
            type=float,
            err=True,
        )
    )


def _carry_out(tuning: Tuning, options: dict[str, Any]) -> None:
    """Run the trials in this allocation, or submit a job for them and wait for it."""
    from dlrun.trials.tune import allocation, record, run as race
    from dlrun.trials.tune.progress import progress

    if options["here"] or allocation.here(tuning):
        with record.locked(tuning), progress(tuning) as shown:
            race.run(tuning, shown.notice, polled=shown.update)
        return
    from dlrun.trials.tune.race import upcoming

    if upcoming(tuning.candidates, tuning.trials(), repeat=tuning.repeat) is None:
        return
    from dlrun.jobs.queue import watch

    def watched(job: Job) -> watch.Watcher:
        return watch.Watcher(job, lambda why: notice(f"job {job.job_id} is {why}"))

    job = allocation.last(tuning)
    watcher = watched(job) if job is not None else None
    if job is None or watcher is None or watcher.ended():
        job = allocation.submit_job(tuning, notice)
        watcher = watched(job)
        notice(f"job {job.job_id} runs the trials, at most {tuning.budget:.3g} node-hours in total")
    if options["no_wait"]:
        return
    with progress(tuning) as shown:
        while not watcher.ended():
            time.sleep(0.5)
            shown.print_new_trials()
            shown.update()
        shown.print_new_trials()
    if upcoming(tuning.candidates, tuning.trials(), repeat=tuning.repeat) is not None:
        notice(
            f"job {job.job_id} ended before all trials were done; `dlrun why {shlex.quote(str(job.directory))}` shows the cause"
        )


def _print(tuning: Tuning, *, spec_file: Path | None, as_json: bool, write: bool, **_: Any) -> int:
    """Print the table, the conclusion and the lines for the spec; returns 1 if the current plan was not measured."""
    from dlrun.trials.tune import output as tune_output

    return tune_output.show(tuning, as_json=as_json, write=spec_file if write else None)
