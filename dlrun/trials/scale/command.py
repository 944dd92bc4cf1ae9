"""`dlrun scale`: scaling studies, with throughput, speed-up and efficiency by number of nodes and ranks."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dlrun.errors import Invalid
from dlrun.model.text import digits
from dlrun.terminal.help_page import Command, examples, heading
from dlrun.terminal.options import UserPath, force_option, json_option, login_options, spec_options
from dlrun.terminal.printing import emit, notice

FORMATS = ("text", "markdown", "latex", "csv")


class StudyGroup(click.Group):
    """A group with an optional command name: `dlrun scale spec.yaml` means `dlrun scale run spec.yaml`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command of the group, else `run`, whose argument is the spec."""
        return super().get_command(ctx, cmd_name) or (None if cmd_name.startswith("-") else run)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for a spec it is `run`, and the spec stays its first argument."""
        # A mistyped command would otherwise be reported as a spec that does not exist.
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands, n=1)
            if near and not Path(args[0]).exists():
                raise Invalid(
                    f"`{args[0]}` is neither a spec nor a command of `dlrun scale`",
                    help=f"a command with a similar name exists: `{near[0]}`",
                )
            return "run", run, args
        return super().resolve_command(ctx, args)


@click.group(cls=StudyGroup, epilog=examples("dlrun scale spec.yaml --nodes 1,2,4,8 --repeat 3"))
def command() -> None:
    """Measure how a training scales with the number of nodes or ranks; show, compare and extrapolate the measurements.

    `dlrun scale SPEC …` is short for `dlrun scale run SPEC …`.
    """


def _numbers(_context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    """`1,2,4` as numbers."""
    numbers = []
    for part in (text or "").split(",") if text is not None else ():
        if not digits(part.strip()) or not 1 <= int(part) <= 1_000_000:
            raise click.BadParameter(f"`{text}` is not a list of numbers such as 1,2,4", param=parameter)
        numbers.append(int(part))
    return tuple(numbers)


def _samples(_context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """`1.28e6` as a number."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e300:
        raise click.BadParameter(f"`{text}` is not a number of samples", param=parameter)
    return value


_SAMPLES = click.option(
    "--samples",
    callback=_samples,
    metavar="N",
    help="Number of samples of a complete training, to estimate its duration.",
)


def _output_options(function: Any) -> Any:
    for option in (
        json_option,
        click.option(
            "--model",
            type=click.Choice(["ring", "tree"]),
            help="All-reduce algorithm of the extrapolation; default: the better fit.",
        ),
        click.option(
            "--estimate",
            callback=_numbers,
            metavar="NODES",
            help="Extrapolate to these numbers of nodes.",
        ),
        force_option,
        click.option(
            "--picture",
            type=UserPath(),
            help="Also plot it, as .svg or .png (needs matplotlib).",
        ),
        click.option(
            "--format", "form", type=click.Choice(FORMATS), default="text", help="Format of the table."
        ),
        heading("Output"),
    ):
        function = option(function)
    return function


@command.command(
    "run",
    cls=Command,
    short_help="Run a training at several sizes and print speed-up and efficiency.",
    epilog=examples("dlrun scale spec.yaml --nodes 1,2,4,8 --repeat 3 --bound 0.8"),
)
@heading("Inputs")
@spec_options
@heading("Study")
@click.option(
    "--nodes",
    callback=_numbers,
    metavar="LIST",
    help="Numbers of nodes, such as 1,2,4,8; default: the number in the spec.",
)
@click.option(
    "--ranks-per-node",
    callback=_numbers,
    metavar="LIST",
    help="Ranks on each node; default: as in the spec.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Number of runs of each size.  [default: 3]",
)
@click.option(
    "--weak", "mode", flag_value="weak", help="Weak scaling: constant batch per rank (the default)."
)
@click.option(
    "--strong",
    "mode",
    flag_value="strong",
    help="Strong scaling: constant global batch, that of the smallest size.",
)
@_SAMPLES
@click.option(
    "--bound",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Lowest acceptable efficiency.  [default: 0.8]",
)
@click.option("--out", type=UserPath(), help="Directory of the study; default: NAME-scaling.")
@heading("Submission")
@login_options
@click.option(
    "--at-once", is_flag=True, help="Let the sizes run at the same time instead of one after the other."
)
@click.option(
    "--pool", type=click.IntRange(min=1), metavar="NODES",
    help="The runs of a size share one job with up to so many nodes, each run alone on its nodes; larger sizes remain arrays.",
)  # fmt: skip
@click.option(
    "--no-wait", is_flag=True, help="Submit the jobs and return; the same command resumes the study later."
)
@_output_options
def run(
    spec: Path,
    site: str | None,
    sets: tuple[str, ...],
    nodes: tuple[int, ...],
    ranks_per_node: tuple[int, ...],
    out: Path | None,
    at_once: bool,
    no_wait: bool,
    **options: Any,
) -> int:
    """Run SPEC at several sizes, several times each, and print a table of speed-up and efficiency.

    The throughput is read from the program's log: automatically for common trainers, else by
    `metrics: {throughput: …}` of the spec. Each size is one job array whose runs follow one another. The same command
    resumes an interrupted study, repeats failed runs and adds sizes; completed runs are not repeated. On a single
    machine, vary the ranks with `--ranks-per-node 1,2,4` instead of the nodes.
    """
    from dlrun.jobs.queue import study as studies
    from dlrun.terminal.progress import progress
    from dlrun.trials.scale import submit as scaling_submit

    names = ("repeat", "mode", "samples", "bound", "host", "transport", "pool")
    settings = {name: options.pop(name) for name in names}
    study = _study(spec, site, sets=sets, out=out, nodes=nodes, ranks=ranks_per_node, settings=settings)
    place = scaling_submit.submitter(study)
    study = scaling_submit.checked(study, place)
    if warning := scaling_submit.uneven_threads(study, place):
        notice(f"warning: {warning}")
    study.save()
    try:
        with studies.locked(study), progress(study.name) as work:
            studies.settle(study)
            scaling_submit.carry_out(
                study, place, at_once=at_once, wait=not no_wait, notice=work.notice, step=work.step
            )
    except KeyboardInterrupt:
        notice(
            f"\nsubmitted jobs keep running; the same command resumes, "
            f"`dlrun scale cancel {shlex.quote(str(study.directory))}` ends them"
        )
        return 130
    return _show(study, files=not no_wait, **options)


def _study(
    spec: Path,
    site: str | None,
    sets: tuple[str, ...],
    out: Path | None,
    nodes: tuple[int, ...],
    ranks: tuple[int, ...],
    settings: dict[str, Any],
) -> Any:
    """The study to resume, else a new one."""
    from dlrun.jobs.queue import study as studies
    from dlrun.jobs.records import directories
    from dlrun.jobs.remote.destination import login_of
    from dlrun.jobs.submission.prepare import read_inputs
    from dlrun.system.paths import working_directory

    inputs = read_inputs(spec, sets=sets, site=site)
    if inputs is None:
        raise Invalid(
            f"`{spec}` is a saved plan, which has only one size", help="give the spec that it was made from"
        )
    safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in inputs.spec.name).strip(".-") or "study"
    directory = (out or Path(f"{safe}-scaling")).absolute()
    known = studies.load(directory)
    new = {name: value for name, value in settings.items() if value is not None}
    counts = nodes or (() if known and not ranks else (inputs.spec.resources.nodes,))
    sizes = tuple(studies.Size(nodes=n, per_node=r) for n in counts for r in ranks or (0,))
    if known is None:
        if not directories.is_free(directory, studies.KIND):
            raise Invalid(
                f"`{directory}` exists and is not a study", help="choose another directory with `--out`"
            )
        login = login_of(inputs) if "host" not in new else None
        if login is not None:
            new = {"host": login.host, "transport": login.transport} | new
        defaults: dict[str, Any] = {"repeat": 3, "mode": "weak", "samples": None, "bound": 0.8}
        return studies.Study(
            directory=directory, name=inputs.spec.name, origin=working_directory(), spec=spec.absolute(), site=site, sets=sets,
            sizes=tuple(sorted(set(sizes))), metrics=inputs.spec.metrics, **(defaults | new),
        )  # fmt: skip
    directories.require_list(directory, studies.KIND, f"dlrun scale show {shlex.quote(str(directory))}")
    if "mode" in new and new["mode"] != known.mode:
        raise Invalid(
            f"the study in `{directory}` measures {known.mode} scaling", help="start another with `--out`"
        )
    if "pool" in new and new["pool"] != known.pool:
        how = f"with `--pool {known.pool}`" if known.pool else "without `--pool`"
        raise Invalid(f"the study in `{directory}` was started {how}", help="start another with `--out`")
    if "host" in new and new["host"] != known.host:
        where = f"on `{known.host}`" if known.host else "from this machine"
        raise Invalid(f"the study in `{directory}` is submitted {where}", help="start another with `--out`")
    study = replace(known, spec=spec.absolute(), site=site, sets=sets, metrics=inputs.spec.metrics, **new)
    return studies.with_sizes(study, sizes)


@command.command(
    "show",
    cls=Command,
    short_help="Print the table of a study.",
    epilog=examples("dlrun scale show resnet50-scaling --format latex"),
)
@click.argument("directory", type=UserPath(), metavar="DIR")
@heading("Study")
@_SAMPLES
@click.option("--bound", type=click.FloatRange(0, 1), metavar="RATIO", help="Lowest acceptable efficiency.")
@_output_options
def show(directory: Path, samples: float | None, bound: float | None, **output: Any) -> int:
    """Print the table of a study, complete or not; nothing is submitted."""
    from dlrun.jobs.queue import study as studies

    study = studies.find(directory)
    study = replace(study, samples=samples or study.samples, bound=study.bound if bound is None else bound)
    return _show(study, files=False, **output)


@command.command("cancel", epilog=examples("dlrun scale cancel resnet50-scaling"))
@click.argument("directory", type=UserPath(), metavar="DIR")
@json_option
def cancel(directory: Path, as_json: bool) -> None:
    """Cancel the jobs of a study. Measurements are kept, and `dlrun scale SPEC` resumes the study."""
    from dlrun.jobs.queue import control, study as studies
    from dlrun.jobs.queue.selection import Selection
    from dlrun.trials.scale.measured import measured_runs

    study = studies.find(directory)
    left = {run.job.directory: run.job for run in measured_runs(study) if not run.result.state.final}
    for _, job in studies.jobs_of(study):
        if job.resumable:
            notice(
                f"{job.directory.name}: its submission was interrupted; complete it with `dlrun scale SPEC`, then cancel it"
            )
    if not left:
        notice("the study has no pending or running jobs")
    done = []
    for selection, result in control.cancel([Selection(job=job) for job in left.values()]):
        done.append({"job": str(selection), "result": result})
        notice(f"{selection}: {result}")
    if as_json:
        emit("cancel", done)


@command.command(
    "compare",
    short_help="Compare the throughput of two studies.",
    epilog=examples("dlrun scale compare without-binding with-binding"),
)
@click.argument("first", type=UserPath(), metavar="A")
@click.argument("second", type=UserPath(), metavar="B")
@json_option
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two studies: throughput of B relative to A at each common size, with the spread of all runs."""
    from dlrun.jobs.queue import study as studies
    from dlrun.trials.scale import compare as comparing
    from dlrun.trials.scale.measured import measured_runs
    from dlrun.trials.scale.output import print_ratios

    runs = []
    for word in (first, second):
        measurements = [run.as_run for run in measured_runs(studies.find(word))]
        runs.append([measurement for measurement in measurements if measurement is not None])
        if not runs[-1]:
            raise Invalid(
                f"the study `{word}` has no measurements",
                help=f"see `dlrun scale show {shlex.quote(str(word))}`",
            )
    try:
        ratios = comparing.compare(*runs)
    except ValueError as error:
        raise Invalid(f"`{first}` and `{second}` cannot be compared: {error}") from None
    print_ratios(ratios, first.name, second.name, runs[0][0].unit, as_json=as_json)


def _show(
    study: Any,
    *,
    files: bool,
    form: str,
    picture: Path | None,
    force: bool,
    estimate: tuple[int, ...],
    model: str | None,
    as_json: bool,
) -> int:
    from dlrun.trials.scale.output import Wanted, print_study

    wanted = Wanted(
        form=form, picture=picture, force=force, estimate=estimate, model=model, as_json=as_json, files=files
    )
    return print_study(study, wanted)
