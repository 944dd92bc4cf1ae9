"""Job directories: made whole or not at all, private, and found by every name that they have."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.records import directories, jobs, links
from dlrun.jobs.records.validation import read_json
from dlrun.render.script import plan_json
from dlrun.render.written_names import WrittenNames
from tests.making import LOCAL, plan_of

FILES = {"job.sh": "#!/bin/bash\n", "plan.json": '{"name": "a", "site": "s", "scheduler": "local"}'}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make(base: Path, directory: str, job_id: str | None = None, name: str = "a", age: int = 0) -> Path:
    path = base / directory
    directories.create(
        path,
        {**FILES, "plan.json": json.dumps({"name": name, "site": "s", "scheduler": "openpbs"})},
        WrittenNames(),
    )
    if job_id:
        directories.write_json(path / directories.SUBMISSION, {"job_id": job_id, "submitted": 1.0})
    os.utime(path, (1000 - age, 1000 - age))
    return path


def test_a_job_directory_is_private_and_complete(tmp_path):
    os.umask(0o022)
    directories.create(tmp_path / "below" / "a", FILES, WrittenNames())
    made = tmp_path / "below" / "a"
    assert mode(made) == 0o700
    assert mode(made / "job.sh") == 0o700
    assert mode(made / "plan.json") == 0o600
    assert (made / "logs").is_dir()
    assert [p.name for p in (tmp_path / "below").iterdir()] == ["a"]


def test_each_point_of_a_sweep_has_its_own_logs(tmp_path):
    directories.create(tmp_path / "a", FILES, WrittenNames(points=3))
    assert sorted(p.parent.name for p in (tmp_path / "a" / "points").glob("*/logs")) == ["0", "1", "2"]


def test_what_is_there_is_not_touched(tmp_path):
    directories.create(tmp_path / "a", FILES, WrittenNames())
    (tmp_path / "a" / "mine").touch()
    with pytest.raises(OperationFailed, match="cannot make the job directory"):
        directories.create(tmp_path / "a", {"job.sh": "other"}, WrittenNames())
    assert (tmp_path / "a" / "job.sh").read_text() == FILES["job.sh"]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_directory_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(OperationFailed, match="No space left on device") as refused:
        directories.create(tmp_path / "a", FILES, WrittenNames())
    assert "DLRUN_JOBS" in refused.value.help
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OperationFailed, match="Not a directory"):
        directories.create(tmp_path / "file" / "a", FILES, WrittenNames())


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("resnet-50_v1.5", "resnet-50_v1.5-"),
        ("a b/c", "a-b-c-"),
        ("../../etc", "etc-"),
        ("größe", "gr--e-"),
        ("...", "job-"),
        ("'; touch x; '", "---touch-x----"),
        ("x" * 300, "x" * 60 + "-"),
    ],
)
def test_directories_have_safe_names(tmp_path, name, start):
    one, two = (directories.new_directory(tmp_path, name) for _ in range(2))
    assert one.parent == tmp_path
    assert one != two
    if "touch" not in name:
        assert one.name.startswith(start)
    assert not set(one.name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"DLRUN_JOBS": "/scratch/jobs", "XDG_STATE_HOME": "/x"}, "/scratch/jobs"),
        ({"XDG_STATE_HOME": "/x"}, "/x/dlrun/jobs"),
    ],
)
def test_where_jobs_are(environment, home):
    assert jobs.home(environment) == Path(home)


def test_without_variables_jobs_are_below_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert jobs.home({}) == Path("/home/ada/.local/state/dlrun/jobs")
    assert jobs.home({"DLRUN_JOBS": "~/jobs"}) == Path("/home/ada/jobs")


def test_found_by_every_name(tmp_path, monkeypatch):
    old = make(tmp_path, "net-20260101-0000", "41", name="net", age=10)
    new = make(tmp_path, "net-20260102-0000", "42.server", name="net", age=5)
    other = make(tmp_path, "other-20260103", "43", name="other")
    for word, path in {
        str(old): old,
        "net-20260101-0000": old,
        "net-20260101": old,
        "41": old,
        "42": new,
        "42.server": new,
        "net": new,
        "other": other,
        "oth": other,
        "latest": other,
    }.items():
        assert jobs.find(word, tmp_path).directory == path, word
    monkeypatch.chdir(old)
    assert jobs.find(".", tmp_path).directory == old
    assert [job.directory for job in jobs.all_jobs(tmp_path)] == [other, new, old]


def test_not_found(tmp_path):
    with pytest.raises(Invalid, match="no job `latest`"):
        jobs.find("latest", tmp_path)
    make(tmp_path, "net-1", "1")
    make(tmp_path, "net-2", "2")
    with pytest.raises(Invalid, match="no job `x`") as missing:
        jobs.find("x", tmp_path)
    assert "`dlrun status --recent`" in missing.value.help
    with pytest.raises(Invalid, match="`net-` could be any of 2 jobs: `net-"):
        jobs.find("net-", tmp_path)


def test_what_is_no_job_is_passed_over(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.json").write_text("{")
    (tmp_path / ".half.new").mkdir()
    (tmp_path / "file").touch()
    job = make(tmp_path, "real", "1")
    assert [j.directory for j in jobs.all_jobs(tmp_path)] == [job]
    assert list(jobs.all_jobs(tmp_path / "nowhere")) == []


def test_a_link_that_cannot_be_followed_hides_no_job(tmp_path):
    """As one to a file system that does not answer any more: no job was listed."""
    job = make(tmp_path, "a-1", "7")
    (tmp_path / "loop").symlink_to("loop")
    assert [one.directory for one in jobs.all_jobs(tmp_path)] == [job]
    assert jobs.find("7", tmp_path).directory == job


def test_the_plan_of_a_job_comes_back(tmp_path):
    plan = plan_of(tmp_path, "sweep: {x: [a, b]}", LOCAL)
    directories.create(tmp_path / "job", {"plan.json": plan_json(plan)}, WrittenNames(points=2))
    job = jobs.load(tmp_path / "job")
    assert job.plan() == plan
    assert (job.name, job.scheduler, job.job_id, job.array) == ("run", "local", None, 2)
    assert job.run_directories() == [tmp_path / "job" / "points" / "0", tmp_path / "job" / "points" / "1"]


def test_a_record_is_never_half_written(tmp_path, monkeypatch):
    directories.write_json(tmp_path / "record", {"a": 1})

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        directories.write_json(tmp_path / "record", {"a": 2})
    assert read_json(tmp_path / "record") == {"a": 1}
    (tmp_path / "record").write_text("[1]")
    assert read_json(tmp_path / "record") is None


def test_of_links_that_lead_nowhere_only_those_to_jobs_are_removed(tmp_path):
    made = directories.new_directory(tmp_path / "scratch", "train")
    links.enter(tmp_path, made, "train")
    # A link of the user may have the name that dlrun would give it.
    own = {"train-20260101-000000-abcd": tmp_path / "usb/train-20260101-000000-abcd", "there": tmp_path}
    for name, target in own.items():
        (tmp_path / name).symlink_to(target)
    assert links.forget_lost(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir() if path.is_symlink()} == set(own)


def test_a_job_that_submitted_itself_again_is_found_by_each_of_its_ids(tmp_path):
    chained = make(tmp_path, "net-1", job_id="4.login")
    (chained / ".followed").write_text("4.login\n5.login\n")
    (chained / "job-id").write_text("6.login\n")
    for word in ("4", "4.login", "5", "5.login", "6", "6.login"):
        found = jobs.find(word, tmp_path)
        assert (found.directory, found.job_id) == (chained, "6.login"), word
    newer = make(tmp_path, "net-2", job_id="5.login")
    assert jobs.find("5", tmp_path).directory == newer, "an id that a job has now comes first"
    with pytest.raises(Invalid, match="no job `7`"):
        jobs.find("7", tmp_path)
