"""Shell completion of jobs, sites, spec keys after `--set`, and problem codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


def job_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's
    """Jobs of this machine, newest first."""
    from dlrun.effects.records import jobs

    names = ["latest", *(job.directory.name for job in jobs.all_jobs(jobs.home()))]
    return [name for name in names if name.startswith(incomplete)]


def site_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Site profiles that can be found."""
    from dlrun.effects.inputs.profiles import Machine, available

    return [name for name in available(Machine()) if name.startswith(incomplete)]


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Dotted keys of a spec, as `--set` takes them: one level at a time."""
    from dlrun.config.hints import keys
    from dlrun.model.spec import Spec

    *path, last = incomplete.split(".")
    schema: type | None = Spec
    for name in path:
        key = keys(schema).get(name) if schema is not None else None
        schema = key.hint.schema if key is not None else None
    before = "".join(f"{name}." for name in path)
    return [
        f"{before}{name}{'.' if key.hint.schema is not None else '='}"
        for name, key in (keys(schema) if schema is not None else {}).items()
        if name.startswith(last)
    ]


def explainable(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Problem codes, and the keys of a spec."""
    from dlrun.plan.codes import CODES

    codes = [code for code in CODES if code.startswith(incomplete.upper() or "DLR")]
    return codes or [name.rstrip("=.") for name in settings(ctx, param, incomplete)]
