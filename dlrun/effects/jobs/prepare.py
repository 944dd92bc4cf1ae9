"""Spec file -> inputs -> plan: what `submit`, `plan`, `render` and `explain` all begin with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dlrun import backends
from dlrun.effects.inputs import preflight
from dlrun.effects.inputs import spec as reading
from dlrun.effects.inputs.data_size import measure
from dlrun.effects.inputs.home import at_home
from dlrun.effects.inputs.installed import look
from dlrun.effects.inputs.spec import Inputs
from dlrun.effects.records import jobs
from dlrun.errors import Invalid
from dlrun.model.plan import Dependency, Plan
from dlrun.model.problem import InvalidFile
from dlrun.model.record import record
from dlrun.model.spec import Spec
from dlrun.plan.build import PlanInputs, build


@record(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan with what it was made from; `inputs` is None for a plan read from its own file."""

    plan: Plan
    inputs: Inputs | None


def read(path: Path, *, sets: Sequence[str] = (), site: str | None = None) -> Inputs | None:
    """What a plan is made from; None for a saved plan (`.json`). Raises InvalidFile."""
    if path.suffix == ".json":
        return None
    return reading.load_spec(path, sets=sets, site=site, options=backends.framework_options)


def prepare(
    path: Path,
    *,
    sets: Sequence[str] = (),
    site: str | None = None,
    base: Path | None = None,
    inputs: Inputs | None = None,
) -> Prepared:
    """Read a spec (or a plan, by its `.json`) and decide everything; `inputs` is what `read` gave, if it was.

    Raises InvalidFile with all problems of spec, profile and plan.
    """
    if path.suffix == ".json":
        if sets or site:
            raise Invalid(
                "a saved plan is submitted as it is",
                help="leave out `--set` and `--site`, or start from the spec",
            )
        return Prepared(plan=jobs.read_plan(path), inputs=None)
    loaded = inputs or reading.load_spec(path, sets=sets, site=site, options=backends.framework_options)
    spec = at_home(loaded.spec, str(Path.home()))
    problems = preflight.check(spec, Path.cwd(), loaded.origins)
    try:
        plan = build(
            PlanInputs(
                spec=spec,
                site=loaded.site,
                topology=reading.topology_for_spec(loaded),
                directory=str(Path.cwd() / (spec.directory or "")),
                origins=loaded.origins,
                sources=loaded.sources,
                installed=look(loaded.spec, Path.cwd()),
                after=_dependencies(spec, base or jobs.home()),
                measured=measure(spec, Path.cwd()) if loaded.site.storage.node_local else {},
            )
        )
    except InvalidFile as error:
        raise InvalidFile([*error.problems, *problems], dict(loaded.sources)) from None
    if any(not p.warning for p in problems):
        raise InvalidFile(problems, dict(loaded.sources))
    return Prepared(plan=plan, inputs=loaded)


def _dependencies(spec: Spec, base: Path) -> tuple[Dependency, ...]:
    """Jobs named in `after`, as the scheduler knows them."""
    found = []
    for after in spec.after:
        job_id, cluster = after.job, None
        if not after.job[:1].isdigit():
            from dlrun.effects.clusters import identity  # noqa: PLC0415 - a dry run needs no client

            job = jobs.find(after.job, base)
            if job.job_id is None:
                raise Invalid(f"job `{after.job}` in `after` was never submitted")
            job_id, cluster = job.job_id, identity.of(job)
        found.append(Dependency(job_id=job_id, when=after.when, cluster=cluster))
    return tuple(found)
