"""A question whose answer is empty gets a sentence that says so, the exit code of success, and an empty JSON list."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Dlrun

NEVER = "was never submitted"
WITHOUT_JOBS = {
    "list": ("jobs", "no jobs yet; `dlrun submit SPEC` submits one"),
    "list --site crag": ("jobs", "no job of site `crag`"),
    "status": ("jobs", "no pending or running jobs"),
    "clean": ("clean", "no job directory to remove"),
    "stage-data --list --to {place}/cache": ("sets", "there are no data sets in"),
}
"""Command -> key of its JSON, and what it says where there is no job at all."""
OF_ONE_THAT_NEVER_RAN = {
    "logs made": ("logs", f"made {NEVER}, so it has no logs"),
    "results made": ("results", f"there are no runs: `made` {NEVER}"),
    "usage made": ("usage", f"nothing was measured: `made` {NEVER}"),
    "cancel made": (None, f"made: {NEVER}"),
    "resubmit made --failed": (None, "no run of made has failed: nothing was submitted"),
    "status made": (None, ""),
}
OF_A_JOB = (
    "status",
    "logs",
    "why",
    "usage",
    "results",
    "report",
    "top",
    "fetch",
    "cancel",
    "resubmit",
    "hold",
    "release",
)


def check(dlrun: Dlrun, words: str, key: str | None, says: str) -> None:
    arguments = words.format(place=dlrun.place).split()
    told = dlrun(*arguments)
    assert says in told.stderr
    assert key is None or told.stdout == ""
    document = json.loads(dlrun(*arguments, "--json").stdout)
    assert key is None or document[key] == []


@pytest.mark.parametrize("words", WITHOUT_JOBS)
def test_nothing_at_all(dlrun, words):
    check(dlrun, words, *WITHOUT_JOBS[words])


@pytest.mark.parametrize("name", OF_A_JOB)
def test_the_latest_job_where_there_is_none(dlrun, name):
    told = dlrun(name, "latest", code=2).stderr
    assert "no job `latest`: there are no jobs yet under" in told
    assert "= help: `dlrun submit SPEC` submits one" in told


@pytest.fixture
def made(dlrun) -> Dlrun:
    """A place with the directory of a job that was rendered and not submitted."""
    dlrun("render", dlrun.spec("run: 'true'\nresources: {ranks_per_node: 1}\n"), "-o", "made")
    return dlrun


@pytest.mark.parametrize("words", OF_ONE_THAT_NEVER_RAN)
def test_a_job_that_never_ran(made, words):
    check(made, words, *OF_ONE_THAT_NEVER_RAN[words])


def test_why_and_top_of_it_are_errors_that_say_so(made):
    for name in ("why", "top"):
        assert NEVER in made(name, "made", code=2).stderr


@pytest.mark.slow
def test_a_rank_that_does_not_exist_and_a_failure_that_did_not_happen(dlrun):
    job = dlrun.submit("run: 'true'\nusage: false\nresources: {ranks_per_node: 1}\n", "--wait")
    for words, says in (("--rank 7", "no log of rank 7"), ("--first-failure", "failed by itself")):
        assert says in dlrun("logs", job, *words.split(), code=1).stderr
        assert json.loads(dlrun("logs", job, *words.split(), "--json", code=1).stdout)["logs"] == []
    assert "not measured: its spec has `usage: false`" in dlrun("usage", job).stdout
