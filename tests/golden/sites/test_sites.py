"""Every shipped site: the job of the centre's own example, word for word, and compared with it item by item.

A profile of no system has its scheduler's (or torchrun's) own example instead.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlrun.config.document import parse
from dlrun.model.origin import Layer, Origin
from dlrun.resources import directory as resource
from tests.examples import cases
from tests.golden.test_golden import made
from tests.making import plan_in

HERE = Path(__file__).parent
CASES = sorted(path.parent for path in HERE.glob("*/spec.yaml"))


def read(path):
    """Plain data from YAML, read as profiles are."""
    return plain(parse(path.read_text("utf-8"), Origin(layer=Layer.SITE, name=str(path))).root)


def plain(node):
    if hasattr(node, "entries"):
        return {key: plain(entry.value) for key, entry in node.entries.items()}
    if hasattr(node, "items"):
        return [plain(item) for item in node.items]
    return None if node.is_null else node.text


COMMON = read(HERE / "common.yaml")


def test_every_shipped_system_has_a_case():
    shipped = {path.stem for path in resource("site-configs").glob("*.yaml")}
    assert {case.name for case in CASES} == shipped


def of_the_site(script, plan):
    """The lines of a job script that a site decides: directives, modules, variables, address, launch."""
    names = "|".join(variable.name for variable in plan.variables)
    wanted = re.compile(
        rf"#(SBATCH|PBS|\$| flux:) |(export ({names})|(export )?DLRUN_MASTER_ADDR)=|module |dlrun_\w+ .*/rank\.sh\" "
    )
    script = script.replace(" \\\n  ", " ")
    lines = [re.sub(r" # .*", "", line) for line in script.splitlines() if wanted.match(line)]
    return "".join(f"{line.strip()}\n" for line in lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_job(case, update_golden):
    text = of_the_site(made(case)["job.sh"], plan_in(case))
    path = case / "job-lines.sh"
    if update_golden:
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path} is not what is rendered"
    assert text.count("/rank.sh") >= 1


@pytest.mark.parametrize("case", cases(CASES, quick=12), ids=lambda case: case.name)
def test_the_centres_example_item_by_item(case):
    published = read(case / "published.yaml")
    plan = plan_in(case)
    texts = made(case)
    whole = (texts["job.sh"] + texts["rank.sh"]).replace(" \\\n  ", " ")
    ours = [item["ours"] for item in published["items"] if item["ours"]]
    for item in published["items"]:
        if item["ours"] is None or item["theirs"] is None:
            assert item["why"], f"a difference without a reason: {item}"
        if item["ours"] is not None:
            assert item["ours"] in whole, f"{case.name}: `{item['ours']}` is not in the scripts"
    for directive in plan.directives:
        known = any(text in directive.text for text in ours) or any(
            directive.text.startswith(text) for text in COMMON["scheduler"]
        )
        assert known, f"{case.name}: `{directive.text}` is in neither the example nor the reasons"
    for variable in plan.variables:
        if variable.rule.startswith(("fabric-", "site-fabric")):
            known = any(f"{variable.name}=" in text for text in ours) or variable.name in COMMON["fabric"]
            assert known, f"{case.name}: `{variable.name}` is in neither the example nor the reasons"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_profile_sets_what_is_known_to_harm(case):
    codes = [f"DLR06{n}" for n in range(6)]
    assert [w for w in plan_in(case).warnings if any(code in w for code in codes)] == []
