"""What was submitted is what runs, or dlrun shows what changed: at each start, in the log and in what shows jobs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.programs import need

ROOT = Path(__file__).parents[2]

ONE = "resources: {ranks_per_node: 1}\nusage: false\n"


@pytest.fixture
def tree(dlrun):
    """A working tree with a commit, in the directory of the submissions."""
    (dlrun.place / "train.py").write_text("import lib\nprint('version', lib.VERSION)\n")
    (dlrun.place / "lib.py").write_text("VERSION = 1\n")
    for words in (("init", "-q"), ("add", "train.py", "lib.py"),
                  ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first")):  # fmt: skip
        subprocess.run(["git", *words], cwd=dlrun.place, check=True)
    return dlrun.place


def job_log(job):
    return (job / "logs" / "job.log").read_text()


@pytest.mark.needs("git")
def test_an_unchanged_tree_is_recorded_and_nothing_is_reported(dlrun, tree):
    job = dlrun.submit(f"command: [python3, train.py]\n{ONE}", "--wait")
    known = json.loads((job / "code" / "record.json").read_text())
    assert known["repository"]["commit"]
    assert not known["repository"]["changed"]
    assert "code:" not in job_log(job)
    (row,) = json.loads(dlrun("results", job, "--json").stdout)["results"]
    assert row["commit"] == known["repository"]["commit"][:7]
    assert "changed" not in dlrun("status", job).stderr


@pytest.mark.needs("git")
def test_what_changes_before_a_requeue_is_named_everywhere(dlrun, tree):
    job = dlrun.submit(
        "run: |\n  echo 'VERSION = 2' >lib.py; echo '# more' >>train.py\n  [ $DLRUN_RESTART = 1 ]\n"
        f"on_failure: {{requeue: 1, user_error: requeue}}\n{ONE}",
        "--wait",
    )
    assert job_log(job).count("code: lib.py and 1 more changed since the submission\n") == 1
    text = "lib.py and 1 more changed since the submission, between runs 1 and 2"
    assert text in dlrun("status", job).stderr
    assert text in dlrun("why", job).stdout
    assert text in dlrun("results", job).stderr
    assert json.loads(dlrun("status", job, "--json").stdout)["jobs"][0]["code_changed"] == text
    assert "-changed" in dlrun("results", job).stdout
    page = dlrun.place / "page.html"
    dlrun("report", job, "-o", page)
    assert text in page.read_text()


@pytest.mark.slow
@pytest.mark.needs("git")
def test_points_of_a_sweep_before_and_after_an_edit(dlrun, tree):
    job = dlrun.submit(
        f"run: '[ {{{{ n }}}} != 1 ] || echo VERSION = 2 >lib.py'\nsweep: {{n: [0, 1, 2, 3], at_once: 1}}\n{ONE}"
    )
    dlrun("logs", "-f", job, code=None)
    assert "lib.py changed since the submission, between points 1 and 2\n" in dlrun("status", job).stderr
    runs = json.loads(dlrun("results", job, "--json").stdout)["results"]
    assert [run["commit"].endswith("-changed") for run in runs] == [False, False, True, True]


@pytest.mark.slow
def test_a_strict_job_ends_with_the_name_of_the_file(dlrun):
    """Also without git: what is below the working directory and looks like code is compared."""
    (dlrun.place / "a program.py").write_text("print('first')\n")
    job = dlrun.submit(
        "code: strict\nrun: |\n  python3 'a program.py'; echo '#' >>'a program.py'; exit 3\n"
        f"on_failure: {{requeue: 1, user_error: requeue}}\n{ONE}",
        "--wait",
        code=1,
    )
    assert "code: strict: a program.py changed since the submission" in job_log(job)
    assert (job / "logs" / "rank-0.log").read_text().count("first") == 1, "the changed program did not run"
    found = dlrun("why", job).stdout
    assert "a program.py changed since the submission, between runs 1 and 2" in found
    assert "`code: strict` does not allow" in found
    assert json.loads(dlrun("why", job, "--json").stdout)["why"][0]["cause"] == "code"


@pytest.mark.slow
def test_the_points_of_a_strict_sweep_end_after_an_edit(dlrun):
    (dlrun.place / "lib.py").write_text("VERSION = 1\n")
    job = dlrun.submit(
        f"code: strict\nrun: '[ {{{{ n }}}} != 1 ] || echo VERSION = 2 >lib.py'\nsweep: {{n: [0, 1, 2, 3], at_once: 1}}\n{ONE}"
    )
    dlrun("logs", "-f", job, code=None)
    runs = json.loads(dlrun("status", job, "--json").stdout)["jobs"][0]["runs"]
    assert [run["state"] for run in runs] == ["completed", "completed", "failed", "failed"]
    assert "lib.py changed since the submission, between points 1 and 2" in dlrun("why", job).stdout


@pytest.mark.slow
@pytest.mark.needs("git")
def test_large_files_are_counted_and_not_read(dlrun, tree):
    for name in ("weights.bin", "table.py"):  # neither is of the disk
        with (tree / name).open("wb") as file:
            file.truncate(3 << 30)
    job = dlrun.submit(f"command: [python3, train.py]\n{ONE}", "--wait")
    known = json.loads((job / "code" / "record.json").read_text())
    assert (known["large"], known["incomplete"]) == (1, None)
    assert known["repository"]["untracked"].count("table.py") == 1
    recorded = (job / "code" / "files.sha256").read_text()
    assert "train.py" in recorded
    assert "table.py" not in recorded


@pytest.mark.slow
def test_a_file_that_is_gone_has_changed(dlrun):
    (dlrun.place / "train.py").write_text("import os\nos.unlink('train.py')\nos._exit(3)\n")
    job = dlrun.submit(
        f"command: [python3, train.py]\non_failure: {{requeue: 1, user_error: requeue}}\n{ONE}",
        "--wait",
        code=2,
    )
    assert "code: train.py changed since the submission" in job_log(job)
    assert (job / "code-starts").read_text().endswith(f"- {dlrun.place}/train.py\n")


@pytest.mark.slow
def test_a_package_that_was_replaced_is_named(dlrun):
    place = dlrun.place / "venv" / "lib" / "python3.11" / "site-packages"
    (place / "torch-2.9.0.dist-info").mkdir(parents=True)
    (dlrun.place / "venv" / "bin").mkdir()
    (dlrun.place / "venv" / "bin" / "activate").write_text("")
    (dlrun.place / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.4\n")
    job = dlrun.submit(
        f"run: |\n  mv '{place}/torch-2.9.0.dist-info' '{place}/torch-2.10.0.dist-info'; exit 3\n"
        f"environment: {{venv: venv}}\non_failure: {{requeue: 1, user_error: requeue}}\n{ONE}",
        "--wait",
        code=None,
    )
    known = json.loads((job / "code" / "record.json").read_text())["environment"]
    assert (known["python"], known["distributions"]) == ("3.11.4", {"torch": "2.9.0"})
    assert "code: torch 2.9.0 (package) changed since the submission" in job_log(job)


@pytest.mark.slow
@pytest.mark.needs("git")
def test_a_lock_file_is_of_the_environment(dlrun, tree):
    (tree / "uv.lock").write_text("version = 1\n")
    job = dlrun.submit(f"command: [python3, train.py]\n{ONE}", "--wait")
    known = json.loads((job / "code" / "record.json").read_text())["environment"]
    assert set(known["lock"]) == {"uv.lock"}
    (tree / "uv.lock").write_text("version = 2\n")
    rows = json.loads(dlrun("diff", job, "--json").stdout)["differences"]
    assert "environment" in {row["section"] for row in rows if "uv.lock" in row["name"]}


@pytest.mark.slow
def test_off_records_and_compares_nothing(dlrun):
    (dlrun.place / "train.py").write_text("print(1)\n")
    job = dlrun.submit(f"code: off\ncommand: [python3, train.py]\n{ONE}", "--wait")
    assert not (job / "code").exists()
    assert "dlrun_check_code" not in (job / "job.sh").read_text()


@pytest.mark.slow
def test_clean_removes_the_record(dlrun):
    (dlrun.place / "train.py").write_text("print(1)\n")
    job = dlrun.submit(f"command: [python3, train.py]\n{ONE}", "--wait")
    assert (job / "code-starts").exists()
    dlrun("clean", job, "--yes", code=None)
    assert not job.exists()


@pytest.mark.slow
@pytest.mark.needs("git", "cc")
@pytest.mark.parametrize("hangs", [False, True])
def test_a_slow_file_system_is_named_and_not_waited_for(dlrun, tree, hangs):
    """The job is submitted with the commit, and with what else could be read: 500 files of 5 ms each, or one that never opens."""
    shim, place = dlrun.place / "slow.so", tree / "package"
    command = [need("cc"), "-shared", "-fPIC", "-O2", "-o", shim, ROOT / "tests" / "slow_files.c", "-ldl"]
    subprocess.run(command, check=True)
    place.mkdir()
    for number in range(500):
        (place / f"module{number}.py").write_text(f"{number}\n")
    (place / "hangs.py").write_text("")
    subprocess.run(["git", "add", "package"], cwd=tree, check=True)
    slow = {"SLOW_HANGS": "hangs.py"} if hangs else {"SLOW_MS": "5"}
    variables = {"LD_PRELOAD": str(shim), "SLOW_PLACE": str(tree), **slow}
    spec = dlrun.spec(f"code: strict\ntrack: wandb\nrun: 'echo of \"$DLRUN_COMMIT\"'\n{ONE}")
    ran = dlrun("submit", spec, env=variables, stdin=subprocess.DEVNULL)
    assert "warning: the code is recorded in part: " in ran.stderr
    assert "; `code: strict` compares only what was recorded" in ran.stderr
    job = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
    known = json.loads((job / "code" / "record.json").read_text())
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tree, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert known["repository"]["commit"] == head
    assert known["repository"]["branch"]
    if not hangs:
        assert known["repository"]["dirty"] is None
        assert "git did not say which files are new, or differ from the commit" in ran.stderr
        dlrun("logs", "-f", job, code=None)
        assert f"of {head[:12]}-unchecked" in (job / "logs" / "rank-0.log").read_text()
        (row,) = json.loads(dlrun("results", job, "--json").stdout)["results"]
        assert row["commit"] == f"{head[:7]}-unchecked"
