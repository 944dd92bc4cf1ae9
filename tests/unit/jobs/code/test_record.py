"""The record of the code: which files, what git knows, and that nothing slow or secret is read."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from dlrun.jobs.code import git, names, reach
from dlrun.jobs.code.reach import Digests


def committed(place):
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", *words], cwd=place, check=True)


def digests(paths) -> Digests:
    found = Digests()
    reach.read(paths, found, time.monotonic() + 60)
    return found


def below(place, without=()) -> set[str]:
    found = digests(reach.below(place, list(without)))
    return {os.path.relpath(path, place) for path in found.files}


@pytest.mark.needs("git")
def test_git_knows_what_is_tracked_and_what_is_new(tmp_path):
    (tmp_path / "train.py").write_text("1")
    (tmp_path / "weights").write_text("tracked, whatever its name")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    committed(tmp_path)
    for name in ("ignored.py", "new.py", "new.bin"):
        (tmp_path / name).write_text("2")
    (tmp_path / "train.py").write_text("token = 'ghp_" + "a1B2" * 9 + "'\n")
    found = git.repository(tmp_path, 10)
    assert {*found.tracked, *found.new} == {"train.py", "weights", ".gitignore", "new.py"}
    assert "new.bin" in found.untracked
    assert found.changed == ("train.py",)
    assert len(found.commit) == 40
    diff = git.difference(found, 10)
    assert "+token = '***'" in diff


@pytest.mark.needs("git")
def test_a_submodule_belongs_to_the_code(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "layer.py").write_text("1")
    committed(inner)
    outer = tmp_path / "outer"
    outer.mkdir()
    (outer / "train.py").write_text("1")
    subprocess.run(["git", "init", "-q"], cwd=outer, check=True)
    add = [
        "git",
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(inner),
        "vendor/inner",
    ]
    subprocess.run(add, cwd=outer, check=True)
    committed(outer)
    assert {"train.py", "vendor/inner/layer.py"} <= set(git.repository(outer, 10).tracked)
    (outer / "vendor" / "inner" / "new.py").write_text("1")
    assert "vendor/inner/new.py" in git.repository(outer, 10).new


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:ghp_secret@github.com/o/r.git", "https://github.com/o/r.git"),
        ("https://tokentokentoken@github.com/o/r.git", "https://github.com/o/r.git"),
        ("https://h/o/r.git?access_token=abc", "https://h/o/r.git"),
        ("git@github.com:o/r.git", "git@github.com:o/r.git"),
        ("/srv/git/r.git", "/srv/git/r.git"),
    ],
)
def test_the_remote_has_no_credentials(tmp_path, url, shown):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "remote", "add", "origin", url], cwd=tmp_path, check=True)
    found = git.repository(tmp_path, 10)
    assert (found.remote, found.commit) == (shown, None)


@pytest.mark.needs("git")
def test_names_that_a_shell_or_git_would_quote(tmp_path):
    odd = ["a b.py", "ü.py", "back\\slash.py", "-x.py", ":(glob)*.py", "tab\t.py", "new\nline.py"]
    for name in odd:
        (tmp_path / name).write_text("1")
    committed(tmp_path)
    for name in odd:
        (tmp_path / name).write_text("2")
    found = git.repository(tmp_path, 10)
    assert set(found.tracked) == set(found.changed) == set(odd)
    assert git.difference(found, 10).count("diff --git") == len(odd)
    read = digests(reach.of_repository(found, []))
    assert {Path(path).name for path in read.files} == set(odd) - {"new\nline.py"}


def test_without_git_or_in_no_repository_there_is_none(tmp_path, monkeypatch):
    assert git.repository(tmp_path, 10) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git.repository(tmp_path, 10) is None


def test_a_git_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    began = time.monotonic()
    assert git.repository(tmp_path, 0.2) is None
    assert time.monotonic() - began < 300


def test_what_is_code_without_git(tmp_path):
    for name in ("train.py", "conf/model.yaml", "data.bin", "sub/a.cu", ".hidden/x.py", "wandb/run.py", "venv/pyvenv.cfg",
                 "venv/lib/x.py", "own/pyvenv.cfg", "own/y.py", "set/part.json", ".env", "keys/id_rsa"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    (tmp_path / "big.py").write_bytes(b"#" * (names.LARGEST + 1))
    assert below(tmp_path, [str(tmp_path / "set")]) == {"train.py", "conf/model.yaml", "sub/a.cu"}


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "id_ed25519", "a.pem", "secrets.yaml", "credentials.json", ".netrc"]
)
def test_a_secret_is_known_by_its_name(name):
    assert names.is_secret(name)


@pytest.mark.parametrize(
    "name", ["secrets.py", ".env.example", "environment.py", "keys.py", "id_rsa.pub", "tokens.py"]
)
def test_a_program_is_not_a_secret(name):
    assert not names.is_secret(name)


def test_a_deadline_ends_the_reading_and_is_reported(tmp_path):
    (tmp_path / "a.py").write_text("1")
    found = Digests()
    reach.read([str(tmp_path / "a.py")], found, time.monotonic() - 1)
    assert not found.complete
    assert "slow" in found.behind


def test_a_pipe_or_a_device_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "gone.py").symlink_to("nowhere")
    assert below(tmp_path) == set()


def test_a_program_elsewhere_is_code_with_its_neighbours(tmp_path):
    work, program = tmp_path / "work", tmp_path / "program"
    work.mkdir()
    (program / "deep").mkdir(parents=True)
    for name in ("train.py", "lib.py", "deep/other.py"):
        (program / name).write_text("1")
    found = list(reach.beside(["python", str(program / "train.py"), "--lr", "1"], work, work))
    assert found == [str(program / "train.py"), str(program / "lib.py")]
    assert list(reach.beside(["python", "../program/train.py"], work, work)) == found
    assert list(reach.beside(["python", "train.py"], program, program)) == []


@pytest.mark.needs("git")
def test_the_directory_of_a_job_is_no_code(tmp_path):
    """Its record and its scripts would be changes of the code of the next job, and of this one."""
    for place in (tmp_path / "with", tmp_path / "without"):
        job = place / "jobs" / "first"
        (job / "lib").mkdir(parents=True)
        (place / "train.py").write_text("1")
        for name in (".dlrun-written", "job.sh", "lib/job.sh"):
            (job / name).write_text("")
    committed(tmp_path / "with")
    subprocess.run(["git", "rm", "-rq", "--cached", "jobs"], cwd=tmp_path / "with", check=True)
    found = git.repository(tmp_path / "with", 10)
    assert list(reach.of_repository(found, [])) == [str(tmp_path / "with" / "train.py")]
    assert below(tmp_path / "without") == {"train.py"}
