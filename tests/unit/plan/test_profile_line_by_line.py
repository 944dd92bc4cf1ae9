"""The guide that grows one whole profile: each step gives the job that it shows, and the last one is the shipped profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlrun.model.problem import InvalidFile
from dlrun.resources import directory
from tests.golden.sites.test_sites import read
from tests.making import plan_of, scripts_of

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "profile-line-by-line.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
(SPEC,) = (body for kind, body in BLOCKS if kind == "yaml")


def entries(block: str) -> dict[str, str]:
    """The text of each key of a block."""
    parts = re.split(r"^(?=[a-z])", block, flags=re.MULTILINE)
    return {part.partition(":")[0]: part for part in parts if part}


def steps() -> Iterator[tuple[str, str, str]]:
    """Each block that shows what becomes of the job, with the profile as it is until then."""
    so_far: dict[str, str] = {}
    for kind, body in BLOCKS:
        if kind == "yml":
            so_far |= entries(body)
        elif kind in ("bash", "text"):
            yield kind, body, "".join(so_far.values())


@pytest.mark.parametrize(("kind", "shown", "profile"), list(steps()))
def test_each_step_gives_the_job_that_it_shows(kind, shown, profile, tmp_path):
    if kind == "bash":
        texts = scripts_of(plan_of(tmp_path, SPEC, profile))
        whole = "\n".join(texts.values()).replace(" \\\n  ", " ")
        missing = [line for line in shown.splitlines() if line not in whole]
        assert missing == []
        return
    option, *message = shown.splitlines()
    with pytest.raises(InvalidFile) as failure:
        plan_of(tmp_path, SPEC, profile, sets=[option.removeprefix("--set ")])
    texts = [text for problem in failure.value.problems for text in (problem.message, problem.help)]
    assert set(message) <= set(texts)


def test_the_last_step_is_the_profile_that_is_shipped(tmp_path):
    grown: dict[str, str] = {}
    for kind, body in BLOCKS:
        if kind == "yml":
            grown |= entries(body)
    (tmp_path / "vista.yaml").write_text("".join(grown.values()), "utf-8")
    assert read(tmp_path / "vista.yaml") == read(directory("site-configs") / "vista.yaml")
