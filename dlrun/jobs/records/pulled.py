"""The digest of an image that a job pulls by itself: known once it has, from the file that it then links into its directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun.jobs.records.validation import read_json
from dlrun.model.job import role_directory
from dlrun.model.plan import Plan
from dlrun.model.program import DIGEST, ImageSource

MARK = "image.json"
"""The file of a job directory, or of a role's (templates/lib/pull.sh): a link to the mark of the image in the user's store."""


def with_digests(plan: Plan, directory: Path) -> Plan:
    """The plan of a job directory with the digests of the images that the job and its roles have pulled."""
    if plan.role_jobs is not None:
        jobs = [
            replace(role, plan=with_digests(role.plan, directory / role_directory(role.name)))
            for role in plan.role_jobs.jobs
        ]
        return replace(plan, role_jobs=replace(plan.role_jobs, jobs=tuple(jobs)))
    container = plan.environment.container
    if container is None or not container.in_job or container.source is None:
        return plan
    if (known := _known(container.source.uri, directory)) is None:
        return plan
    return replace(plan, environment=replace(plan.environment, container=replace(container, source=known)))


def in_record(record: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The record of a job's code and environment with that digest."""
    environment = record.get("environment")
    image = environment.get("image") if isinstance(environment, Mapping) else None
    if not isinstance(image, Mapping) or "digest" in image:
        return record
    if (known := _known(image.get("name"), directory)) is None:
        return record
    return {**record, "environment": {**record["environment"], "image": {**image, "digest": known.digest}}}


def _known(uri: object, directory: Path) -> ImageSource | None:
    """The image with this URI that a job has pulled; None if it has not."""
    facts = read_json(directory / MARK) or {}
    digest = facts.get("digest")
    if facts.get("image") != uri or not isinstance(digest, str) or not re.fullmatch(DIGEST, digest):
        return None
    return ImageSource(uri=str(uri), digest=digest, of_file=facts.get("of_file") is True)
