"""What dlrun keeps outside of jobs, where another user has been before: nothing of theirs is read, run or written through."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

SPEC = "command: ['true']\n"


@pytest.fixture
def shared(tmp_path) -> Path:
    """A directory that every user may write."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    return place


def state(dlrun, place: Path) -> dict[str, str | None]:
    return {"XDG_STATE_HOME": str(place), "DLRUN_JOBS": None}


def test_the_cache_is_not_used_below_a_directory_that_others_can_change(dlrun, shared):
    (shared / "dlrun").mkdir()
    ran = dlrun("submit", dlrun.spec(SPEC), "--dry-run", env={"XDG_CACHE_HOME": str(shared)})
    assert ran.stderr.count("nothing is cached: ") == 1
    assert f"`{shared}` can be changed by other users (mode 0777)" in ran.stderr
    assert "set XDG_CACHE_HOME to a directory that only you can change" in ran.stderr
    assert list((shared / "dlrun").iterdir()) == []


def test_the_cache_is_used_below_a_directory_of_ones_own(dlrun, tmp_path):
    ran = dlrun("submit", dlrun.spec(SPEC), "--dry-run", env={"XDG_CACHE_HOME": str(tmp_path / "own")})
    assert "cached" not in ran.stderr
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    assert list((tmp_path / "own/dlrun").glob("templates-*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_another_users_links_and_files_in_the_cache_are_left_alone(dlrun, shared, tmp_path):
    """The case of a group's cache in which somebody else made `dlrun` first."""
    own = tmp_path / "own"
    dlrun("submit", dlrun.spec(SPEC), "--dry-run", env={"XDG_CACHE_HOME": str(own)})
    shutil.copytree(own / "dlrun", shared / "dlrun")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for path in (shared / "dlrun").iterdir():
        path.unlink()
        path.symlink_to(victim)
        os.chown(path, 4711, 4711, follow_symlinks=False)
    os.chown(shared / "dlrun", 4711, 4711)
    shared.chmod(0o1777)
    ran = dlrun("submit", "spec.yaml", "--dry-run", env={"XDG_CACHE_HOME": str(shared)})
    assert "belongs to another user (uid 4711)" in ran.stderr
    assert victim.read_text() == "mine"
    assert all(path.is_symlink() for path in (shared / "dlrun").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("theirs", ["dlrun", "dlrun/jobs"])
def test_no_job_is_written_where_another_user_could_replace_it(dlrun, shared, theirs):
    (shared / theirs).mkdir(parents=True)
    os.chown(shared / theirs, 4711, 4711)
    ran = dlrun("submit", dlrun.spec(SPEC), code=1, env=state(dlrun, shared))
    assert f"`{shared / theirs}` belongs to another user" in ran.stderr
    assert "set another directory with `--job-dir` or `DLRUN_JOBS`" in ran.stderr
    assert [path.name for path in (shared / theirs).rglob("*") if path.is_file()] == []


def test_directories_of_jobs_are_private(dlrun, tmp_path):
    dlrun("submit", dlrun.spec(SPEC), "--wait", env=state(dlrun, tmp_path / "new/state"))
    for place in ("new", "new/state", "new/state/dlrun", "new/state/dlrun/jobs"):
        assert stat.S_IMODE((tmp_path / place).stat().st_mode) == 0o700


def test_a_cache_that_cannot_be_made_is_named_once(dlrun, tmp_path):
    (tmp_path / "file").touch()
    ran = dlrun("submit", dlrun.spec(SPEC), "--dry-run", env={"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert ran.stderr.count("nothing is cached") == 1
    assert "not a directory" in ran.stderr


def test_a_relative_cache_is_ignored(dlrun, tmp_path):
    ran = dlrun("submit", dlrun.spec(SPEC), "--dry-run", env={"XDG_CACHE_HOME": "cache"})
    assert "cached" not in ran.stderr
    assert not (dlrun.place / "cache").exists()
