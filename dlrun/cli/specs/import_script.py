"""`dlrun init --from`: a training spec from an existing batch script."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dlrun.errors import TO_CHECK, OperationFailed
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import UserPath, force_option, json_option, site_option
from dlrun.terminal.printing import echo_data, emit, notice

if TYPE_CHECKING:
    from dlrun.importing.script import Roles


@click.command(
    epilog=examples(
        "dlrun init --from train.sbatch --site perlmutter -o train.yaml",
        "dlrun init --from train.sbatch --run | patch -p1",
        "dlrun init --from train.sbatch -- --lr 0.1   # sbatch train.sbatch --lr 0.1",
    )
)
@click.argument("script", type=UserPath())
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]")
@site_option(
    "Site profile to name in the spec, and to convert for; default: not named, the profile of this cluster."
)
@click.option("-o", "--output", type=UserPath(), help="Write the spec here instead of printing it.")
@click.option(
    "--run",
    "in_script",
    is_flag=True,
    help="Keep the script, and print the change of its launch lines to `dlrun run` as a diff; -o writes the new script.",
)
@force_option
@json_option
def command(
    script: Path,
    arguments: tuple[str, ...],
    site: str | None,
    output: Path | None,
    in_script: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Convert a batch script, of any scheduler that dlrun supports, to a training spec.

    Directives, modules, environments, variables and the training command become keys of the spec; other lines are kept as shell
    text where they have the same effect. What may change the training is marked `check this` in the spec, and the exit code is
    then 5. ARGUMENTS are those with which the script is submitted.
    """
    from dlrun.cli.specs.import_plan import check
    from dlrun.config.secrets import refuse_secrets
    from dlrun.importing import read_script
    from dlrun.importing.text import as_data, shown, spec_text
    from dlrun.model.origin import Layer
    from dlrun.system.inputs.text import read_text
    from dlrun.system.writing import write_output

    text = read_text(script, Layer.SPEC)
    if in_script:
        return _in_script(text, script, output, force=force, as_json=as_json)
    where = site or _here()
    facts = _facts(where)
    draft = read_script(
        text, script.name, facts.threads, arguments or None, node_local=facts.node_local, roles=facts.roles
    )
    check(draft, spec_text(draft, None), where)
    spec = spec_text(draft, script.name, site)
    refuse_secrets(spec, f"`{script}`")
    if as_json:
        emit("import", {"spec": spec, **as_data(draft)})
    elif output is None:
        echo_data(spec)
    if output is not None:
        write_output(output, spec, force=force)
    if not as_json:
        for left in draft.left_out if output is not None else ():
            notice(shown(left))
        for entry in draft.to_check:
            notice(f"check this: {shown(entry)}")
    if output is not None:
        notice(f"wrote {output}; `dlrun plan {shlex.quote(str(output))}` shows the resulting plan")
    return TO_CHECK if draft.to_check else 0


def _in_script(text: str, script: Path, output: Path | None, *, force: bool, as_json: bool) -> int:
    """Print or write the script with `dlrun run` in its launch lines; returns the exit code."""
    from dataclasses import asdict

    from dlrun.importing.run_line import with_run
    from dlrun.system.writing import write_output

    changed = with_run(text)
    diff = changed.diff(text, script.name)
    for remark in () if as_json else (*changed.dropped, *changed.unchanged):
        kind = "dropped" if remark in changed.dropped else "not changed"
        first, *more = remark.text.splitlines()
        notice(f"{kind}: line {remark.line}: {first}{' …' if more else ''}: {remark.because}")
    if not changed.lines and not changed.unchanged and not as_json:
        raise OperationFailed(
            f"`{script}` has no line with a launcher that `dlrun run` replaces (srun, mpirun, torchrun, …)",
            help=f"`dlrun init --from {shlex.quote(str(script))}` converts the whole script to a spec",
        )
    if output is not None:
        write_output(output, changed.text, force=force)
        notice(f"wrote {output}")
    if as_json:
        notes = {
            name: [asdict(remark) for remark in getattr(changed, name)] for name in ("dropped", "unchanged")
        }
        emit("import-run", {"diff": diff, "script": changed.text, "lines": changed.lines, **notes})
    elif output is None:
        echo_data(diff)
    return TO_CHECK if changed.unchanged else 0


def _here() -> str | None:
    """The profile that describes this cluster, as `dlrun plan` finds it; None if it is a generic one."""
    from dlrun.system.inputs.profiles import Machine, recognise

    here = Machine()
    name = here.environment.get("DLRUN_SITE") or recognise(here)[0]
    return None if name == "workstation" or name.startswith("generic-") else name


class _SiteFacts(NamedTuple):
    """The scheduler's CPUs per core (1 without a site), whether there is node-local storage, and what roles can have."""

    threads: int
    node_local: bool | None
    roles: Roles


def _facts(site: str | None) -> _SiteFacts:
    """What a conversion has to know about the site."""
    if site is None:
        return _SiteFacts(1, None, "nodes")
    from dlrun import backends
    from dlrun.system.inputs.profiles import load_site

    profile = load_site(site).site
    kinds = profile.node_types.values()
    counted = {kind.topology.smt for kind in kinds if kind.topology is not None}
    threads = counted.pop() if profile.scheduler.cpus == "threads" and len(counted) == 1 else 1
    roles: Roles = "nodes"
    if not (
        backends.scheduler(profile.scheduler.type).ROLES_INSIDE
        and backends.launcher(profile.launcher.name).CHOOSES_NODES
    ):
        roles = "none"
    elif kinds and all(kind.topology is not None for kind in kinds):
        roles = "shared" if profile.scheduler.exclusive else "exclusive"
    return _SiteFacts(threads, profile.storage.node_local is not None, roles)
