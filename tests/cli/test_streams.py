"""Streams that are closed or full, and surroundings that are missing: one line, the right exit code, and the job's id."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from dlrun.terminal.failure import report
from tests import forked

SPEC = "name: a\ncommand: ['true']\nsite: workstation\n"


def onto(path: str, *numbers: int) -> Callable[[], None]:
    """Open a path as these streams; nothing: close them."""

    def become() -> None:
        for number in numbers:
            if not path:
                os.close(number)
                continue
            opened = os.open(path, os.O_RDWR)
            os.dup2(opened, number)
            os.close(opened)

    return become


@pytest.fixture
def run(tmp_path, monkeypatch) -> Callable[..., forked.Ended]:
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.setenv("DLRUN_JOBS", str(tmp_path / "jobs"))

    def here(words: str, before: Callable[[], None] = lambda: None, **variables: str | None) -> forked.Ended:
        done = forked.run(words.split(), tmp_path, variables, before=before)
        assert "Traceback" not in done.stderr
        assert "this is a bug" not in done.stderr
        return done

    return here


def job_id(place: Path) -> str:
    [record] = place.glob("jobs/*/submission.json")
    return json.loads(record.read_text())["job_id"]


@pytest.mark.parametrize("form", ["", "--parsable", "--json"])
def test_a_job_is_named_if_its_answer_cannot_be_written(run, tmp_path, form):
    done = run(f"submit spec.yaml {form}", onto("/dev/full", 1))
    assert done.code == 1
    assert "error: cannot write to stdout: no space left on device\n" in done.stderr
    assert done.stderr.endswith(f"the job is submitted as {job_id(tmp_path)}\n")


def test_a_job_is_named_if_stdout_is_closed(run, tmp_path):
    done = run("submit spec.yaml", onto("", 1))
    assert done.code == 0
    assert f"the job is submitted as {job_id(tmp_path)}\n" in done.stderr


def test_without_streams_the_exit_code_tells_that_the_job_is_submitted(run, tmp_path):
    assert run("submit spec.yaml", onto("", 0, 1, 2)).code == 0
    assert job_id(tmp_path)
    assert run("submit missing.yaml", onto("", 0, 1, 2)).code == 2


def test_the_jobs_exit_code_arrives_without_stdout(run, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC.replace("'true'", "bash, -c, 'exit 5'"))
    assert run("submit spec.yaml --wait", onto("", 1)).code == 5


@pytest.mark.parametrize(
    "words", ["list", "list --json", "plan spec.yaml", "--help", "--version", "keys", "site list"]
)
@pytest.mark.parametrize(("path", "why"), [("/dev/full", "no space left on device"), ("", "it is closed")])
def test_an_answer_that_cannot_be_written_is_an_error(run, words, path, why):
    run("submit spec.yaml")
    done = run(words, onto(path, 1))
    assert (done.code, f"error: cannot write to stdout: {why}\n" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("path", ["/dev/full", ""])
def test_messages_that_cannot_be_written_are_dropped(run, path):
    done = run("plan spec.yaml", onto(path, 2))
    assert (done.code, "job a on workstation" in done.stdout) == (0, True)
    assert run("plan missing.yaml", onto(path, 2)).code == 2


def test_questions_need_a_stdin(run):
    done = run("init new.yaml", onto("", 0))
    assert (done.code, "there is no command to run" in done.stderr) == (2, True), done.stderr


def gone(place: Path) -> Callable[[], None]:
    def leave() -> None:
        directory = place / "purged"
        directory.mkdir()
        os.chdir(directory)
        directory.rmdir()

    return leave


@pytest.mark.parametrize(
    "words", ["list", "status latest", "logs latest", "why latest", "results latest", "cancel latest"]
)
def test_jobs_are_found_from_a_directory_that_was_deleted(run, tmp_path, words):
    run("submit spec.yaml --wait")
    assert run(words, gone(tmp_path)).code == 0


@pytest.mark.parametrize(
    "words", ["submit {}/spec.yaml", "plan {}/spec.yaml", "render {}/spec.yaml", "plan spec.yaml", "init"]
)
def test_a_deleted_working_directory_is_named(run, tmp_path, words):
    done = run(words.format(tmp_path), gone(tmp_path))
    assert done.code == 2
    assert "the working directory does not exist any more" in done.stderr
    assert not (tmp_path / "jobs").exists()


@pytest.mark.parametrize("home", [None, "", "relative", "/proc/nowhere", "/dev/null"])
def test_a_job_is_submitted_whatever_the_home_directory_is(run, tmp_path, home):
    done = run(
        "submit spec.yaml --wait", HOME=home, XDG_CACHE_HOME=None, XDG_STATE_HOME=None, XDG_CONFIG_HOME=None
    )
    assert done.code == 0, done.stderr


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No usable temporary directory found in ['/nowhere']"),
        OSError(errno.ENOSPC, "No space left on device", "/scratch/x"),
        OSError(errno.EMFILE, "Too many open files"),
        MemoryError(),
    ],
)
def test_what_the_machine_lacks_is_no_bug(error, capsys):
    assert report(error, ["list"]) == 1
    text = capsys.readouterr().err
    assert text.startswith("error: ")
    assert len(text.splitlines()) == 1


def test_a_width_that_no_terminal_has_costs_nothing(run):
    assert run("plan spec.yaml", COLUMNS="99999999", FORCE_COLOR="1").cpu < 10


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: data[:16] + bytes(len(data) - 16)])
def test_a_compiled_file_that_a_full_disk_cut_off_is_named(tmp_path, damage):
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dlrun", "list"],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "",
                 "PYTHONPYCACHEPREFIX": str(tmp_path / "a b"), "DLRUN_JOBS": str(tmp_path / "jobs")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip

    assert run().returncode == 0
    (compiled,) = (tmp_path / "a b").glob("**/dlrun/cli/jobs/list.*.pyc")
    compiled.write_bytes(damage(compiled.read_bytes()))
    done = run()
    assert done.returncode == 1
    assert done.stderr.lstrip("\n") == (  # before which click ends the line, as of an interrupted question
        f"error: Python's compiled file `{compiled}` is damaged, as after a full disk\n"
        f"   = help: remove it, and Python makes it again: `rm '{compiled}'`\n"
    )


def test_a_fork_with_a_limit_leaves_no_part_of_a_compiled_file(tmp_path, monkeypatch):
    (tmp_path / "new_module.py").write_text(f"x = {'y' * 500!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    limit = forked.with_space(100)

    def before() -> None:
        limit()
        import_module("new_module")

    assert forked.run(["--version"], tmp_path, before=before).code == 0
    assert not list(tmp_path.glob("__pycache__/*"))
