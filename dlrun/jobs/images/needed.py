"""The images of a plan: pulled at a submission, and what a job keeps of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dlrun.jobs.clusters.environment import secret_values
from dlrun.jobs.hubs import store
from dlrun.jobs.hubs.needed import in_each
from dlrun.jobs.images import pull
from dlrun.jobs.images.place import ImageCopy, find
from dlrun.model.plan import Plan
from dlrun.model.program import CREDENTIALS, ContainerPlan
from dlrun.plan.data.software import image_name


def containers(plan: Plan) -> list[ContainerPlan]:
    """The containers of a job and its roles whose images are pulled at the submission."""
    return [container for container in _pulled(plan) if not container.in_job]


def _pulled(plan: Plan) -> list[ContainerPlan]:
    named = [program.environment.container for program in (plan, *(role.plan for role in plan.each_role))]
    return [container for container in named if container is not None and container.source is not None]


def fetched(plan: Plan, base: Path, target: Path, notice: Callable[[str], None]) -> Plan:
    """The plan with files of the store as images, which are pulled if they are not there.

    base: of new job directories; target: the job's. Raises Invalid and OperationFailed.
    """
    if not containers(plan):
        return plan
    place, copies = store.place_for(base, target), dict[str, ImageCopy]()

    def with_image(program: Plan) -> Plan:
        container = program.environment.container
        if container is not None and container.source is not None and not container.in_job:
            source = container.source
            if (copy := copies.get(source.uri)) is None:
                copy = copies[source.uri] = pull.fetched(
                    source, place, secrets=_credentials(program), notice=notice
                )
            program = with_copy(program, copy)
        return program

    return in_each(plan, with_image)


def with_copy(plan: Plan, copy: ImageCopy) -> Plan:
    """A plan whose container is this image, staged if it was to be."""
    named = plan.environment
    if named.container is None:
        return plan
    staged = named.staged
    if staged is not None:
        staged = replace(staged, name=image_name(copy.path), source=copy.path)
    held = replace(named.container, image=copy.path, source=copy.source)
    return replace(plan, environment=replace(named, container=held, staged=staged))


def _credentials(plan: Plan) -> Mapping[str, str]:
    own = tuple(secret for secret in plan.secrets if secret.name in CREDENTIALS)
    return secret_values(replace(plan, secrets=own))


def marks(plan: Plan) -> dict[str, Path]:
    """Name in the job directory -> file of the store, of the files with which a new job keeps its images."""
    files = sorted({store.mark_of(Path(container.image).parent) for container in containers(plan)})
    return {
        f"image-{number}.json" if number > 1 else "image.json": mark for number, mark in enumerate(files, 1)
    }


def described(plan: Plan, base: Path) -> list[str]:
    """Lines about the images of a plan: whether they are in the store in a directory of jobs."""
    lines = [
        f"{container.source}: the first node of the job pulls it"
        for container in _pulled(plan)
        if container.in_job
    ]
    lines = list(dict.fromkeys(lines))
    for source in dict.fromkeys(
        container.source for container in containers(plan) if container.source is not None
    ):
        there = find(store.beside(base), source)
        asked = "" if source.digest else "its registry is asked for the digest, and "
        absent = f"at submission {asked}what is not in the store is pulled and converted on this host"
        lines.append(f"{source}: {absent if there is None else f'in the store, at `{there.path}`'}")
    return lines
