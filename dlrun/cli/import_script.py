"""`dlrun import`: a training spec from an existing batch script."""

from __future__ import annotations

from pathlib import Path

import click

from dlrun.cli.files import write_new
from dlrun.cli.help_page import examples
from dlrun.cli.options import UserPath, json_option, site_option
from dlrun.cli.printing import echo_data, emit, notice


@click.command(epilog=examples("dlrun import train.sbatch --site perlmutter -o train.yaml"))
@click.argument("script", type=UserPath())
@site_option("Site profile to name in the spec.")
@click.option("-o", "--output", type=UserPath(), help="Write the spec here instead of printing it.")
@json_option
def command(script: Path, site: str | None, output: Path | None, as_json: bool) -> int:
    """Convert a batch script of Slurm, PBS, Flux or Grid Engine to a training spec.

    Directives, modules, environments, variables and the training command become keys of the spec. Lines that dlrun replaces
    or cannot convert are listed with their numbers and the reason.
    """
    from dlrun.config.batch_script import read_script
    from dlrun.config.batch_script.text import spec_text
    from dlrun.effects.inputs.text import read_text
    from dlrun.errors import Invalid
    from dlrun.model.origin import Layer

    draft = read_script(read_text(script, Layer.SPEC), script.name, _threads_per_core(site))
    if not (draft.get("command") or draft.get("run")):
        if draft.loop is not None:
            raise Invalid(
                f"`{script}` starts the training in a loop or a condition, in line {draft.loop}",
                help="write the line itself in its place, and what changes from run to run under `sweep:` of the spec",
            )
        raise Invalid(
            f"`{script}` has no line that starts a training",
            help="dlrun looks for srun, mpirun, torchrun, similar launchers, or python; write the spec with `command:` by hand",
        )
    text = spec_text(draft, script.name, site)
    if as_json:
        left = [{"line": one.line, "text": one.text, "because": one.because} for one in draft.left_out]
        emit("import", {"spec": text, "values": draft.values, "left_out": left})
    elif output is None:
        echo_data(text)
    else:
        write_new(output, text, help="name another file, or remove it first")
    if output is not None:
        for one in draft.left_out:
            notice(f"line {one.line}: {one.text.splitlines()[0]}: {one.because}")
        notice(f"wrote {output}; `dlrun plan {output}` shows the resulting plan")
    return 0


def _threads_per_core(site: str | None) -> int:
    """How many CPUs of the site's scheduler a core is; 1 where its nodes differ, or without a site."""
    if site is None:
        return 1
    from dlrun.effects.inputs.profiles import load_site

    profile = load_site(site).site
    counted = {kind.topology.smt for kind in profile.node_types.values() if kind.topology is not None}
    return counted.pop() if profile.scheduler.cpus == "threads" and len(counted) == 1 else 1
