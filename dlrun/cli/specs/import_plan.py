"""The plan of an imported spec against the numbers and words of its script: what differs is to be checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.errors import DlrunError
from dlrun.jobs.submission.prepare import build_plan, plan_inputs, workplace
from dlrun.model.plan import Plan
from dlrun.model.problem import InvalidFile
from dlrun.model.site import Site
from dlrun.schedulers.draft import SpecDraft
from dlrun.system.inputs import spec as reading


def check(draft: SpecDraft, text: str, site: str | None) -> None:
    """Plan the spec for a site, or for any of its scheduler; what the plan refuses, or has in another way, is to be checked."""
    name, *sets = [site] if site else draft.anywhere or [""]
    if draft.to_check or not name:
        return
    try:
        plan = _plan(text, name, () if draft.get("launcher") else sets, is_real=site is not None)
    except InvalidFile as error:
        for problem in error.problems:
            if not problem.warning:
                draft.check(0, problem.message, "`dlrun plan` refuses the spec")
        return
    except DlrunError as error:
        draft.check(0, str(error), "`dlrun plan` refuses the spec")
        return
    for what, ours, theirs in _differences(draft, plan):
        draft.check(0, f"{what}: {theirs}", f"`dlrun plan` has {ours}")


def _plan(text: str, site: str, sets: Sequence[str], *, is_real: bool) -> Plan:
    """The plan of a spec, of which no file is looked at."""
    loaded = reading.load_spec(
        Path("spec.yaml"), sets=sets, site=site, text=text, options=backends.framework_options
    )
    place = partial(workplace, Path("/"))
    inputs = plan_inputs(loaded, loaded.spec, place(loaded.spec))
    if not is_real:
        inputs = replace(inputs, site=_assumed(inputs.site))
    return build_plan(inputs, loaded.roles, place)


def _assumed(site: Site) -> Site:
    """A generic profile with what each cell of Grid Engine has under names of its own: a parallel environment, complexes."""
    scheduler = site.scheduler
    complexes = replace(scheduler.complexes, gpu="gpu", memory="mem_free", exclusive="exclusive")
    return replace(
        site, scheduler=replace(scheduler, parallel_environment="any-{slots}", complexes=complexes)
    )


def _differences(draft: SpecDraft, plan: Plan) -> Iterator[tuple[str, object, object]]:
    """What the plan has in another way than the script: its name, the value of the plan, and that of the script."""
    plans = {job.name: job.plan for job in plan.each_role} or {"": plan}
    roles: Mapping[str, Any] = draft.get("roles") or {"": draft.values}
    common = (draft.get("environment") or {}).get("variables", {})
    for name, size in draft.sizes.items():
        of_role, values = plans[name], roles[name]
        prefix = f"role {name}, " if name else ""
        for number in ("nodes", "ranks", "ranks_per_node", "gpus_per_node"):
            ours, theirs = getattr(of_role.request, number), getattr(size, number)
            if theirs is not None and (ours or 0) != theirs:
                yield prefix + number, ours, theirs
        yield from ((prefix + what, ours, theirs) for what, ours, theirs in _texts(of_role, values, common))


def _texts(
    plan: Plan, values: Mapping[str, Any], common: Mapping[str, str]
) -> Iterator[tuple[str, object, object]]:
    """The words and variables that differ, of those without an expression."""
    words = values.get("command")
    argv = [word.literal for word in plan.roles[0].argv]
    if words and not any("{{" in word for word in words) and argv != words:
        yield "command", argv, words
    have = {variable.name: variable.value.literal for variable in plan.variables}
    for name, text in {**common, **values.get("environment", {}).get("variables", {})}.items():
        if "{{" not in text and have.get(name) != text:
            yield name, have.get(name), text
