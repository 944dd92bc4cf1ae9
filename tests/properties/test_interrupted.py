"""Every command that removes or replaces files, killed at a random write or on a full disk, among random trees of the user's."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlrun.jobs.clusters import login
from dlrun.jobs.records import directories, ownership
from dlrun.jobs.remote import fetch
from dlrun.node import __main__ as node
from dlrun.render.written_names import WrittenNames
from dlrun.system.transport.local import LocalTransport
from tests import forked
from tests.cli.conftest import Dlrun
from tests.examples import examples
from tests.properties.test_ownership import PLACES, SPECS, check, fill, trees

TUNED = "name: t  # mine\ncommand: [bash, train.sh]\nplacement: {threads: 2}  # kept\nsite: workstation\n"
TRAIN = 'for i in 1 2; do echo "throughput: $((100 / OMP_NUM_THREADS + i)) samples/s"; done\n'
TRY = ("--only", "--try", "placement.threads=1", "--length", "1s", "--repeat", "2", "--budget", "1")
OF_A_SET = ("data/labels.cache", "data/sub/x", "notes", "bin/mine", ".hidden", "data/0.bin")
OF_THE_FAR_JOB = ("best.pt", "logs/rank-0.log", "kept/x", "events.out")
COMMANDS: dict[str, tuple[str, ...]] = {
    "clean": ("clean", "--yes", "--older-than", "0d"),
    "clean --all": ("clean", "{job}", "--all", "--yes"),
    "clean a study": ("clean", "{home}/tuning", "--yes"),
    "evict": ("evict", "--to", "{home}/staged", "--free", "1000P"),
    "resubmit": ("resubmit", "{job}"),
    "fetch": ("fetch", "{home}/jobs/far"),
    "fetch --to": ("fetch", "{home}/jobs/far", "--to", "{home}/project"),
    "tune": ("tune", "{home}/project/t.yaml", *TRY, "--out", "{home}/tuning", "--apply"),
    "report": ("report", "{job}", "-o", "{file}"),
    "plan": ("plan", "{home}/project/spec.yaml", "-o", "{plan}"),
}
"""The arguments of each: {job} is one of the trees, {file} and {plan} a new file or one of the user's."""
WRITES = {
    "os.remove",
    "os.rename",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "shutil.rmtree",
    "os.chmod",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, preloaded) -> Path:
    """Jobs that have run, a tuning whose trials have ended, and staged sets."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLRUN_JOBS", str(place / "jobs"))
        dlrun = Dlrun(place, preloaded)
        for number, spec in enumerate(SPECS):
            dlrun("submit", dlrun.spec(spec), "--wait", "--job-dir", place / f"job-{number}", code=None)
        (place / "t.yaml").write_text(TUNED)
        (place / "train.sh").write_text(TRAIN)
        dlrun("tune", "t.yaml", *TRY, "--out", "tuning")
        (place / "set" / "sub").mkdir(parents=True)
        for name in ("0.bin", "1.bin", "sub/2.bin"):
            (place / "set" / name).write_bytes(b"data" * 500)
        for name in ("a", "b"):
            dlrun("stage-data", "set", "--name", name, "--to", place / "staged")
    return place


def project(made: Path, home: Path, chance: random.Random) -> dict[Path, object]:
    """A project, its tuning, staged sets and the record of a job elsewhere, with files of the user's in all of them."""
    (home / "project").mkdir()
    for name, text in {
        "t.yaml": TUNED,
        "train.sh": TRAIN,
        "spec.yaml": f"name: a\nsite: workstation\n{SPECS[0]}",
    }.items():
        (home / "project" / name).write_text(text)
    shutil.copytree(made / "tuning", home / "tuning", symlinks=True)
    for path in [*(home / "tuning").rglob(ownership.LIST), home / "tuning" / "tune.json"]:
        text = path.read_text().replace(str(made / "tuning"), str(home / "tuning"))
        path.write_text(text.replace(str(made), str(home / "project")))
    (home / "tuning" / "spec.yaml").write_text(TUNED)
    shutil.copytree(made / "staged", home / "staged", symlinks=True)
    there = home / "there"
    for name in (*OF_THE_FAR_JOB, "new.pt"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_bytes(chance.randbytes(2000))
    record = {"version": 1, "scheduler": "slurm", "job_id": "7", "submitted": 1.0, "host": "there", "transport": "local",
              "remote_directory": str(there)}  # fmt: skip
    plan = json.loads((made / "job-0" / "plan.json").read_text()) | {"scheduler": "slurm"}
    files = {
        "plan.json": json.dumps(plan),
        directories.SUBMISSION: json.dumps(record),
    }
    directories.create(home / "jobs" / "far", files, WrittenNames(runs=("logs/", "logs/rank-0.log")))
    users: dict[Path, object] = {}
    for place, names in ((home / "project", OF_THE_FAR_JOB), (home / "jobs" / "far", OF_THE_FAR_JOB),
                         (home / "staged" / "a", OF_A_SET), (home / "staged" / "b", OF_A_SET)):  # fmt: skip
        for name in chance.sample(names, chance.randint(0, 2)):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            users[place / name] = chance.randbytes(100)
            (place / name).write_bytes(users[place / name])
    for place in (home / "tuning", home / "project")[chance.randint(0, 1) :]:
        users |= fill(place, chance, home / "outside")
    users[home / "project" / "train.sh"] = TRAIN.encode()
    return users


def interrupted(how: str, chance: random.Random, command: str) -> Callable[[], None]:
    """What makes of a child one that is killed at a random write, or that has a disk without room."""
    most = 600 if command == "clean" else 100 if command.startswith(("clean", "evict")) else 25
    left = chance.randint(1, most)

    def count(event: str, details: tuple[object, ...]) -> None:
        nonlocal left
        flags = details[2] if event == "open" and isinstance(details[2], int) else 0
        if event in WRITES or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def before() -> None:
        fetch.transport_of = login.transport_of = lambda *_, **__: LocalTransport("there")  # type: ignore[assignment]
        if command == "evict":
            forked.main = lambda words: sys.exit(node.main(words))  # type: ignore[assignment]
        if how == "full":
            forked.with_space(0 if left % 2 else left * 10)()
        else:
            sys.addaudithook(count)

    return before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("how", ["killed", "full"])
def test_no_byte_of_the_user_is_lost(tmp_path, monkeypatch, made, how, seed):
    chance, home = random.Random(f"{how} {seed}"), tmp_path
    (home / "jobs").mkdir()
    (home / "outside").mkdir()
    monkeypatch.setenv("DLRUN_JOBS", str(home / "jobs"))
    users = trees(home / "jobs", [made / f"job-{number}" for number in range(3)], chance, home / "outside")
    users |= project(made, home, chance)
    ends = []
    for command in chance.sample(list(COMMANDS), len(COMMANDS)):
        jobs = [path for path in sorted((home / "jobs").glob("tree-*")) if path.is_dir()]
        job = chance.choice(jobs) if jobs else home / "jobs" / "none"
        owned = [path for path in users if not path.is_symlink()]
        plans = [path for path in owned if path.suffix == ".json"]
        names = {"job": str(job), "home": str(home), "file": str(chance.choice([home / "new", chance.choice(owned)])),
                 "plan": str(chance.choice([home / "new.json", *plans]))}  # fmt: skip
        words = [word.format(**names) for word in COMMANDS[command]]
        done = forked.run(words, home, before=interrupted(how, chance, command), seconds=60)
        ends.append(done.code)
        assert "this is a bug" not in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        if command == "clean --all":  # all of it was shown, and is to go; of others nothing
            users = {path: content for path, content in users.items() if job not in path.parents}
        check(users, (words, done.code, done.stderr[-500:]))
        spec = (home / "project" / "t.yaml").read_text()
        assert spec == TUNED or (command == "tune" and spec.startswith(TUNED.partition("placement")[0])), spec
        (home / "project" / "t.yaml").write_text(TUNED)
    assert how == "full" or ends.count(-signal.SIGKILL) >= 1


def test_the_places_of_the_user_are_those_of_dlrun():
    assert {"logs/", "usage/", "points/1/logs/", ".submission/"} <= set(PLACES)
