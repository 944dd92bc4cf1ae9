"""`code: {stage: true}`: ranks run in a copy on their node, and what they write there is in `work/` of the run at the end."""

from __future__ import annotations

import shutil

import pytest

SITE = (
    "name: here\nscheduler: {{type: local}}\nlauncher: {{name: local}}\nrendezvous: {{address: loopback}}\n"
    "storage: {{node_local: {{path: '{}', size: 1TB}}}}\n"
)
PROGRAM = """\
import os, shutil, lib
print(lib.VERSION, os.path.exists("written"), os.getcwd(), flush=True)
open("written", "a").write("x")
if "DLRUN_DATA_SET" in os.environ:
    print(open(os.environ["DLRUN_DATA_SET"] + "/part").read(), flush=True)
os.makedirs("saved", exist_ok=True)
shutil.copy2("lib.py", "saved/lib.py")  # with its time, as trackers do
if "DLRUN_RESULTS" in os.environ:
    open(os.environ["DLRUN_RESULTS"] + "/model", "w").write("m")
raise SystemExit(os.environ["DLRUN_RESTART"] == "0")
"""


@pytest.fixture
def staged(dlrun):
    """Run the program with staged code, once more after it has failed if `more` says so: the job's directory."""
    local = dlrun.place / "local disk"
    local.mkdir()
    (dlrun.place / "site.yaml").write_text(SITE.format(local))
    for name, text in (
        ("train.py", PROGRAM),
        ("lib.py", "VERSION = 1\n"),
        ("a/__init__.py", ""),
        ("b/__init__.py", ""),
    ):
        path = dlrun.place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def ran(more, code):
        spec = "site: site.yaml\nresources: {ranks_per_node: 1, walltime: 1h}\nusage: false\ncommand: [python3, train.py]\n"
        variables = "environment: {variables: {PYTHONDONTWRITEBYTECODE: '1'}}\n"
        return dlrun.submit(
            f"{spec}{variables}{more if 'code:' in more else 'code: {stage: true}' + chr(10) + more}",
            "--wait",
            code=code,
        )

    return ran


def left(dlrun):
    return sorted(path.name for path in (dlrun.place / "local disk").glob("dlrun-*/.results-*"))


def log(job, name="job"):
    return (job / "logs" / f"{name}.log").read_text()


AGAIN = "on_failure: {requeue: 1, user_error: requeue}\n"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["copy", "in_place"])
def test_relative_paths_are_those_of_the_submission(dlrun, staged, strategy):
    (dlrun.place / "set").mkdir()
    (dlrun.place / "set" / "part").write_text("data")
    data = f"data: {{set: {{source: set, strategy: {strategy}}}}}\n"
    for code in ("", "code: snapshot\n"):
        job = staged(f"results: {{to: out{len(code)}}}\n{data}{code}", 1)
        assert "data\n" in log(job, "rank-0")
        assert [path.name for path in (dlrun.place / f"out{len(code)}").iterdir()] == ["model"]
        assert not (job / "work" / "out0").exists()


@pytest.mark.slow
@pytest.mark.parametrize("results", [False, True])
def test_the_next_run_finds_what_the_first_wrote_and_results_have_no_code(dlrun, staged, results):
    job = staged(AGAIN + ("results: {to: out}\n" if results else ""), 0)
    lines = [line.split() for line in log(job, "rank-0").splitlines() if "/work" in line]
    assert [line[:2] for line in lines] == [["1", "False"], ["1", "True"]]
    assert all(".results-code-" in line[-1] for line in lines), "on the node's own storage"
    assert (job / "work" / "written").read_text() == "xx"
    assert (job / "work" / "saved" / "lib.py").read_text() == "VERSION = 1\n"
    assert "saved/lib.py" in log(job).split(f"the program wrote to {job}/work: ")[1].splitlines()[0]
    tree = (job / "code" / "snapshot").read_text().splitlines()[0]
    for name in ("train.py", "lib.py", "a/__init__.py", "b/__init__.py"):
        assert (job / "work" / name).samefile(f"{tree}/{name}"), "code is not copied back"
    found = sorted(path.name for path in (dlrun.place / "out").iterdir()) if results else []
    assert found == (["model"] if results else [])
    assert left(dlrun) == []
    shutil.rmtree(job)


@pytest.mark.slow
def test_results_that_stay_after_a_failure_keep_nothing_else(dlrun, staged):
    job = staged("results: {to: out, when: ok}\n", 1)
    assert (job / "work" / "written").read_text() == "x"
    assert list((dlrun.place / "out").iterdir()) == []
    (kept,) = left(dlrun)
    assert not kept.startswith(".results-code-")
    assert f"copying what the ranks wrote beside the code to {job}/work" in log(job)
    assert "the results stay on the nodes" in log(job)
