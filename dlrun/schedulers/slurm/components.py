"""Heterogeneous jobs: the `#SBATCH` lines of several components in one script, and their states as that of one job.

Slurm's documentation, "Heterogeneous Job Support"; seen with 22.05: the components start together, have the ids 12+0, 12+1, …,
and `scancel 12` and `scontrol requeue 12` act on all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dlrun.model.job import JobStatus, State
from dlrun.model.plan import Directive
from dlrun.model.text import lazy_pattern
from dlrun.resources import beside
from dlrun.schedulers.protocol import Components

_OF_SCRIPT = (
    *("--output", "--error", "--open-mode", "--signal", "--dependency", "--kill-on-invalid-dep", "--hold"),
    *("--licenses", "-L", "--mail-type", "--mail-user", "--begin", "-b", "--chdir", "-D", "--export"),
)
"""Options of the script, or of the job's start, which stand in the first component; sbatch(1): licenses work only there."""
_OPTION = lazy_pattern(r"--?[\w-]+")
_BEGIN = Directive(text="hetjob", because="nodes of another type; all start together")
_WORSE = (State.NODE_FAILED, State.OUT_OF_MEMORY)
"""States of a component that explain why the first one, in which the script runs, has failed or was cancelled."""


def join(parts: Sequence[Sequence[Directive]]) -> Sequence[Directive]:
    """The lines of all components, `#SBATCH hetjob` before each but the first."""
    directives = list(parts[0])
    for part in parts[1:]:
        directives += [
            _BEGIN,
            *(directive for directive in part if _option(directive.text) not in _OF_SCRIPT),
        ]
    return directives


def _option(text: str) -> str:
    match = _OPTION.match(text)
    return match[0] if match else ""


COMPONENTS = Components(
    hosts="dlrun_component_hosts", join=join, library=(beside(__file__, "slurm-components"),)
)


def as_jobs(numbered: Iterable[tuple[int | None, JobStatus]]) -> Sequence[JobStatus]:
    """Jobs by the number of their component (None: the job has none): a heterogeneous job is as its first component is.

    It has the nodes of all, and where the first one failed or was cancelled because another lost a node or ran out of memory,
    that state.
    """
    jobs: dict[tuple[str, int | None], dict[int, JobStatus]] = {}
    for number, status in numbered:
        jobs.setdefault((status.job_id, status.task), {})[number or 0] = status
    return [_as_job(components) for components in jobs.values()]


def _as_job(components: Mapping[int, JobStatus]) -> JobStatus:
    ordered = [components[number] for number in sorted(components)]
    first, *rest = ordered
    cause = next((component for component in rest if component.state in _WORSE), None)
    if cause is not None and first.state in {State.FAILED, State.CANCELLED, State.COMPLETED}:
        first = replace(first, state=cause.state, reason=cause.reason)
    nodes = [component.nodes for component in ordered if component.nodes]
    return replace(first, nodes=",".join(nodes) if nodes else None)
