"""The store of code: after a kill or on a full disk it has whole versions only, and each content once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest

from dlrun.errors import OperationFailed
from dlrun.jobs.code import store
from dlrun.jobs.code.choose import Chosen
from dlrun.model.data import DATE, FileList
from tests.examples import chosen

TOP = Path(__file__).parents[4]
ADD = """
import sys
from pathlib import Path
from tests.unit.jobs.code.test_store import add
add(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def chosen_in(root: Path) -> Chosen:
    files = [path for path in root.rglob("*") if path.is_file()]
    return Chosen(root=root, repository=None, files={str(p.relative_to(root)): p.lstat() for p in files})


def add(place: Path, root: Path) -> store.Version:
    chosen = chosen_in(root)
    with store.locked(place):
        return store.add(place, chosen)


def filled(root: Path, count: int, size: int = 1000) -> Path:
    for number in range(count):
        path = root / f"d{number // 100}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.Random(number).randbytes(size))
    return root


def is_whole(tree: Path) -> bool:
    listed = FileList.parse(tree.with_name(f"{tree.name}.sha256").read_text())
    found = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    return found == set(listed.files) and all(
        sha256((tree / name).read_bytes()).hexdigest() == digest for name, digest in listed.files.items()
    )


def trees(place: Path) -> list[Path]:
    return [path for path in (place / "trees").glob("[!.]*") if path.is_dir()] if place.exists() else []


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_whole_versions_only(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 400)
    for attempt in range(12):
        (root / "d0" / "0.py").write_text(f"{attempt}")
        process = subprocess.Popen([sys.executable, "-c", ADD, place, root], cwd=TOP)
        time.sleep(0.25 + attempt * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert all(is_whole(tree) for tree in trees(place))
    version = add(place, root)
    assert is_whole(version.tree)
    assert not list(place.rglob(".*.new"))
    with store.locked(place):
        pass
    left = store.use(place, prune=True)
    assert (left.versions, left.size) == (0, 0), "no job uses any of them"
    assert not list(place.rglob(".*.new"))


ENDED = 9
"""The exit code of a process that ended at a step."""


def ends_at(step: int, place: Path, root: Path) -> bool:
    """Store a version in a process that ends at its `step`th call that touches a file, as by SIGKILL; whether it did."""
    if (child := os.fork()) == 0:
        left = [step]

        def count(event, _):
            if event == "open" or event.startswith(("os.", "shutil.")):
                left[0] -= 1
                if left[0] == 0:
                    os._exit(ENDED)

        sys.addaudithook(count)
        try:
            add(place, root)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED


@pytest.mark.slow
def test_a_kill_at_each_step_leaves_whole_versions_only(tmp_path):
    """Of a new version, of one that has files of an earlier one, and of one that is made again since it was damaged."""
    root = filled(tmp_path / "root", 6)
    (root / "run.sh").write_text("x")
    (root / "run.sh").chmod(0o755)
    steps = 0
    for kind in ("new", "second", "damaged"):
        for step in chosen(range(1, 400), quick=100):
            place = tmp_path / f"{kind}-{step}"
            if kind != "new":
                held = add(place, root)
                os.link(held.list, tmp_path / f"of-a-job-{kind}-{step}")
            if kind == "second":
                (root / "d0" / "0.py").write_text(kind)
            elif kind == "damaged":
                (held.tree / "d0" / "1.py").unlink()
            ended = ends_at(step, place, root)
            steps += ended
            # One that was damaged before is found at the start of a job, by its list.
            assert all(is_whole(tree) for tree in trees(place) if kind != "damaged" or tree != held.tree)
            version = add(place, root)
            assert is_whole(version.tree)
            assert not list(place.rglob(".*.new"))
            (root / "d0" / "0.py").write_bytes(random.Random(0).randbytes(1000))
            if not ended:
                break
        else:
            pytest.fail("storing a version has no end")
    assert steps > 40


FULL = """
import pytest, sys
from pathlib import Path
from dlrun.errors import OperationFailed
from tests.unit.jobs.code.test_store import add, is_whole, trees
disk, root = Path(sys.argv[1]), Path(sys.argv[2])
with pytest.raises(OperationFailed, match="No space left"):
    add(disk / "store", root)
assert trees(disk / "store") == []
assert not list((disk / "store").glob(".*.new")), "the space is free again"
for path in root.rglob("*.py"):
    path.write_text(path.name)
assert is_whole(add(disk / "store", root).tree)
"""


@pytest.mark.slow
@pytest.mark.needs("unshare", "mount")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_full_disk_leaves_no_version_and_the_next_attempt_is_whole(tmp_path):
    disk, root = tmp_path / "disk", filled(tmp_path / "root", 300, 10_000)
    disk.mkdir()
    line = 'mount -t tmpfs -o size=2m,mode=0755 tmpfs "$1" || exit 77; exec "$0" -c "$3" "$1" "$2"'
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", line, sys.executable, disk, root, FULL],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 0, done.stderr


def test_each_content_is_stored_once(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 30)
    first = add(place, root)
    assert add(place, root) == first.__class__(**{**_fields(first), "added": 0})
    (root / "d0" / "copy.py").write_bytes((root / "d0" / "1.py").read_bytes())
    assert add(place, root).added == 0
    (root / "d0" / "1.py").chmod(0o755)
    again = add(place, root)
    assert again.added == 1000, "a program is another file"
    assert (again.tree / "d0" / "1.py").stat().st_mode & 0o777 == 0o500
    assert len(list((place / "objects").glob("*/*"))) == 31
    assert place.stat().st_mode & 0o077 == 0


def _fields(version):
    return {name: getattr(version, name) for name in version.__slots__}


def test_a_version_that_was_damaged_is_made_again(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 5)
    version = add(place, root)
    victim = version.tree / "d0" / "1.py"
    victim.chmod(0o600)
    victim.write_bytes(b"x" * 1000)
    (version.tree / "d0" / "2.py").unlink()
    assert not is_whole(version.tree)
    assert is_whole(add(place, root).tree)


def test_an_object_whose_content_a_power_cut_has_lost_is_stored_again(tmp_path):
    """Size, mode and date are right, so that only the digest shows it; a job's start takes the version's name."""
    place, root = tmp_path / "store", filled(tmp_path / "root", 5)
    version = add(place, root)
    victim = version.tree / "d0" / "1.py"
    victim.chmod(0o600)
    victim.write_bytes(b"\0" * 1000)
    victim.chmod(0o400)
    os.utime(victim, (DATE, DATE))
    version.tree.rename(version.tree.with_name(f".{version.tree.name}.new"))
    assert is_whole(add(place, root).tree)
    (root / "d0" / "2.py").write_text("another version")
    assert is_whole(add(place, root).tree)


def test_a_list_that_a_job_uses_keeps_its_links(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 5)
    version = add(place, root)
    os.link(version.list, tmp_path / "of-a-job")
    (version.tree / "d0" / "2.py").unlink()
    add(place, root)
    assert store.use(place, prune=True).versions == 1
    (tmp_path / "of-a-job").unlink()
    assert store.use(place).unused > 0
    assert store.use(place, prune=True).versions == 0


@pytest.mark.parametrize("times", [2, 99])
def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path, monkeypatch, times):
    place, root = tmp_path / "store", filled(tmp_path / "root", 20)
    read, left = store._Adding._read, [times]

    def edited(self, name):
        read(self, name)
        if name == "d0/1.py" and left[0]:
            left[0] -= 1
            (root / name).write_text(f"{left[0]} more")

    monkeypatch.setattr(store._Adding, "_read", edited)
    if times > 3:
        with pytest.raises(OperationFailed, match=r"d0/1\.py` changes while it is read"):
            add(place, root)
        assert trees(place) == []
    else:
        tree = add(place, root).tree
        assert (tree / "d0" / "1.py").read_text() == "0 more"
        assert is_whole(tree)


def test_a_store_of_another_user_is_refused(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 1)
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    with pytest.raises(OperationFailed, match="not a directory that only you can change"):
        add(place, root)


@pytest.mark.slow
def test_thirty_thousand_files(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 30_000, 100)
    version = add(place, root)
    assert is_whole(version.tree)
    subprocess.run(["cp", "-al", version.tree, tmp_path / "work"], check=True)
    assert sum(len(files) for _, _, files in os.walk(tmp_path / "work")) == 30_000


@pytest.mark.slow
def test_many_submissions_at_once_store_one_version(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 200)
    running = [subprocess.Popen([sys.executable, "-c", ADD, place, root], cwd=TOP) for _ in range(6)]
    assert [process.wait() for process in running] == [0] * 6
    (tree,) = trees(place)
    assert is_whole(tree)
    assert len(list((place / "objects").glob("*/*"))) == 200


def test_what_a_program_wrote_beside_its_code_stays(tmp_path):
    place, root = tmp_path / "store", filled(tmp_path / "root", 3)
    version = add(place, root)
    mine = (
        version.tree / "d0" / "mine.pt",
        version.tree / "mine",
        place / "trees" / "mine" / "x",
        place / ".mine.new",
    )
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (place / ".0.new").write_text("left by a kill")
    store.use(place, prune=True)
    assert [path.read_text() for path in mine] == ["mine"] * 4
    assert {path for path in (place / "trees").rglob("*") if path.is_file()} == set(mine[:3])
    assert list((place / "objects").glob("*/*")) == []
    assert not (place / ".0.new").exists()
    assert is_whole(add(place, root).tree)
    kept = [path.read_text() for path in (place / "trees").rglob("mine*") if path.is_file()]
    assert kept == ["mine"] * 2
