"""Files of a job on a login node: what its store of code has is not sent again, and each job has copies of its own."""

from __future__ import annotations

import json
import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from dlrun.cli.jobs import resubmit
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.code import programs, store
from dlrun.jobs.code.choose import Chosen
from dlrun.jobs.queue import rerun
from dlrun.jobs.records import jobs
from dlrun.jobs.remote import files as remote_files, steps as remote_steps
from dlrun.jobs.submission import node_archive
from dlrun.jobs.submission.files import BUNDLE
from dlrun.model.data import DATE

NAMES = ["train.sh", "src/-a b", "src/@1", "src/new\nline", "src/empty", "tool"]


@pytest.fixture
def tree(far):
    """A tree with names and modes of every kind, which a spec sends as a whole."""
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write("files: [train.sh, src, tool, link]\ncaches: off\n")
    (far.tree / "src").mkdir()
    for number, name in enumerate(NAMES):
        path = far.tree / name
        path.write_text("" if name == "src/empty" else f"{name} {number}\n")
        os.utime(path, ns=(0, (1_700_000_000 + number // 2) * 10**9 + 123))
    (far.tree / "tool").chmod(0o755)
    (far.tree / "link").symlink_to("src/@1")
    return far.tree


def store_of(far):
    return far.jobs / f".dlrun-code-{os.geteuid()}"


def objects(far):
    return {path.relative_to(store_of(far) / "objects").as_posix(): path
            for path in (store_of(far) / "objects").glob("*/*")}  # fmt: skip


def submitted(far):
    """The directory of a new job on the login node."""
    return far.jobs / far.submit().remote.directory.rpartition("/")[2]


def sent(far):
    """What the last submission said about the files."""
    return [line for line in far.said if line.startswith(("sent ", "`there` has "))][-1]


def is_as_sent(job, tree):
    """Each file of a job is that of the tree, with its time to the second, and the job's alone."""
    assert not [
        path
        for path in job.iterdir()
        if path.name in (".objects", ".laid", ".fresh", ".kept", ".keys", ".times")
    ]
    for name in NAMES:
        here, there = (tree / name).stat(), (job / "files" / name).stat()
        assert (job / "files" / name).read_bytes() == (tree / name).read_bytes()
        assert (there.st_nlink, int(there.st_mtime)) == (1, int(here.st_mtime)), name
        assert there.st_mode & 0o700 == (0o700 if name == "tool" else 0o600)
    assert str((job / "files/link").readlink()) == "src/@1"
    return True


@pytest.mark.slow
def test_only_what_changed_is_sent(far, tree):
    first = submitted(far)
    assert is_as_sent(first, tree)
    assert "sent 7 files" in sent(far), "with the link"
    for key, path in objects(far).items():
        assert sha256(path.read_bytes()).hexdigest() == key.replace("/", "")[:64]
        assert store.is_intact(path, path.stat().st_size, 0o500 if key.endswith("x") else 0o400)
    (tree / "src/@1").write_text("another\n")
    second = submitted(far)
    assert "sent 2 files (8B) to `there`: link, src/@1; it had 5 more (44B)" in sent(far)
    assert is_as_sent(second, tree)
    assert (first / "files/src/@1").read_text() == "src/@1 2\n"
    assert len(objects(far)) == 7


def test_the_programs_of_nodes_are_sent_once(far, tree, monkeypatch):
    """Each job directory there has a link to them, also one whose spec sends no file."""
    monkeypatch.setattr(programs, "shared", lambda *_: {})  # the records here are in the same store
    began = []
    write = remote_files._add_text
    monkeypatch.setattr(
        remote_files, "_add_text", lambda tar, name, text: began.append(name) or write(tar, name, text)
    )
    spec = tree / "spec.yaml"
    spec.write_text(spec.read_text().replace("caches: off\n", ""))
    first = submitted(far)
    assert BUNDLE in began
    began.clear()
    spec.write_text(spec.read_text().replace("files: [train.sh, src, tool, link]", ""))
    jobs_there = [submitted(far), submitted(far)]
    assert BUNDLE not in began
    for job in jobs_there:
        assert (job / BUNDLE).read_bytes() == (first / BUNDLE).read_bytes() == node_archive.content()
        assert (job / BUNDLE).stat().st_nlink == 3
        assert (job / BUNDLE).stat().st_mode & 0o777 == 0o400


@pytest.mark.slow
def test_a_job_may_change_its_files(far, tree):
    """Neither the store nor a later job gets what it writes."""
    for name in NAMES:
        (submitted(far) / "files" / name).write_text("the job's own")
    assert is_as_sent(submitted(far), tree)


@pytest.mark.slow
def test_a_file_that_was_damaged_in_the_store_is_sent_again(far, tree):
    """Size, mode and date are right: a power cut has taken its content."""
    submitted(far)
    for path in objects(far).values():
        size = path.stat().st_size
        path.chmod(0o600)
        path.write_bytes(b"\0" * size)
        path.chmod(0o400)
        os.utime(path, (DATE, DATE))
    assert is_as_sent(submitted(far), tree)
    assert all(
        sha256(path.read_bytes()).hexdigest() == key.replace("/", "")[:64]
        for key, path in objects(far).items()
    )


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a_store_that_others_could_have_written_is_not_used(far, tree, trap):
    far.jobs.mkdir(parents=True)
    elsewhere = far.home / "elsewhere"
    elsewhere.mkdir()
    if trap == "link":
        store_of(far).symlink_to(elsewhere)
    elif trap == "open":
        store_of(far).mkdir()
        store_of(far).chmod(0o777)
    else:
        store_of(far).touch()
    for _ in range(2):
        assert is_as_sent(submitted(far), tree)
        assert "sent 7 files" in sent(far)
    assert list(elsewhere.iterdir()) == []
    assert trap == "file" or list(store_of(far).iterdir()) == []


def test_a_file_that_changes_while_it_is_sent_ends_the_submission(far, tree, monkeypatch):
    add = remote_files._add_file

    def edited(tar, one, key):
        if one.name == "tool":
            (tree / "tool").write_text("x" * one.size)
        add(tar, one, key)

    monkeypatch.setattr(remote_files, "_add_file", edited)
    with pytest.raises(OperationFailed, match="tool`: it has changed"):
        far.submit()
    assert far.directories() == []
    assert far.calls() == []


def test_dlrun_there_uses_the_same_files(far, tree):
    """A snapshot of the same tree on the login node adds nothing."""
    submitted(far)
    files = {name: (tree / name).lstat() for name in NAMES}
    with store.locked(store_of(far)):
        assert store.add(store_of(far), Chosen(root=tree, repository=None, files=files)).added == 0


@pytest.mark.slow
def test_what_no_job_uses_goes_after_a_month(far, tree, monkeypatch):
    submitted(far)
    held = objects(far)
    kept = next(iter(held.values()))
    os.link(kept, far.home / "of-a-job")
    for name in NAMES:
        (tree / name).write_text(f"{name} of today")
    submitted(far)
    assert held.keys() < objects(far).keys()
    monkeypatch.setattr(remote_steps, "_UNUSED", 0)
    for name in NAMES:
        (tree / name).write_text(f"{name} of tomorrow")
    submitted(far)
    assert held.keys() & objects(far).keys() == {kept.relative_to(store_of(far) / "objects").as_posix()}


def test_a_full_disk_takes_the_job_and_not_the_store(far, tree, monkeypatch):
    """What cannot be kept in the store is sent another time."""
    programs = far.home / "programs"
    (programs / "cp").write_text(
        '#!/bin/bash\n[[ $* != *.kept ]] || { echo "No space left on device" >&2; exit 1; }\nexec /bin/cp "$@"\n'
    )
    (programs / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for _ in range(2):
        assert is_as_sent(submitted(far), tree)
        assert "sent 7 files" in sent(far)
    assert objects(far) == {}


@pytest.mark.needs("git")
def test_the_record_of_what_was_sent(far, tree):
    """Commit and digests are in the job's directory there and in its record here; files of secrets are left out."""
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=tree, check=True)
    (tree / "train.sh").write_text("edited\n")
    (tree / "src/.env").write_text("TOKEN=x\n")
    job = submitted(far)
    (here,) = far.records()
    for place in (job, here):
        record = json.loads((place / "code/record.json").read_text())
        assert (record["directory"], record["files"], record["secret"]) == (
            f"{job}/files",
            len(NAMES) - 1,
            1,
        ), "without a name of two lines"
        assert record["repository"]["changed"] == ["train.sh"]
        assert "+edited" in (place / "code/diff").read_text()
    check = ["sha256sum", "--check", "--quiet", job / "code/files.sha256"]
    assert subprocess.run(check, cwd="/", check=False).returncode == 0
    (job / "files/src/@1").write_text("the job's own")
    assert subprocess.run(check, cwd="/", check=False, capture_output=True).returncode == 1


@pytest.mark.parametrize("mode", ["snapshot", "strict"])
def test_a_directory_that_only_the_login_node_has_is_not_recorded(far, mode):
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write(f"directory: /\ncode: {mode}\n")
    with pytest.raises(
        Invalid, match=f"`code: {mode}` cannot (store|compare) `/`, which is on the login node"
    ):
        far.submit()


def test_a_job_that_is_submitted_again_runs_the_same_code(far, tree):
    """Also with changed settings, and although the directory here is gone; `--code now` sends today's."""
    far.submit()
    (here,) = far.records()
    job = jobs.load(here)
    (tree / "train.sh").write_text("edited\n")
    now = resubmit._changed(job, (), same_code=False)
    assert now.plan().directory == f"{now.remote.directory}/files"
    assert (Path(now.remote.directory) / "files/train.sh").read_text() == "edited\n"
    (tree / "train.sh").unlink()
    for again in (
        resubmit._changed(job, ("resources.walltime=7m",), same_code=True),
        rerun.resubmit(job, job.plan(), print, code=job.directory),
    ):
        there = Path(again.remote.directory)
        assert again.plan().directory == f"{job.remote.directory}/files"
        assert not list((there / "files").iterdir())
        for name in ("record.json", "files.sha256"):
            assert (there / "code" / name).read_text() == (here / "code" / name).read_text()
    assert (
        int(resubmit._changed(job, ("resources.walltime=7m",), same_code=True).plan().request.walltime) == 420
    )


def test_today_s_code_for_some_points_is_refused(far, tree):
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write("sweep: {n: [1, 2]}\n")
    (far.tree / "spec.yaml").write_text(
        (far.tree / "spec.yaml").read_text().replace("train.sh]", "train.sh, '{{ n }}']", 1)
    )
    far.submit()
    (here,) = far.records()
    with pytest.raises(Invalid, match="today's code cannot run for some points of a sweep on a login node"):
        rerun.submit_points(jobs.load(here), (0,), print, same_code=False)
