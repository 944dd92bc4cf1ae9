"""`dlrun run`: a training in this shell's allocation, or on this machine, in the foreground."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.terminal.help_page import examples, heading
from dlrun.terminal.options import UserPath, json_option, set_option, site_option
from dlrun.terminal.printing import emit, notice, warn
from dlrun.terminal.spec_command import SpecCommand
from dlrun.terminal.streams import OutputFailed

if TYPE_CHECKING:
    from dlrun.jobs.records.jobs import Job
    from dlrun.model.plan import Plan
    from dlrun.system.inputs.spec import Inputs

_COMMAND = "dlrun.run.command"
_SECOND = 3.0
"""Seconds in which a second Ctrl-C cancels a submitted job."""


class RunCommand(SpecCommand):
    """A command whose arguments after `--` are a training command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments up to `--`; those after it are kept in `ctx.meta`."""
        if "--" in args:
            split = args.index("--")
            args, ctx.meta[_COMMAND] = args[:split], tuple(args[split + 1 :])
        return super().parse_args(ctx, args)


def _key(
    option: str, key: str, text: str, metavar: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """An option that sets a key of the spec."""
    return click.option(
        option, f"key_{key.replace('.', '_')}", metavar=metavar, expose_value=False, help=text,
        callback=lambda ctx, _parameter, value: ctx.meta.setdefault("dlrun.run.keys", []).append(f"{key}={value}")
        if value is not None else None,
    )  # fmt: skip


@click.command(
    cls=RunCommand,
    epilog=examples(
        "dlrun run -- python train.py --lr 0.1",
        "dlrun run --nodes 2 --ranks-per-node 4 -- python train.py",
        "dlrun run spec.yaml --all-ranks",
    ),
)
@heading("Inputs")
@click.argument("words", metavar="[SPEC | -- COMMAND...]", nargs=-1)
@_key("--nodes", "resources.nodes", "Nodes; default: those of the spec, else all of the allocation.", "N")
@_key("--hosts", "resources.hosts", "Hosts of the allocation to use, such as n[1-2].", "HOSTS")
@_key(
    "--ranks-per-node",
    "resources.ranks_per_node",
    "Ranks on each node; default: one per GPU, else the allocation's tasks per node.",
    "N",
)
@_key(
    "--gpus-per-node", "resources.gpus_per_node", "GPUs on each node; default: those of the allocation.", "N"
)
@_key("--cpus-per-rank", "resources.cpus_per_rank", "Cores of each rank; default: an equal share.", "N")
@_key("--framework", "framework", "How ranks find one another: torch (default), horovod, mpi, …", "NAME")
@_key("--launcher", "launcher", "What starts the ranks; default: the site's launcher.", "NAME")
@_key("--name", "name", "Name of the job; default: that of the script.", "NAME")
@site_option("Site profile; default: the spec's `site`, else the profile of this cluster.")
@set_option("Set a key of the spec; `+=` appends to a list. Repeatable.")
@heading("Outside of an allocation")
@click.option("--submit", is_flag=True, help="Submit a job and follow it; Ctrl-C twice cancels it.")
@click.option("--interactive", is_flag=True, help="Get an allocation first (salloc), and run in it.")
@heading("Options")
@click.option("--all-ranks", is_flag=True, help="Print the output of all ranks, each line with its rank.")
@click.option("--dry-run", is_flag=True, help="Print the scripts of the job without running it.")
@click.option(
    "--job-dir", type=UserPath(), help="Job directory to create; default: a new one in $DLRUN_JOBS."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    site: str | None,
    sets: tuple[str, ...],
    submit: bool,
    interactive: bool,
    all_ranks: bool,
    dry_run: bool,
    job_dir: Path | None,
    as_json: bool,
) -> int:
    """Run a training command, or that of SPEC, where this shell is; exit with its exit code.

    In an allocation (interactive, such as from salloc, or in a batch script) it runs on the allocation's nodes; where there is no
    scheduler, on this machine. Everything else is as in a submitted job: placement, fabric settings, logs, job directory. The
    output of rank 0 is printed. Ctrl-C ends all ranks, a second one kills them.
    """
    from dlrun.jobs.running import start

    read = _reader(words, ctx.meta.get(_COMMAND), site)
    settings = (*sets, *_settings(ctx))
    if submit:
        return _submit(read(settings), job_dir, all_ranks=all_ranks)
    if interactive:
        from dlrun.jobs.running.own_allocation import run_in_allocation

        return run_in_allocation(read(settings))
    planned = start.planned(read, settings)
    if dry_run:
        from dlrun.cli.submit import show_scripts
        from dlrun.jobs.submission.files import files
        from dlrun.system.paths import jobs_home

        return show_scripts(
            files(
                planned.plan,
                planned.inputs,
                (job_dir or jobs_home() / planned.plan.name).absolute(),
                archives=False,
            ),
            as_json,
        )
    warn(planned.plan.warnings)
    return _run(planned.plan, planned.inputs, job_dir, all_ranks=all_ranks, as_json=as_json)


def _settings(ctx: click.Context) -> list[str]:
    """The keys that options set; a list of hosts is written with brackets of its own."""
    return [
        f"resources.hosts=['{setting.partition('=')[2]}']"
        if setting.startswith("resources.hosts=")
        else setting
        for setting in ctx.meta.get("dlrun.run.keys", [])
    ]


def _reader(
    words: tuple[str, ...], command_line: tuple[str, ...] | None, site: str | None
) -> Callable[[tuple[str, ...]], Inputs]:
    """The function that reads the spec of the command line with settings; raises Invalid for none or both."""
    from dlrun.errors import Invalid
    from dlrun.jobs.running.command import command_inputs
    from dlrun.jobs.submission.prepare import spec_inputs

    if command_line is not None and words:
        raise Invalid("there is a spec and a command", help="give one of the two; options come before `--`")
    if command_line:
        return lambda sets: command_inputs(command_line, sets=sets, site=site)
    if len(words) == 1:
        return lambda sets: spec_inputs(Path(words[0]), sets=sets, site=site)
    example = "dlrun run -- " + (" ".join(words) if words else "python train.py")
    raise Invalid("there is nothing to run", help=f"write `{example}`, or `dlrun run spec.yaml`")


def _run(plan: Plan, inputs: Inputs, job_dir: Path | None, *, all_ranks: bool, as_json: bool) -> int:
    """Run the job to its end, with its output; returns its exit code."""
    from dlrun.cli.follow import print_cause, show
    from dlrun.jobs.records.validation import run_state
    from dlrun.jobs.running import start
    from dlrun.jobs.running.ending import ending, has_ended

    job = start.start(plan, inputs, directory=job_dir, notice=notice)
    with ending(job, notice) as received:
        try:
            wanted, marked = "all" if all_ranks else "0", all_ranks or job.array is not None
            show(job, wanted, ended=lambda: has_ended(job), quiet=as_json, longest=0.1, marked=marked)
        except OutputFailed:
            if not received:
                raise
    if received:
        notice(f"ended by signal; job directory: {job.directory}")
        return 128 + received[0]
    codes = [(run_state(run) or {}).get("exit_code") for run in job.run_directories()]
    code = next((1 if exit_code is None else int(exit_code) for exit_code in codes if exit_code != 0), 0)
    if code and not as_json:
        print_cause(job)
        notice(f"job directory: {job.directory}")
    if as_json:
        emit("run", {"exit_code": code, "job_id": job.job_id, "directory": str(job.directory)})
    return code


def _submit(inputs: Inputs, job_dir: Path | None, *, all_ranks: bool) -> int:
    """Submit the job and follow it to its end; returns its exit code."""
    from dlrun.cli.follow import follow_to_end
    from dlrun.jobs.submission.prepare import prepare
    from dlrun.jobs.submission.submit import submit

    plan = prepare(inputs.path, inputs=inputs).plan
    warn(plan.warnings)
    job = submit(plan, inputs, directory=job_dir, notice=notice).job
    notice(f"submitted {job.name} to {job.site} as job {job.shown_id()}; job directory: {job.directory}")
    code = follow_to_end(job, quiet=False, wanted="all" if all_ranks else "first")
    return _cancelled_by_second(job) if code == 130 else code


def _cancelled_by_second(job: Job) -> int:
    """Cancel the job if another Ctrl-C comes at once; returns the exit code."""
    from dlrun.jobs.queue.control import cancel
    from dlrun.jobs.queue.selection import Selection

    try:
        notice("Ctrl-C again cancels the job")
        time.sleep(_SECOND)
    except KeyboardInterrupt:
        for _, result in cancel([Selection(job=job, tasks=None)]):
            notice(f"job {job.shown_id()}: {result}")
    return 130
