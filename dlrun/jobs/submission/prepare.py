"""From a spec file to a plan: the first step of `submit`, `plan`, `render` and `explain`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrun import backends
from dlrun.config.load import RoleInputs
from dlrun.errors import Invalid
from dlrun.model.data import is_hub
from dlrun.model.observed import HubCopy
from dlrun.model.plan import Dependency, Plan
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.record import record
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import digits
from dlrun.plan.build import PlanInputs, build, sentence
from dlrun.plan.resources import node_type_of
from dlrun.system.inputs import preflight, spec as reading
from dlrun.system.inputs.data_size import measure_data
from dlrun.system.inputs.home import at_home
from dlrun.system.inputs.installed import read_installed
from dlrun.system.inputs.spec import Inputs
from dlrun.system.paths import home, working_directory

if TYPE_CHECKING:
    from dlrun.plan.role_jobs.inputs import RolePlanInputs


@record(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan with its inputs; `inputs` is None for a saved plan."""

    plan: Plan
    inputs: Inputs | None


def read_inputs(path: Path, *, sets: Sequence[str] = (), site: str | None = None) -> Inputs | None:
    """The inputs of a spec; None for a saved plan (see `_is_plan`). Raises InvalidFile."""
    if _is_plan(path):
        return None
    return reading.load_spec(path, sets=sets, site=site, options=backends.framework_options)


def spec_inputs(path: Path, *, sets: Sequence[str] = (), site: str | None = None) -> Inputs:
    """The inputs of a spec; raises Invalid for a saved plan, InvalidFile."""
    inputs = read_inputs(path, sets=sets, site=site)
    if inputs is None:
        raise Invalid(f"`{path}` is a saved plan", help="give the spec that it was made from")
    return inputs


def _is_plan(path: Path) -> bool:
    """Whether a file is a plan of `dlrun plan -o`; specs may be JSON, too."""
    if path.suffix != ".json":
        return False
    from dlrun.jobs.records.validation import read_json  # noqa: PLC0415 - most read a spec

    data = read_json(path)
    return data is None or "request" in data or ("command" not in data and "run" not in data)


def prepare(
    path: Path,
    *,
    sets: Sequence[str] = (),
    site: str | None = None,
    base: Path | None = None,
    inputs: Inputs | None = None,
) -> Prepared:
    """Read a spec or a saved plan (see `_is_plan`) and return its plan; inputs: result of `read_inputs`, if called.

    base: directory of the jobs under `after`. Raises InvalidFile with all problems of spec, profile and plan, Invalid for
    `sets` or `site` with a saved plan.
    """
    if _is_plan(path):
        if sets or site:
            raise Invalid(
                "a saved plan is submitted unchanged",
                help="leave out `--set` and `--site`, or start from the spec",
            )
        from dlrun.jobs.records import plans  # noqa: PLC0415 - most read a spec

        return Prepared(plan=plans.read_plan(path), inputs=None)
    loaded = inputs or reading.load_spec(path, sets=sets, site=site, options=backends.framework_options)
    own_home, here = home(), working_directory()

    def at_own_home(spec: Spec) -> Spec:
        return at_home(spec, str(own_home)) if own_home is not None else spec

    spec = at_own_home(loaded.spec)
    roles = {name: replace(role, spec=at_own_home(role.spec)) for name, role in loaded.roles.items()}
    problems: list[Problem] = []
    for program in replace(loaded, spec=spec, roles=roles).programs:
        problems += preflight.check(program.spec, here, program.origins)
    problems = list(dict.fromkeys(problems))
    try:
        plan = build_plan(
            replace(
                plan_inputs(loaded, spec, workplace(here, spec)),
                installed=read_installed(spec, here),
                after=dependencies(spec, loaded.site.scheduler.type, base) if spec.after else (),
                **({} if roles else _of_data(spec, loaded.site, here)),
            ),
            roles,
            partial(workplace, here),
            here,
        )
    except InvalidFile as error:
        # All problems at once: those of the plan and those of missing files.
        raise InvalidFile([*error.problems, *problems], dict(loaded.sources)) from None
    if any(not p.warning for p in problems):
        raise InvalidFile(problems, dict(loaded.sources))
    return Prepared(
        plan=replace(plan, warnings=(*plan.warnings, *map(sentence, problems))) if problems else plan,
        inputs=loaded,
    )


def plan_inputs(inputs: Inputs, spec: Spec, directory: str) -> PlanInputs:
    """What the plan of a spec is made of, without anything that this machine or earlier jobs have; directory: of the command."""
    return PlanInputs(
        spec=spec,
        site=inputs.site,
        topology=reading.topology_for_spec(inputs),
        directory=directory,
        origins=inputs.origins,
        notes=inputs.notes,
        sources=inputs.sources,
    )


def workplace(here: Path, spec: Spec) -> str:
    """The working directory of a program that is submitted in the directory `here`."""
    return str(here / (spec.directory or ""))


def build_plan(
    inputs: PlanInputs,
    roles: Mapping[str, RoleInputs],
    place: Callable[[Spec], str],
    here: Path | None = None,
) -> Plan:
    """The plan of a job with one program, or with these roles; raises InvalidFile.

    place: the working directory of a program; here: the directory whose data are measured; None: they are on another host.
    """
    if not roles:
        return build(inputs)
    from dlrun.plan.role_jobs.build import build_all  # noqa: PLC0415 - most jobs have one program

    return build_all(
        inputs,
        {name: role_inputs(inputs, role, place(role.spec), here) for name, role in roles.items()},
    )


def role_inputs(inputs: PlanInputs, role: RoleInputs, directory: str, here: Path | None) -> RolePlanInputs:
    """What the plan of a role is made of; its nodes are those of the job unless it names others. here: as in `build_plan`."""
    from dlrun.plan.role_jobs.inputs import RolePlanInputs  # noqa: PLC0415 - most jobs have one program

    loaded = role.loaded
    site = loaded.site if loaded is not None else inputs.site
    kind = node_type_of(role.spec.resources, site)
    return RolePlanInputs(
        spec=role.spec,
        directory=directory,
        origins=role.origins,
        site=site,
        topology=reading.topology_for_site(loaded, kind) if loaded is not None else inputs.topology,
        **(_of_data(role.spec, site, here) if here is not None else {}),
    )


def _of_data(spec: Spec, site: Site, here: Path) -> dict[str, Any]:
    """What this host knows of the data of a program, as fields of PlanInputs."""
    return {
        "measured": measure_data(spec, here) if site.storage.node_local else {},
        "hubs": _in_store(spec, site),
    }


def _in_store(spec: Spec, site: Site) -> dict[str, HubCopy]:
    """Name -> copy in the store, of the data sets whose source is a commit of a hub."""
    if not any(is_hub(data.source) for data in spec.data.values()):
        return {}
    from dlrun.jobs.hubs.needed import known  # noqa: PLC0415 - most specs name none
    from dlrun.jobs.records.jobs import base_for  # noqa: PLC0415

    return known(spec.data, base_for(site).absolute())


def dependencies(
    spec: Spec, scheduler: str, base: Path | None, host: str | None = None
) -> tuple[Dependency, ...]:
    """The jobs under `after` with their scheduler ids; host: the login node that they must be on, if any.

    Raises Invalid for a job that was never submitted, or not on `host`.
    """
    from dlrun.jobs.records import jobs  # noqa: PLC0415 - most jobs wait for none

    resolved = []
    for after in spec.after:
        job_id, cluster = after.job, None
        if not digits(after.job[:1]):
            from dlrun.jobs.clusters import identity  # noqa: PLC0415 - a dry run needs no client

            try:
                job = jobs.find(after.job, base)
            except jobs.NoSuchJob:
                # Some schedulers' ids begin with a letter, as names do: names come first, and lower-case words are not ids.
                if not _is_id(after.job, scheduler):
                    raise
                job_id = backends.scheduler(scheduler).recorded(job_id) or job_id
                resolved.append(Dependency(job_id=job_id, when=after.when, cluster=None))
                continue
            if host is not None and (job.remote is None or job.remote.host != host):
                raise Invalid(f"job `{after.job}` in `after` was not submitted on `{host}`")
            if job.job_id is None:
                raise Invalid(f"job `{after.job}` in `after` was never submitted")
            job_id, cluster = job.job_id, identity.of(job)
        resolved.append(Dependency(job_id=job_id, when=after.when, cluster=cluster))
    return tuple(resolved)


def _is_id(word: str, scheduler: str) -> bool:
    """Whether a word has the form of the scheduler's job ids, and is not a plain word."""
    is_word = word.isascii() and word.isalpha() and word.islower()
    back_end = backends.scheduler(scheduler)
    return not is_word and (re.fullmatch(back_end.ID, word) or back_end.recorded(word)) is not None
