"""Create a tuning from a spec: candidates, checked by planning each, and the maximum cost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path

from dlrun import backends
from dlrun.config.hints import keys
from dlrun.config.layers import from_environment
from dlrun.errors import DlrunError, Invalid
from dlrun.jobs.remote.destination import login_of
from dlrun.jobs.submission.prepare import prepare, spec_inputs
from dlrun.model.placement import PoolPlan
from dlrun.model.plan import Directive, Plan
from dlrun.model.spec import Spec
from dlrun.model.units import many
from dlrun.plan.build import OUTPUT
from dlrun.plan.runtime_checks import granted
from dlrun.system.inputs import spec as reading
from dlrun.system.inputs.spec import Inputs
from dlrun.system.paths import working_directory, working_in
from dlrun.trials.tune import candidates as tried
from dlrun.trials.tune.candidates import ALLOCATORS, Candidate, Memory
from dlrun.trials.tune.race import expected
from dlrun.trials.tune.record import Tuning

STARTUP = 600.0
"""Maximum seconds of a trial before its first throughput: imports and compilation can take minutes."""
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_GUESS = 30.0
"""Assumed start-up seconds of a trial, for the proposed budget."""


def inputs_of(spec: Path, sets: Sequence[str], site: str | None, parameters: Mapping[str, str]) -> Inputs:
    """The spec and its site; raises Invalid for a spec that cannot be tuned.

    `parameters` of the command are read as a sweep of one point, so the spec must not have its own sweep.
    """
    inputs = spec_inputs(spec, sets=[*sets, *_sweep(parameters)], site=site)
    decoded = inputs.spec
    if decoded.sweep.grid or decoded.sweep.zip or (decoded.sweep.list and not parameters):
        raise Invalid(
            "the spec has a sweep, but one training is tuned",
            help="leave out `sweep:`; `--try NAME=A,B` tries values of `{{ NAME }}`",
        )
    if decoded.chain or decoded.on_failure.requeue:
        raise Invalid("restarted runs cannot be measured", help="leave out `chain:` and `on_failure.requeue`")
    return inputs


def begin(
    spec: Path,
    *,
    sets: Sequence[str],
    site: str | None,
    tries: Sequence[str],
    only: bool,
    directory: Path,
    length: float,
    repeat: int,
    notice: Callable[[str], None],
    here: bool = False,
    pool: int | None = None,
) -> Tuning:
    """A new tuning with the expected budget, not saved; notice: called for each candidate that cannot be tried.

    pool: nodes on which trials run at the same time, each on as many as the spec has; None: as `sweep.nodes` of the spec.
    Raises InvalidFile if the spec itself cannot be planned, Invalid if nothing can be tried or, unless `here`, the job would
    need ssh.
    """
    wanted = [tried.parse_try(text) for text in tries]
    known = frozenset({*keys(Spec), "framework_options"})
    parameters = tried.parameters_of(wanted, known)
    asked = tried.from_options(wanted, parameters)
    planned = tried.as_planned(parameters)
    inputs = inputs_of(spec, sets, site, parameters)
    login = None if here else login_of(inputs)
    if login is not None:
        raise Invalid(
            f"the trials need dlrun on site `{inputs.site.name}` itself, whose login node is `{login.host}`",
            help=f"`ssh {login.host}` and run the same command there; only `dlrun submit` and `dlrun scale` work from here",
        )
    # The job may recognise another site: it has not the variables of this shell, and nodes may lack the scheduler's clients.
    site = site or str(inputs.loaded.path.absolute())
    sets = (*_from_environment(os.environ), *sets, *(_pool(inputs.spec, pool) if pool else []))
    plan = plan_of(planned, spec, sets, site)
    own: list[Candidate] = []
    if not only:
        topology = reading.topology_for_spec(inputs)
        own = tried.from_rules(
            inputs.spec,
            inputs.site,
            plan=plan,
            topology=topology,
            parameters=parameters,
            memory=_memory(plan),
        )
    candidates = [planned]
    for candidate in (*asked, *own):
        try:
            its = plan_of(candidate, spec, sets, site)
        except DlrunError as error:
            notice(f"not tried: {candidate.name}: {error}")
            continue
        if any(candidate.name == other.name for other in candidates):
            continue
        if its.request.nodes != plan.request.nodes:
            notice(
                f"not tried: {candidate.name}: it changes the number of nodes (`dlrun scale` compares these)"
            )
            continue
        if its.pool is not None and plan.pool is not None and _places(its.pool) != _places(plan.pool):
            notice(f"not tried: {candidate.name}: it changes the places of the trials")
            continue
        candidates.append(candidate)
    if len(candidates) == 1:
        raise Invalid(
            "there is nothing to try: the rules leave nothing open for this spec on this site",
            help="name settings: `--try environment.variables.OMP_NUM_THREADS=2,4`, `--try workers=2,4,8`",
        )
    nodes, per_node, wide = (plan.request.nodes, 0, 1) if plan.pool is None else _places(plan.pool)
    tuning = Tuning(
        directory=directory, name=plan.name, origin=working_directory(), spec=spec.absolute(), site=site, sets=tuple(sets),
        nodes=nodes, length=length, startup=STARTUP, repeat=repeat,
        budget=0.0, candidates=tuple(candidates), per_node=per_node, wide=wide,
    )  # fmt: skip
    return replace(tuning, budget=tuning.hours(expected(len(candidates), repeat) * (length + _GUESS)))


def plan_of(candidate: Candidate, spec: Path, sets: Sequence[str], site: str | None) -> Plan:
    """The plan of one trial: the spec's with the candidate's settings, without checkpoints, results and dependencies."""
    own = [f"{key}={value}" for key, value in candidate.sets.items()]
    inputs = spec_inputs(spec, sets=[*sets, *own, *_sweep(candidate.parameters)], site=site)
    # A trial is not continued, and nothing waits for it.
    short = replace(inputs.spec, after=(), hold=False, checkpoint=None, results=None, hang=None)
    if short.sweep.nodes is not None:
        # The trial is the only point of its job, which has a place of the allocation.
        point = candidate.parameters or {"trial": "1"}
        short = replace(short, sweep=replace(short.sweep, list=(point,), at_once=None))
    plan = prepare(spec, inputs=replace(inputs, spec=short)).plan
    if plan.pool is not None:
        return plan
    return replace(plan, points=(), request=replace(plan.request, array=None, at_once=None))


def _places(pool: PoolPlan) -> tuple[int, int, int]:
    """(nodes, places on each of them, nodes of a place)."""
    return pool.nodes, pool.places, pool.nodes_per_point


def _pool(spec: Spec, nodes: int) -> list[str]:
    """The arguments of `--set` for trials side by side on so many nodes; raises Invalid if some of these would be idle."""
    wide = max(spec.resources.nodes, spec.sweep.nodes_per_point)
    if nodes % wide:
        raise Invalid(
            f"a trial has {many(wide, 'node')}, and `--pool {nodes}` is not a multiple of that",
            help=f"use `--pool {max(1, nodes // wide) * wide}`, or another multiple of {wide}",
        )
    own = [f"sweep.nodes={nodes}"]
    return [*own, f"sweep.nodes_per_point={wide}", "resources.nodes=1"] if wide > 1 else own


def directives_of(plan: Plan, inputs: Inputs) -> tuple[Directive, ...]:
    """The directives of a plan with another name or array than its spec."""
    scheduler = backends.scheduler(plan.scheduler)
    return tuple(scheduler.directives(granted(plan.request), inputs.site.scheduler, OUTPUT))


def _memory(plan: Plan) -> Memory:
    """The memory settings to try: allocators installed on this host, which nodes mostly have, too.

    Without the library the loader only warns (ld.so(8)), so that the trial has the speed of the plan.
    """
    allocators = tuple(file for name in ALLOCATORS if (file := find_library(name)) is not None)
    if not backends.scheduler(plan.scheduler).ON_THIS_MACHINE:
        return Memory(allocators=allocators)
    try:
        mode = _HUGE_PAGES.read_text()
    except OSError:
        mode = ""
    return Memory(allocators=allocators, huge_pages="[madvise]" in mode)


def _from_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """The `DLRUN_SET_*` variables as arguments of `--set`."""
    for name in sorted(environment):
        parsed = from_environment({name: environment[name]})
        yield from (f"{'.'.join(assignment.path)}={environment[name]}" for assignment in parsed.assignments)


def _sweep(parameters: Mapping[str, str]) -> list[str]:
    """Parameters of the command as a sweep of one point."""
    return [f"sweep.list=[{json.dumps(dict(parameters))}]"] if parameters else []


def at(tuning: Tuning) -> AbstractContextManager[None]:
    """Work in the directory where the tuning was started; raises Invalid."""
    return working_in(tuning.origin, "the tuning")
