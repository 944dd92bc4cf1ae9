"""The repositories of a plan: which are in the store, those that are fetched at a submission, and what a job keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dlrun.jobs.clusters.environment import secret_values
from dlrun.jobs.hubs import fetch, store
from dlrun.model.data import DataSet, is_hub, parse_hub
from dlrun.model.observed import HubCopy
from dlrun.model.plan import DataPlan, Plan
from dlrun.model.text import Text
from dlrun.plan.environment import DATA_PATH

TOKEN = "HF_TOKEN"  # noqa: S105 - the name of a variable


def known(sets: Mapping[str, DataSet], base: Path) -> dict[str, HubCopy]:
    """Name -> what is in the store in a directory of jobs, for the data sets whose source is a commit of a hub."""
    copies = {}
    for name, data in sets.items():
        try:
            source = parse_hub(data.source) if is_hub(data.source) else None
        except ValueError:  # a problem of the plan
            continue
        if source is None or source.commit is None:
            continue
        place = store.of_repository(store.beside(base), source)
        copy = store.find(place / store.key(source.commit, data.include, data.exclude))
        if copy is not None:
            copies[name] = copy
    return copies


def fetched(plan: Plan, base: Path, target: Path, notice: Callable[[str], None]) -> Plan:
    """The plan with a directory of the store as the source of each data set of a hub, which is fetched if it is not there.

    base: of new job directories; target: the job's. Raises Invalid and OperationFailed.
    """
    if not any(data.hub for program in plan.programs for data in program.data):
        return plan
    place = store.place_for(base, target)
    return in_each(plan, lambda program: _with_sets(program, place, notice))


def in_each(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The plan with a change of the job's own plan and of that of each role."""
    if (roles := plan.role_jobs) is not None:
        jobs = tuple(replace(role, plan=change(role.plan)) for role in roles.jobs)
        plan = replace(plan, role_jobs=replace(roles, jobs=jobs))
    return change(plan)


def _with_sets(plan: Plan, place: Path, notice: Callable[[str], None]) -> Plan:
    """The plan of one program with what is fetched for it."""
    sets = tuple(_fetched(data, plan, place, notice) for data in plan.data)
    paths = {data.variable: Text.of(data.source) for data in sets if data.hub}
    return replace(
        plan,
        data=sets,
        variables=tuple(
            replace(v, value=paths[v.name]) if v.rule == DATA_PATH and v.name in paths else v
            for v in plan.variables
        ),
    )


def _fetched(data: DataPlan, plan: Plan, place: Path, notice: Callable[[str], None]) -> DataPlan:
    if data.hub is None:
        return data
    copy = fetch.fetched(
        data.hub,
        place,
        include=data.include,
        exclude=data.exclude,
        token=lambda: token(plan),
        notice=lambda line: notice(f"{data.name}: {line}"),
    )
    if data.hub.commit is None:
        notice(
            f"{data.name}: `{data.hub.revision}` of {data.hub.repository} is commit {copy.commit}, which the job records; "
            f"`@{copy.commit}` in the source keeps later jobs at it"
        )
    return replace(data, source=copy.directory, hub=replace(data.hub, commit=copy.commit))


def token(plan: Plan) -> str | None:
    """The value of the plan's secret `HF_TOKEN`; None if it has none. Raises Invalid if it cannot be read here."""
    own = tuple(secret for secret in plan.secrets if secret.name == TOKEN)
    return secret_values(replace(plan, secrets=own)).get(TOKEN)


def marks(plan: Plan) -> dict[str, Path]:
    """Name in the job directory -> file of the store, of the files with which a new job keeps what it uses."""
    return {
        f"hub-{f'{program.role}.' if program.role else ''}{data.name}.json": store.mark_of(Path(data.source))
        for program in plan.programs
        for data in program.data
        if data.hub is not None
    }


def described(data: DataPlan) -> str | None:
    """Text for a data set of a hub: whether it is in the store; None for others."""
    if data.hub is None:
        return None
    if not is_hub(data.source):
        return f"{data.hub}: in the store, at `{data.source}`"
    asked = "" if data.hub.commit else "the hub is asked for its commit, and "
    return f"{data.hub}: not known to be in the store; at submission {asked}what is missing is fetched on this host"
