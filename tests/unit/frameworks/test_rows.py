"""Every framework is shown, rendered, run and documented, and its page says how it was run and who says so."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from dlrun import backends
from tests.frameworks.cases import CASES, ON_BIG_HOSTS, STANDINS

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "frameworks"
GOLDEN = ROOT / "tests" / "golden" / "frameworks" / "rows"


def framework_of(example: str) -> str:
    text = (ROOT / "examples" / example / "spec.yaml").read_text("utf-8")
    found = re.search(r"^framework: (\S+)", text, re.MULTILINE)
    assert found
    return found[1]


@cache
def runs() -> dict[str, tuple[str, str]]:
    """How each framework is run, and when: with `--all` if one of its cases is, else with the slow tests."""
    found: dict[str, tuple[str, str]] = {}
    for case in CASES:
        name = framework_of(case.example or case.row)
        if not case.slow or name not in found:
            found[name] = ("real", "slow" if case.slow else "`--all`")
    for standin in (*STANDINS, *ON_BIG_HOSTS):
        name = framework_of(standin.row)
        assert name not in found, f"{name} needs no stand-in: it runs for real"
        found[name] = ("stand-in", "slow" if standin.slow else "`--all`")
    return found


@pytest.mark.parametrize("name", backends.FRAMEWORKS)
def test_a_row_is_whole(name):
    assert name in runs(), f"{name} is neither run for real nor with a stand-in"
    assert framework_of(name) == name
    for site in ("slurm", "local"):  # what PBS starts is held against Slurm's text
        text = (GOLDEN / name / f"{site}.sh").read_text("utf-8")
        assert "rank.sh" in text
        assert "dlrun_run " in text


@pytest.mark.parametrize("name", backends.FRAMEWORKS)
def test_its_page_says_how_it_was_run_and_by_which_source(name):
    how, when = runs()[name]
    page = (PAGES / f"{name}.md").read_text("utf-8")
    title = backends.framework(name).TITLE
    assert page.startswith(f"# {title.removesuffix(' program')}")
    words = " ".join(page.split())
    says = re.search(
        r"\*\*Run (for real|with a stand-in)\*\* on two hosts in (`scripts/test.sh --all`|the slow tests)",
        words,
    )
    assert says, page
    assert says[1] == {"real": "for real", "stand-in": "with a stand-in"}[how]
    assert says[2] == {"`--all`": "`scripts/test.sh --all`", "slow": "the slow tests"}[when]
    assert f"](../../examples/{name}/spec.yaml)" in page
    assert re.search(r"^Source: \S[^\n].{9,}?\.$", page, re.MULTILINE | re.DOTALL)
    assert page.count("**Run ") == 1


@pytest.mark.parametrize("name", backends.FRAMEWORKS)
def test_the_table_of_frameworks_says_the_same(name):
    table = (PAGES / "README.md").read_text("utf-8")
    how, when = runs()[name]
    assert re.search(rf"^\| \[`{name}`\]\({name}\.md\) \| [^|]+ \| {how} \| {when} \|$", table, re.MULTILINE)


def test_the_table_has_no_other_rows():
    table = (PAGES / "README.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| \[`(\w+)`\]", table, re.MULTILINE)) == sorted(backends.FRAMEWORKS)
