"""Plans for tests, made from YAML as a user and an admin would write it."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.jobs.records import ownership
from dlrun.jobs.submission.files import library_files
from dlrun.jobs.submission.prepare import build_plan
from dlrun.jobs.submission.template_cache import Compiled
from dlrun.model.plan import Dependency, Plan
from dlrun.model.problem import InvalidFile
from dlrun.plan.build import PlanInputs
from dlrun.render.pages import pages
from dlrun.resources import directory as resource
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_spec, topology_for_spec

SLURM = """\
name: somewhere
scheduler: {type: slurm}
launcher: {name: srun}
"""

NODES = """\
node_types:
  cpu:
    memory: 180GiB
    topology: {packages: 2, cores: 8}
"""

LOCAL = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
"""

NOWHERE = Machine(environment={"PATH": ""}, home=Path("/nowhere/home"), root=Path("/nowhere"), host="laptop")
"""A machine with no scheduler, no settings, and no profiles but the shipped ones."""


@contextmanager
def inside(directory: Path):
    """Names of files in origins are as short as a user's: relative to the directory of the spec."""
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def plan_in(source: Path, *, sets=(), here: Machine = NOWHERE, directory: str = "/home/ada/project") -> Plan:
    """The plan of `spec.yaml` in a directory, to run in another; it names its own site."""
    with inside(source):
        loaded = load_spec(Path("spec.yaml"), sets=sets, options=backends.framework_options, here=here)
        inputs = PlanInputs(
            spec=loaded.spec,
            site=loaded.site,
            topology=topology_for_spec(loaded),
            directory=directory,
            origins=loaded.origins,
            sources=loaded.sources,
            after=tuple(Dependency(job_id=a.job, when=a.when) for a in loaded.spec.after),
        )
        return build_plan(inputs, loaded.roles, lambda _: directory)


def plan_of(place: Path, spec: str, site: str = SLURM, **more) -> Plan:
    """The plan of two texts; the spec needs no name, command or site of its own."""
    text = spec if "name:" in spec.partition("\n")[0] else f"name: run\n{spec}"
    text = text if re.search(r"\n(?:command|run|roles):", text) else f"{text}\ncommand: [./train]\n"
    (place / "spec.yaml").write_text(f"{text}\nsite: ./site.yaml\n", "utf-8")
    (place / "site.yaml").write_text(site, "utf-8")
    return plan_in(place, **more)


def fault_of(place: Path, spec: str, site: str = SLURM) -> tuple[str, str, str | None, str]:
    """The one error of a spec, as of `plan_of`: code, message, way out, and the text from its place on."""
    with pytest.raises(InvalidFile) as raised:
        plan_of(place, spec, site)
    errors = [problem for problem in raised.value.problems if not problem.warning]
    assert len(errors) == 1, errors
    at = errors[0].origin
    line = (place / "spec.yaml").read_text().splitlines()[at.line - 1]
    return errors[0].code, errors[0].message, errors[0].help, line[at.column - 1 :]


COMPILED = Compiled(None)
"""The compiled templates of this process, in no file: Jinja's compiler takes longer than all else of a plan's pages."""


def scripts_of(plan: Plan, job_dir: Path | str = "/home/ada/jobs/run") -> dict[str, str]:
    """`job.sh` and `rank.sh` of a plan."""
    return pages(plan, str(job_dir), resource("templates"), COMPILED)


def write_job(plan: Plan, place: Path) -> dict[str, str]:
    """The pages of a plan in a job directory, with the parts of the library that they use; the pages' texts."""
    made = scripts_of(plan, place)
    (place / "lib").mkdir(exist_ok=True)
    for name, text in {**made, **library_files(plan, resource("templates"))}.items():
        (place / name).write_text(text, "utf-8")
    return made


def decided(plan: Plan, key: str):
    """The value decided for a key, and the name of the rule."""
    (decision,) = [d for d in plan.decisions if d.key == key]
    return decision.value, decision.rule


def make_own(directory: Path) -> None:
    """Give a directory the list that makes it a job of dlrun's, without any names."""
    (directory / ownership.LIST).write_text(ownership.text("job", directory, ownership.new_token()))
