"""The template variables of `stage.sh`, and of the part of `job.sh` that starts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.plan import DataPlan, Plan
from dlrun.model.program import CONVERSION_ROOM, CREDENTIALS
from dlrun.model.text import Shell, Text
from dlrun.plan.data.software import stages_code
from dlrun.plan.data.stage_arguments import stage_words
from dlrun.render.parts import binds_apart, caches_key, keeps, pulls, stages, starts_points_here


def variables(plan: Plan) -> Mapping[str, Any]:
    """Name -> value of all of them; raises Invalid for a plan with data to stage but no directory for them."""
    staged = [data_set for data_set in plan.data if data_set.strategy != "in_place"]
    if plan.environment.staged is not None:
        staged.append(plan.environment.staged)
    if stages(plan) and plan.stage_directory is None:
        raise Invalid(
            "the plan has data to stage, but no `stage_directory`",
            help="create it again with `dlrun plan -o`",
        )
    # A set with `start` comes last: its rest is staged while the training runs.
    staged.sort(key=lambda data: data.start is not None)
    several = plan.request.nodes > 1 and plan.stage_scope == "node"
    return {
        "staging": stages(plan),
        "staged": staged,
        "binds_apart": binds_apart(plan),
        "image_line": _image_line(plan),
        "image_secrets": [s for s in plan.secrets if s.name in CREDENTIALS],
        "stage_secrets": [s for s in plan.secrets if any(s.name in data.secrets for data in staged)],
        "chains": (bool(staged) or keeps(plan)) and several,
        "keeps": keeps(plan),
        "caches_key": caches_key(plan),
        "code_staged": stages_code(plan),
        "keeping": _keeping(plan),
        "early": any(data.start is not None for data in staged),
        "kept_nodes": 1 if plan.stage_scope == "job" else plan.request.nodes,
        "source_of": lambda data: _source_of(plan, data),
        "results_to": _results_to(plan),
        "holds": _holds(plan),
        "words_of": lambda data: stage_words(data, plan.request, plan.stage_quota, _source_of(plan, data)),
    }


def _keeping(plan: Plan) -> Shell | None:
    """The expansion for the node number of a process that waits for the end of the job; None: that of the launcher."""
    steps = backends.scheduler(plan.scheduler).STEPS
    beside = plan.pool is not None and not starts_points_here(plan)  # the point starts it, as its ranks
    if not plan.stage_keep or steps is None or steps == plan.launch.name or beside:
        return None
    return backends.launcher(steps).IDENTITY.rank


def _holds(plan: Plan) -> bool:
    """True if the points of a sweep inside one job find data on their nodes that is kept for the job alone."""
    return plan.pool is not None and any(
        data.keep == "job" and data.strategy != "in_place" and not data.is_code for data in plan.data
    )


def _results_to(plan: Plan) -> Text | None:
    """Where results are copied: those of each point of a sweep to a directory of its own, since files have equal names."""
    if plan.results is None or not plan.results.to:
        return None
    of_point = ("/", Shell("${DLRUN_JOB_DIR##*/}"), "/", Shell("$DLRUN_POINT")) if plan.points else ()
    return Text.of(plan.results.to, *of_point)


def _source_of(plan: Plan, data: DataPlan) -> Text:
    """The source of a data set on the nodes; of an image that the job pulls, the file in the user's store."""
    if pulls(plan) and data == plan.environment.staged:
        return Text.of(Shell("$DLRUN_IMAGE_FILE"))
    return Text.of(data.source)


def _image_line(plan: Plan) -> list[object]:
    """The words of the line that pulls the image; empty without one."""
    container = plan.environment.container
    if not pulls(plan) or container is None or container.source is None:
        return []
    source = container.source
    registry = source.registry if not source.of_file else None
    asked = [source.unpinned, *registry] if registry is not None else []
    return ["dlrun_pull", CONVERSION_ROOM >> 30, source.uri, source.digest or "", source.folder, *asked]
