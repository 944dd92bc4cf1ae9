"""The launch of each stack of `docs/stacks`, word for word, from the spec that its page shows.

`pytest tests/golden/stacks --update-golden` writes the launches anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden.frameworks.test_launches import compare, launch
from tests.making import plan_in

PAGES = Path(__file__).parents[3] / "docs" / "stacks"
STACKS = sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")


@pytest.mark.parametrize("stack", STACKS)
def test_launch(stack, update_golden, tmp_path):
    text = (PAGES / f"{stack}.md").read_text("utf-8")
    spec = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1]
    (tmp_path / "spec.yaml").write_text(spec, "utf-8")
    plan = plan_in(tmp_path)
    assert not plan.warnings
    compare(
        Path(__file__).parent / f"{stack}.sh", launch(plan).replace(str(tmp_path), "DIRECTORY"), update_golden
    )


@pytest.mark.parametrize("stack", STACKS)
def test_page_names_its_source_with_a_date(stack):
    text = (PAGES / f"{stack}.md").read_text("utf-8")
    assert re.search(r"^Source: .*https://.*\bread on \d{4}-\d\d-\d\d\.$", text, re.MULTILINE | re.DOTALL)
    assert ("**Run for real**" in text) != ("**Rendered**" in text)
    row = re.search(
        rf"^\| \[[^\]]*\]\({re.escape(stack)}\.md\) \| `\w+` \| (\w+)",
        (PAGES / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert row[1] == ("run" if "**Run for real**" in text else "rendered")
