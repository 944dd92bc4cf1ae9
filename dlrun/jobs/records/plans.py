"""The plan of a job as it was submitted, with the digests of images that the job has pulled by itself.

Such a digest is known once the job has linked the mark of the image into its directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid
from dlrun.jobs.records.validation import MOST, read_json
from dlrun.model.job import role_directory
from dlrun.model.json_codec import from_plain
from dlrun.model.plan import Plan
from dlrun.model.program import DIGEST, ImageSource
from dlrun.system.paths import read_bytes

PLAN = "plan.json"
MARK = "image.json"
"""The file of a job directory, or of a role's (templates/lib/pull.sh): a link to the mark of the image in the user's store."""


def of_job(directory: Path) -> Plan:
    """The plan of a job directory, with these digests; raises Invalid if it cannot be read."""
    return _with_digests(read_plan(directory / PLAN), directory)


def read_plan(path: Path) -> Plan:
    """A plan from its file; raises Invalid if it is not one."""
    try:
        return from_plain(Plan, json.loads(read_bytes(path, MOST).decode("utf-8")))
    except FileNotFoundError:
        raise Invalid(f"cannot read plan `{path}`: there is no such file") from None
    except OSError as error:
        raise Invalid(f"cannot read plan `{path}`: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid(
            f"`{path}` is not a plan of this version of dlrun: {error}",
            help="create it again with `dlrun plan -o`",
        ) from None


def _with_digests(plan: Plan, directory: Path) -> Plan:
    if plan.role_jobs is not None:
        jobs = [
            replace(role, plan=_with_digests(role.plan, directory / role_directory(role.name)))
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
