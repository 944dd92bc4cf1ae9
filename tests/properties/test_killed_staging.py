"""`stage-data` and `--evict` on one machine, killed at random moments with all their programs or without: no file of the user's
is gone or changed, what is said to be removed is gone, and the same command completes."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.cli.conftest import Dlrun
from tests.examples import cases, examples

SETS = ("a", "b", "c")
PLACES = {
    "a": ("data/mine", "data/sub/labels.cache", "mine", "bin/.new.7", ".hidden/x"),
    "b": ("data/0.bin", "bin/mine", "new-mine", "data/.mine.new"),
    "": ("mine/x", "d/data/x", "a.kept-1/mine", "part.a/x", ".dlrun-0123456789ab.new", "trash.1.2"),
}
"""Names of the user's files in the sets, and beside them in the directory of sets."""


def killer(chance: random.Random, longest: float) -> Callable[[], None]:
    """What kills dlrun after a random time: with every program that it started, or alone."""
    after, everything = chance.uniform(0, longest), chance.random() < 0.7

    def before() -> None:
        parent = os.getpid()
        if os.fork() == 0:
            for number in range(3):
                os.close(number)
            time.sleep(after)
            if os.getppid() == parent:
                os.killpg(0, signal.SIGKILL) if everything else os.kill(parent, signal.SIGKILL)
            os._exit(0)

    return before


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def put(to: Path, chance: random.Random, users: set[bytes]) -> None:
    """Write files of the user's in sets and beside them; users: the content of each, which is in no other file."""
    for name in chance.sample(list(PLACES), chance.randint(0, 2)):
        path = to / name / chance.choice(PLACES[name])
        if (to / name).is_dir() and (not path.exists() or path.name == "0.bin"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                users.discard(path.read_bytes())
                path.unlink()
            content = chance.randbytes(40)
            path.write_bytes(content)
            users.add(content)


def words_of(home: Path, chance: random.Random) -> list[str]:
    place, name = ["--to", str(home / "to")], chance.choice(SETS)
    return chance.choice([
        ["stage-data", str(home / "set"), "--name", name, *place],
        ["stage-data", str(home / "set"), "--name", name, "--strategy", "pack", *place],
        ["stage-data", "--evict", name, "--json", *place],
        ["stage-data", "--clean", "--json", *place],
    ])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", cases(range(examples(20)), quick=0))
def test_no_byte_of_the_user_is_lost(tmp_path, monkeypatch, preloaded, seed):
    chance, home, to = random.Random(f"staging {seed}"), tmp_path, tmp_path / "to"
    monkeypatch.setenv("DLRUN_JOBS", str(home / "jobs"))
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    for place in (home / "set" / "sub", home / "tmp"):
        place.mkdir(parents=True)
    for number in range(40):
        (home / "set" / ("sub" if number % 2 else ".") / f"{number}.bin").write_bytes(chance.randbytes(3000))
    dlrun = Dlrun(home, preloaded)
    begun = time.monotonic()
    for name in SETS:
        dlrun("stage-data", home / "set", "--name", name, "--to", to)
    longest = (time.monotonic() - begun) / len(SETS)
    source, users, killed = contents(home / "set"), set[bytes](), 0
    for _ in range(12):
        put(to, chance, users)
        if chance.random() < 0.3:  # a new version of the data
            (home / "set" / f"{chance.randrange(20) * 2}.bin").write_bytes(chance.randbytes(3000))
            source = contents(home / "set")
        words = words_of(home, chance)
        done = forked.run(words, home, before=killer(chance, longest), seconds=60)
        if done.code == -signal.SIGKILL:
            killed += 1
        else:  # the machine may be quicker now than it was in the beginning
            longest *= 0.7
        assert "this is a bug" not in done.stderr, (words, done.stderr)
        assert users <= set(contents(to).values()), (words, done)
        assert contents(home / "set") == source, (words, done)
        if done.stdout.startswith('{"removed"'):
            for name in json.loads(done.stdout)["removed"]:
                assert not (to / name).exists(), (words, done)
        elif done.code == 0 and "--evict" in words:
            pytest.fail(f"nothing is said of it: {done}")
    assert killed >= 1
    for name in SETS:
        dlrun("stage-data", home / "set", "--name", name, "--to", to)
        assert source.items() <= contents(to / name / "data").items()
        dlrun("stage-data", "--evict", name, "--to", to, code=None)
    assert users <= set(contents(to).values())
