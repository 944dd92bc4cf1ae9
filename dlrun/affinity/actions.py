"""The actions of `dlrun tune-affinity`, one function each; `prepare` combines options, spec and topology first."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from dlrun.affinity.bind import library, local_rank
from dlrun.affinity.inputs import PlacementInputs, as_a_rank, on_this_machine, placement_inputs
from dlrun.affinity.settings import BindingContext, at_run_time, kept, settings
from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement, PlacementOptions, PlacementRequest, Preset
from dlrun.plan.affinity import place
from dlrun.plan.affinity.presets import default_comm_cores, known_preset, preset
from dlrun.plan.binding import PLANNED, request_of
from dlrun.system.writing import edit, write_output
from dlrun.terminal import table
from dlrun.terminal.printing import echo, notice, warn
from dlrun.terminal.table import Column, Rows, show as show_table

KEYS = (*PLANNED, "loader_cores")
"""Options that are keys of a spec's `placement:` under the same name."""


_DROPPED = {"spare": 3, "loader": 2, "comm": 1}
"""Columns that are left out on a narrow terminal, the highest number first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementTask:
    """What to do: the node, the placement request, the context of the job, and the options as given."""

    start: PlacementInputs
    request: PlacementRequest
    job: BindingContext
    options: Mapping[str, Any]

    def placement(self) -> Placement:
        """The placement; raises Invalid if the request cannot be met."""
        return place(self.start.topology, self.request)


def prepare(options: Mapping[str, Any]) -> PlacementTask:
    """Combine options, spec and topology in one request; an option overrides the spec.

    Raises Invalid for options that contradict one another, or that this machine cannot carry out.
    """
    inputs = placement_inputs(options["spec"], options["site"], options["node_type"], options["topology"])
    actions = [name for name in ("capture", "explain", "verify", "measure", "execute") if options[name]]
    actions = ["exec" if name == "execute" else name for name in actions]
    if len(actions) > 1:
        raise Invalid(f"--{actions[0]} and --{actions[1]} cannot be combined", help="give one of them")
    # Actions on this machine need its own topology, whatever the spec or site describe.
    here = [name for name in actions if name in ("verify", "measure", "exec")]
    if here and not inputs.live:
        inputs = on_this_machine(inputs, f"--{here[0]}", described=options["topology"] is not None)
    if here and options["topology"] is None and local_rank() is not None:
        inputs = as_a_rank(inputs)
    if options["command"] and not here:
        raise Invalid("a command after `--` is for --exec, --verify or --measure", help="add one of them")
    if options["report"] and (not options["measure"] or options["command"] or options["write"]):
        raise Invalid(
            "`--report` needs `--measure`, without a command and without `--write`",
            help="remove the command and `--write`, and add `--measure`",
        )
    if options["execute"] and not options["command"]:
        raise Invalid("--exec needs a command", help="as in `dlrun tune-affinity --exec python train.py`")
    _check_output(options)
    chosen = _chosen(options, inputs.framework)
    _check_write(options)
    return PlacementTask(
        start=inputs,
        request=_request(options, inputs, chosen),
        job=_job(options, inputs, chosen),
        options=options,
    )


def _job(options: Mapping[str, Any], inputs: PlacementInputs, chosen: Preset) -> BindingContext:
    """What variables depend on; without a site, a rank sees only its own GPUs."""
    site = inputs.gpu_binding
    return BindingContext(
        preset=chosen,
        given=_given(inputs),
        gpu_binding=options["gpu_binding"] or (site.policy if site else "visible"),
        gpu_variable=site.variable if site else None,
    )


def _request(options: Mapping[str, Any], inputs: PlacementInputs, chosen: Preset) -> PlacementRequest:
    """The request as a plan makes it: the spec's `placement:`, or its defaults, overridden by the options."""
    topology, asked = inputs.topology, inputs.asked
    overrides = {name: options[name] for name in KEYS if options[name] is not None}

    # Without a spec, defaults depend on node and framework; with one, its values count even if they are None.
    def first(name: str, of_spec: int | None, otherwise: int | None) -> int | None:
        return options[name] if options[name] is not None else of_spec if asked is not None else otherwise

    preset_cores = default_comm_cores(chosen, topology)
    of_spec = asked.comm_cores if asked is not None and not options["framework"] else preset_cores
    return request_of(
        replace(asked.options if asked is not None else PlacementOptions(), **overrides),
        topology,
        ranks_per_node=first(
            "ranks_per_node",
            asked.ranks_per_node if asked is not None else None,
            len(topology.gpus) or len(topology.cpu_nodes()),
        )
        or 1,
        comm_cores=first("comm_cores", of_spec, preset_cores) or 0,
        gpus_per_rank=first("gpus_per_rank", asked.gpus_per_rank if asked is not None else None, None),
    )


def _chosen(options: Mapping[str, Any], framework: str | None) -> Preset:
    """The preset of `--framework`, else of the spec's `framework`.

    `--openmp` overrides its OpenMP runtime. GNU threads are bound one by one only on request: every data-loading process
    forked by the main thread would inherit its mask of one core. `rank.sh` of a job binds no thread either.
    """
    if options["framework"]:
        chosen = preset(options["framework"])
    else:
        chosen = (known_preset(framework) if framework else None) or Preset()
    if options["openmp"]:
        return replace(chosen, openmp=options["openmp"], thread_pools=False)
    if chosen.openmp == "gomp" and options["form"] != "env":
        return replace(chosen, openmp="none")
    return chosen


def _check_output(options: Mapping[str, Any]) -> None:
    """Reject file names of pictures for other output."""
    path: Path | None = options["output"]
    suffix = path.suffix.lower() if path is not None else ""
    if suffix == ".png":
        raise Invalid(
            f"cannot write `{path}`: pictures are SVG",
            help="name a file that ends in .svg; every browser opens it, and `rsvg-convert` converts it to PNG",
        )
    if suffix == ".svg" and options["form"] not in ("table", "svg"):
        raise Invalid(
            f"`{path}` is the name of a picture, but the output of `--format {options['form']}` is text",
            help="leave out --format, or name another file",
        )


def _check_write(options: Mapping[str, Any]) -> None:
    """Reject an unusable `--write` now, not after minutes of measuring."""
    path: Path | None = options["write"]
    if path is None:
        return
    if not options["measure"]:
        raise Invalid("`--write` writes the result of `--measure`", help="add `--measure`")
    if not path.exists() and not options["site"]:
        raise Invalid(
            f"`{path}` does not exist", help="name a spec, or give `--site` to write an override of it"
        )
    if path.exists() and re.search(r"^(extends|scheduler)\s*:", _text(path), re.MULTILINE):
        raise Invalid(
            f"`{path}` is already a site profile",
            help="name a new file for the override, or a spec to change",
        )


def _text(path: Path) -> str:
    """The text of a file; raises Invalid if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(f"cannot read `{path}`: {why}", help="name a spec") from None


def _given(inputs: PlacementInputs) -> dict[str, str]:
    """The user's variables in the environment, without those that this command sets for its ranks."""
    variables = {name: value for name, value in inputs.given.items() if not name.startswith("DLRUN_")}
    # Defaults, not choices of the user: torchrun's 1 leaves cores of the rank idle, and PBS's is all cores of the job.
    torchrun_default = "1" if "TORCHELASTIC_RUN_ID" in variables else None
    pbs_default = variables.get("NCPUS") if "PBS_JOBID" in variables else None
    if variables.get("OMP_NUM_THREADS", "") in (torchrun_default, pbs_default):
        variables.pop("OMP_NUM_THREADS", None)
    return variables


def show(task: PlacementTask, placement: Placement) -> str:
    """The placement in the requested format; warnings and notes go to stderr."""
    topology, form = task.start.topology, task.options["form"]
    if task.options["output"] is not None and task.options["output"].suffix == ".svg":
        form = "svg"
    if form != "json":
        jobs = {"env": task.job, "wrapper": at_run_time(placement, task.job)}
        print_notices(placement, jobs.get(form))
    if task.options["explain"]:
        return explanation(task, placement)
    if form == "table":
        return _table(task, placement)
    if form == "svg":
        from dlrun.affinity.drawing.svg import svg

        return svg(placement, topology)
    from dlrun.affinity.formats.registry import format_named

    chosen = format_named(form)
    text = chosen.emit(
        placement, topology, replace(task.job, library=library()) if form == "wrapper" else task.job
    )
    if chosen.NOTE:
        notice(f"note: {chosen.NOTE}")
    return text


def print_notices(placement: Placement, job: BindingContext | None) -> None:
    """Print warnings and the user's own settings that were kept."""
    warn(placement.warnings)
    for line in kept(placement, job) if job else ():
        notice(f"note: {line}")


def _table(task: PlacementTask, placement: Placement) -> str:
    from dlrun.affinity.drawing.blocks import blocks
    from dlrun.render.placement_table import headline, rows
    from dlrun.terminal.colour import wanted

    to_file = task.options["output"] is not None
    colour = not to_file and wanted(task.options["color"], sys.stdout, os.environ)
    cells = _cells(rows(placement), to_file=to_file)
    return f"{headline(placement)}\n\n{cells}\n\n{blocks(placement, task.start.topology, colour=colour)}"


def _cells(rows: Rows, *, to_file: bool) -> str:
    """A table with its titles: plain text in a file, drawn on a terminal with the columns that fit its width."""
    titles, *cells = rows
    if to_file:
        return table.table(titles, cells)
    return table.text([Column(title=title, drop=_DROPPED.get(title, 0)) for title in titles], cells)


def explanation(task: PlacementTask, placement: Placement) -> str:
    """The rules that applied, then every variable with its reason."""
    lines = [f"topology  {task.start.where} ({task.start.topology.source})"]
    if task.job.preset.because:
        lines.append(f"framework  {task.job.preset.because}")
    lines += [f"{step.rule}  {step.because}" for step in placement.steps]
    if task.job.preset.openmp == "none":
        because = (
            "every process forked by the main thread, such as a data loader, would inherit its single core"
        )
        lines.append(f"threads-unbound  each thread may use all of its rank's mask: {because}")
    width = max(len(line.partition("  ")[0]) for line in lines)
    lines = [f"{rule:<{width}}  {because}" for rule, _, because in (line.partition("  ") for line in lines)]
    lines.append("")
    for setting in settings(placement, task.job):
        if setting.rank in (None, 0):
            each = "" if setting.rank is None else " (rank 0)"
            lines.append(f"{setting.name}={setting.value}{each}: {setting.because}")
    return "\n".join(lines) + "\n"


def capture(task: PlacementTask) -> str:
    """The topology as JSON. The CPUs allowed to this process are left out: other jobs on such nodes have others."""
    data = replace(task.start.topology, allowed=None).to_json()
    cores = ",\n  ".join(json.dumps(core) for core in data.pop("cores"))
    rest = ",\n ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in data.items())
    return f'{{{rest},\n "cores": [\n  {cores}\n ]}}\n'


def verify(task: PlacementTask, placement: Placement) -> int:
    """Print the observed binding of each rank; returns 1 if any differs from the placement."""
    from dlrun.affinity import bind as affinity_bind, verify as seen
    from dlrun.plan.affinity.observed import UNKNOWN, memory as memory_text

    number = local_rank()
    verdicts: tuple[seen.Verdict, ...]
    if number is not None:
        verdicts = (seen.verify_self(affinity_bind.rank_of(placement, number)),)
    elif task.options["command"]:
        verdicts = seen.verify_command(placement, task.job, task.options["command"])
    else:
        verdicts = seen.verify(placement, task.job)
    for verdict in verdicts:
        got = verdict.observed
        cpus = format_list(pu for mask in got.threads for pu in mask)
        memory = "" if got.policy == UNKNOWN else f", memory {memory_text(got.policy, got.nodes)}"
        count = f"{len(got.threads)} thread{'s' * (len(got.threads) != 1)}"
        state = "; ".join(verdict.differences) or "as planned"
        echo(f"rank {got.rank}: {count} on CPUs {cpus or '-'}{memory}: {state}")
    wrong = sum(bool(verdict.differences) for verdict in verdicts)
    if wrong:
        notice(f"error: {wrong} of {len(verdicts)} ranks differ from the plan")
    return 1 if wrong else 0


def report(task: PlacementTask, placement: Placement) -> str:
    """Bandwidth, matrix product and all-reduce of each way of binding, as a table, or as SVG for an `.svg` file."""
    from dlrun.affinity import report as shown, report_run as measured

    binding_report = measured.report(task.start.topology, placement, task.job, notice=notice)
    output: Path | None = task.options["output"]
    if output is not None and output.suffix == ".svg":
        return shown.svg(binding_report)
    cells = _cells(shown.rows(binding_report), to_file=output is not None)
    return (
        "\n".join([shown.headline(binding_report), "", cells, "", *shown.conclusions(binding_report)]) + "\n"
    )


def measure(task: PlacementTask) -> None:
    """Measure, print the scores, and write the best placement with `--write`."""
    from dlrun.affinity import measure as affinity_measure
    from dlrun.plan.affinity.candidates import candidates
    from dlrun.render.placement_table import headline

    trained = task.options["command"]
    vary = not trained and not any(rank.gpus for rank in task.placement().ranks)
    tried = candidates(task.start.topology, task.request, vary_ranks=vary)
    result = affinity_measure.measure(task.start.topology, tried, task.job, trained, notice=notice)
    echo(headline(task.placement()))
    titles = (("  placement", False), ("per second", True), ("ratio", True), ("spread", True))
    show_table(
        [Column(title=title, right=right) for title, right in titles],
        [
            (
                f"{'*' if score is result.keep else ' '} {score.candidate.label}",
                f"{score.best:.4g}",
                f"{score.best / result.scores[0].best:.2f} x",
                f"{100 * score.spread / score.best:.0f} %",
            )
            for score in result.scores
        ],
    )
    echo(f"load: {result.load}; other work on the machine: {100 * result.busy:.0f} % of its CPUs")
    echo(result.because)
    if task.options["write"] is not None:
        _write(task, result.keep.candidate.request)


def _write(task: PlacementTask, winner: PlacementRequest) -> None:
    from dlrun.affinity.override import changes, site_override
    from dlrun.render.patch import patched

    path: Path = task.options["write"]
    wanted = changes(task.request, winner)
    if not wanted:
        notice(f"`{path}` is unchanged")
        return
    if path.exists():
        sets = {f"{section}.{name}": value for section, of in wanted.items() for name, value in of.items()}
        try:
            edit(path, lambda text: patched(text, sets))
        except ValueError as error:
            by_hand = ", ".join(f"{key}: {value}" for key, value in sets.items())
            raise Invalid(f"`{path}` is not changed: {error}", help=f"set {by_hand} there by hand") from None
    else:
        site = task.options["site"]
        # A relative path without `./` would be looked up as the name of a site.
        beside = Path(site).is_file()
        extends = os.path.relpath(site, path.parent) if beside else site
        extends = extends if not beside or extends.startswith("../") else f"./{extends}"
        cite = f"dlrun tune-affinity --measure on {os.uname().nodename}"
        today = date.today().isoformat()  # noqa: DTZ011 - the local date of the admin
        write_output(path, site_override(path.stem, extends, wanted, cite=cite, date=today), force=False)
        notice(f"written to {path}; `--site {path}` uses it")
        return
    notice(f"written to {path}")
