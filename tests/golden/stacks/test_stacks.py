"""The launch of each stack of `docs/stacks`, word for word, from the spec that its page shows: of a job with roles, that of each.

`pytest tests/golden/stacks --update-golden` writes the launches anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.golden.frameworks.test_launches import compare, launch, launch_of
from tests.making import plan_in, scripts_of

PAGES = Path(__file__).parents[3] / "docs" / "stacks"
STACKS = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")
MOST_LINES = 90
"""Of the script of a job with roles, which a user has to be able to read."""


def planned(stack, place):
    """The plan of the spec that a page shows."""
    text = (PAGES / f"{stack}.md").read_text("utf-8")
    spec = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
    (place / "spec.yaml").write_text(spec, "utf-8")
    return plan_in(place)


def launches(plan) -> str:
    """The launch of the job, or of each of its roles, below what roles.py is told about it."""
    if plan.role_jobs is None:
        return launch(plan)
    made = scripts_of(plan)
    return "\n".join(
        f"# === role {json.dumps(role)}\n"
        + launch_of(*(made[f"roles/{role['name']}/{script}"] for script in ("job.sh", "rank.sh")))
        for role in json.loads(made["roles.json"])["roles"]
    )


@pytest.mark.parametrize("stack", STACKS)
def test_launch(stack, update_golden, tmp_path):
    plan = planned(stack, tmp_path)
    assert not plan.warnings
    compare(
        Path(__file__).parent / f"{stack}.sh",
        launches(plan).replace(str(tmp_path), "DIRECTORY"),
        update_golden,
    )


WITH_ROLES = ("lm-eval-vllm", "nemo-rl-judges", "openrlhf-remote-reward", "trl-vllm")


@pytest.mark.parametrize("stack", WITH_ROLES)
def test_the_script_of_a_job_with_roles_is_short(stack, tmp_path):
    made = scripts_of(planned(stack, tmp_path))
    found = {name: len(text.splitlines()) for name, text in made.items() if name.endswith("job.sh")}
    assert len(found) > 2, "the job's own, and that of each role"
    assert max(found.values()) <= MOST_LINES, found
    assert len([name for name in made if name.endswith("rank.sh")]) == len(found) - 1


@pytest.mark.parametrize("stack", STACKS)
def test_page_names_its_source_with_a_date(stack):
    text = (PAGES / f"{stack}.md").read_text("utf-8")
    assert re.search(r"^Source: .*https://.*\bread on \d{4}-\d\d-\d\d\.$", text, re.MULTILINE | re.DOTALL)
    assert ("**Run for real**" in text) != ("**Rendered**" in text)
    row = re.search(
        rf"^\| \[[^\]]*\]\({re.escape(stack)}\.md\) \| [^|]*`\w+`[^|]* \| (\w+)",
        (PAGES / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert row[1] == ("run" if "**Run for real**" in text else "rendered")
