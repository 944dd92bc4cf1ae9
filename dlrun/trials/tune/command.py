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
    from dlrun.trials.tune import record as tuning, run as race

    if options["inside"]:
        found = _load(spec)
        with tuning.locked(found):
            race.run(found, echo, time.monotonic() + options["seconds"] if options["seconds"] else None)
        return 0
    if options["show"]:
        return _print(_load(spec), spec_file=None, **options)
    found = _load_or_begin(spec, site, sets, options)
    try:
        _carry_out(found, options)
    except KeyboardInterrupt:
        notice(f"\ninterrupted; the same command resumes with `{found.directory}`")
        return 130
    return _print(found, spec_file=spec, **options)


def _load(directory: Path) -> Tuning:
    """The tuning of a directory; raises Invalid if there is none."""
    from dlrun.trials.tune import record as tuning

    found = tuning.load(directory.absolute())
    if found is None:
        raise Invalid(f"`{directory}` has no trials of `dlrun tune`", help="`dlrun tune SPEC` starts them")
    return found


def _load_or_begin(spec: Path, site: str | None, sets: tuple[str, ...], options: dict[str, Any]) -> Tuning:
    """The tuning to resume, else a new one with the budget that the user allows."""
    from dataclasses import replace

    from dlrun.jobs.records import directories
    from dlrun.jobs.submission.prepare import read_inputs
    from dlrun.trials.tune import allocation, begin, record as tuning

    if options["out"] is None:
        read = read_inputs(spec, sets=sets, site=site) if not options["tries"] else None
        name = read.spec.name if read is not None else _name(spec)
    else:
        name = ""
    directory = allocation.directory_of(name, options["out"])
    known = tuning.load(directory)
    if known is not None:
        directories.require_list(directory, tuning.KIND, f"dlrun tune {shlex.quote(str(directory))} --show")
        if not known.unchanged():
            raise Invalid(
                f"the spec has changed since the trials in `{directory}` were started",
                help="start others with `--out`",
            )
        found = replace(known, budget=options["budget"] or known.budget)
        found.save()
        return found
    if not directories.is_free(directory, tuning.KIND):
        raise Invalid(f"`{directory}` exists and has no trials", help="choose another directory with `--out`")
    found = begin.begin(
        spec, sets=sets, site=site, tries=options["tries"], only=options["only"], directory=directory,
        length=options["length"] or _LENGTH, repeat=options["repeat"] or _REPEAT, here=options["here"],
        pool=options["pool"], notice=notice,
    )  # fmt: skip
    others = len(found.candidates) - 1
    notice(f"{others} setting{'s' if others != 1 else ''} to compare with the current plan:")
    for one in found.candidates[1:]:
        notice(f"  {one.name}: {one.because}")
    found = replace(found, budget=_budget(found, options["budget"]))
    found.save()
    return found


def _name(spec: Path) -> str:
    """The name in a spec. It is not decoded: its command may have parameters that only `--try` defines."""
    try:
        match = re.search(
            r"^name\s*:\s*([\w.-]+)", spec.read_text(encoding="utf-8", errors="replace"), re.MULTILINE
        )
    except OSError:
        match = None
    return match[1] if match else spec.stem


def _budget(found: Tuning, given: float | None) -> float:
    """The node-hours that the user allows; raises Invalid without a terminal."""
    import sys

    if given is not None:
        return given
    about = f"about {found.budget:.2g} node-hours ({found.nodes} node{'s' if found.nodes > 1 else ''})"
    if not sys.stdin.isatty():
        raise Invalid(f"the trials need {about}: set a budget", help=f"`--budget {found.budget:.2g}`")
    return float(
        click.prompt(
            f"The trials need {about}; budget in node-hours",
            default=round(found.budget, 3),
            type=float,
            err=True,
        )
    )


def _carry_out(found: Tuning, options: dict[str, Any]) -> None:
    """Run the trials in this allocation, or submit a job for them and wait for it."""
    from dlrun.trials.tune import allocation, record as tuning, run as race
    from dlrun.trials.tune.progress import progress

    if options["here"] or allocation.here(found):
        with tuning.locked(found), progress(found) as shown:
            race.run(found, shown.notice, polled=shown.update)
        return
    from dlrun.trials.tune.race import upcoming

    if upcoming(found.candidates, found.trials(), repeat=found.repeat) is None:
        return
    from dlrun.jobs.queue import watch

    def watched(job: Job) -> watch.Watcher:
        return watch.Watcher(job, lambda why: notice(f"job {job.job_id} is {why}"))

    job = allocation.last(found)
    watcher = watched(job) if job is not None else None
    if job is None or watcher is None or watcher.ended():
        job = allocation.submit_job(found, notice)
        watcher = watched(job)
        notice(f"job {job.job_id} runs the trials, at most {found.budget:.3g} node-hours in total")
    if options["no_wait"]:
        return
    with progress(found) as shown:
        while not watcher.ended():
            time.sleep(0.5)
            shown.print_new_trials()
            shown.update()
        shown.print_new_trials()
    if upcoming(found.candidates, found.trials(), repeat=found.repeat) is not None:
        notice(
            f"job {job.job_id} ended before all trials were done; `dlrun why {shlex.quote(str(job.directory))}` shows the cause"
        )


def _print(found: Tuning, *, spec_file: Path | None, as_json: bool, write: bool, **_: Any) -> int:
    """Print the table, the conclusion and the lines for the spec; returns 1 if the current plan was not measured."""
    from dlrun.trials.tune import output as tune_output

    return tune_output.show(found, as_json=as_json, write=spec_file if write else None)
