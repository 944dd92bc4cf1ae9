"""Whole jobs, word for word: a spec and a site beside the plan and the scripts that they become.

`pytest tests/golden --update-golden` writes plans and scripts anew; read the difference before keeping it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from dlrun import __version__, backends
from dlrun.jobs.records.plans import read_plan
from dlrun.model.json_codec import from_plain, to_plain
from dlrun.model.plan import Plan
from dlrun.render.script import plan_json
from tests.golden.compact import compact
from tests.library import OF_PAGES
from tests.making import plan_in, scripts_of
from tests.programs import need, with_venv

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/spec.yaml"))
SCRIPTS = [path for case in CASES for name in ("job.sh", "rank.sh") for path in case.rglob(name)]


def made(case: Path) -> dict[str, str]:
    """What a case becomes, by file name; the version in the scripts' header does not count."""
    plan = plan_in(case)
    texts = scripts_of(plan, f"/home/ada/jobs/{case.name}") | {"plan.json": compact(plan)}
    return {name: text.replace(f"dlrun {__version__}.", "dlrun VERSION.") for name, text in texts.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_job(case, update_golden):
    for name, text in made(case).items():
        path = case / name
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8"), f"{path} is not what is rendered"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_plan_on_disk_is_the_whole_plan(case):
    """The golden text leaves out what has its default; a job's own plan.json leaves out nothing."""
    plan = plan_in(case)
    assert read_plan(case / "plan.json") == plan
    assert from_plain(Plan, json.loads(plan_json(plan))) == plan
    assert json.loads(plan_json(plan)) == to_plain(plan)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scripts_follow_from_the_plan_on_disk_alone(case):
    plan = read_plan(case / "plan.json")
    again = scripts_of(plan, f"/home/ada/jobs/{case.name}")
    assert {
        name: text.replace(f"dlrun {__version__}.", "dlrun VERSION.") for name, text in again.items()
    } == {name: (case / name).read_text("utf-8") for name in again}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_exported_variable_says_why(case):
    users_own = read_plan(case / "plan.json").environment
    silent = [
        f"{script.name}: {line}"
        for script in case.glob("*.sh")
        for line in script.read_text("utf-8").splitlines()
        if re.match(r"\s*export [A-Za-z_]", line)
        and not re.search(r" # \S", line)
        and line not in (*users_own.site_setup, *users_own.setup)
    ]
    assert silent == []


def test_bash_reads_every_script():
    for script in SCRIPTS:
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


@pytest.mark.needs
def test_shellcheck_finds_nothing():
    shellcheck = need("shellcheck", path=with_venv())
    done = subprocess.run([shellcheck, *OF_PAGES, *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_the_cases_cover_every_scheduler_binding_and_common_launcher():
    plans = [read_plan(case / "plan.json") for case in CASES]
    assert {p.scheduler for p in plans} == set(backends.SCHEDULERS)
    assert {p.launch.name for p in plans} >= {"srun", "openmpi", "hydra", "intelmpi", "ssh", "local"}
    assert {p.binding.mode for p in plans} == {"plan", "job", "scheduler", "none"}
