"""The files of a job directory, as text: what `render` shows is what `submit` writes."""

from __future__ import annotations

from pathlib import Path

import dlrun.node
from dlrun.effects.inputs.spec import Inputs
from dlrun.effects.jobs.template_cache import kept
from dlrun.model.plan import Plan
from dlrun.plan.runtime_checks import programs
from dlrun.render.parts import library
from dlrun.render.script import plan_json, scripts
from dlrun.resources import directory as resource

_NODE = Path(dlrun.node.__file__).parent
BUNDLE = "node.pyz"
"""All node programs in one file."""


def files(plan: Plan, inputs: Inputs | None, directory: Path) -> dict[str, str]:
    """Every file of the job directory, by name."""
    compiled, templates = kept(), resource("templates")
    made = scripts(plan, str(directory), templates, compiled)
    compiled.save()
    made |= library_files(plan, templates)
    made["plan.json"] = plan_json(plan)
    of_roles = [name for role in plan.roles for name in role.files]
    wanted = dict.fromkeys([*of_roles, *programs(plan)])
    for name in (name for name in wanted if name != BUNDLE):
        checks = _NODE / "checks" / name
        made[name] = (checks if checks.exists() else _NODE / name).read_text(encoding="utf-8")
    if "stage.sh" in made or BUNDLE in wanted:
        from dlrun.effects.jobs import node_archive  # noqa: PLC0415 - zipfile and its kin, for staged data alone

        # Text all the same: bytes that are no UTF-8 go through as surrogates and come out as they were.
        made[BUNDLE] = node_archive.content().decode("utf-8", errors="surrogateescape")
    if inputs is not None:
        made["spec.yaml"] = inputs.sources.get(str(inputs.path), "")
        made["site.yaml"] = inputs.sources.get(str(inputs.loaded.path), "")
    return made


def library_files(plan: Plan, templates: Path) -> dict[str, str]:
    """The files of the bash library that a job's pages source."""
    texts = {
        name: [(templates / "lib" / f"{part}.sh").read_text(encoding="utf-8") for part in parts]
        for name, parts in library(plan).items()
    }
    return {f"lib/{name}.sh": "\n".join(parts) for name, parts in texts.items()}
