"""Whatever a user keeps in job directories and beside them is there after every command, also after one that was killed.

Each example is a directory of jobs with many random trees: jobs with files of the user anywhere, some with names such as
dlrun's, projects with a saved plan, links in and out, copies of jobs.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.jobs.records import ownership
from tests.cli.conftest import Dlrun
from tests.examples import cases, examples

TREES = 25
"""Trees of one example."""
SPECS = (
    "run: 'true'\nresources: {ranks_per_node: 1}\n",
    "run: 'exit 3'\nresources: {ranks_per_node: 2}\n",
    "command: [echo, '{{ x }}']\nsweep: {x: [1, 2]}\nresources: {ranks_per_node: 1}\n",
)
PLACES = (
    "", "logs/", "usage/", "failures/", "ended/", "lib/", "points/", "points/0/", "points/1/logs/", "points/9/", "files/",
    "kept/",
    "idle/", "placement/", "stacks/", "nodes/n1/", ".checkpoints/", ".submission/", "python/", "deep/er/",
)  # fmt: skip
NAMES = (
    "results.json", "config.yaml", "model.py", "train.sh", "last.pt", "events.out.tfevents.1", "rank-7.log", "rank-0",
    "rank-0.txt",
    "job.log.1", "node-0", "outcome.json", "again.json", "cancelled.json", "bad-nodes", "job-id", ".cancel", ".again",
    "mine.jsonl",
    "hostfile-rank-0", "in-place-imagenet", "stage-secret", ".state.7", ".plan.json.12", "environment", "0", "best-1",
    " name\nwith",
    ".dlrun", "submission.json~", "state.json", "n1.jsonl", "supervisor.log.1", "stage-9.log", "hosts-granted", "foreign-0",
)  # fmt: skip
COMMANDS = (
    ("clean",), ("clean", "--yes"), ("clean", "--yes", "--older-than", "0d"), ("clean", "--all", "--older-than", "0d"),
    ("list",), ("status",), ("clean", "{job}", "--yes"), ("clean", "{project}", "--yes", "--all"), ("cancel", "{job}"),
    ("cancel", "{project}"), ("resubmit", "{job}"), ("resubmit", "{project}"), ("status", "{job}"), ("logs", "{job}"),
    ("report", "{job}", "-o", "{user}"), ("plan", "{spec}", "-o", "{user}"), ("init", "{user}", "--run", "true"),
    ("import", "{script}", "-o", "{user}"), ("render", "{spec}", "-o", "{project}"), ("fetch", "{job}"),
    ("why", "{job}"), ("results", "{job}"), ("usage", "{job}"), ("clean", "--yes", "--older-than", "0d", "--json"),
)  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory, preloaded) -> list[Path]:
    """Jobs that have run, of which each tree has a copy."""
    place, made = tmp_path_factory.mktemp("ended"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLRUN_JOBS", str(place / "jobs"))
        for number, spec in enumerate(SPECS):
            dlrun = Dlrun(place, preloaded)
            dlrun("submit", dlrun.spec(spec), "--wait", "--job-dir", place / f"job-{number}", code=None)
            made.append(place / f"job-{number}")
    return made


def job_at(ended: Path, place: Path) -> None:
    """A job as if it had been made at this place."""
    shutil.copytree(ended, place, symlinks=True)
    first, _, rest = (place / ownership.LIST).read_text().partition("\n")
    header = json.loads(first) | {"place": str(place), "inode": None}
    (place / ownership.LIST).write_text(json.dumps(header) + "\n" + rest)


def fill(place: Path, chance: random.Random, outside: Path) -> dict[Path, object]:
    """Put files and links of the user into a directory; path -> content or target of each."""
    made: dict[Path, object] = {}
    for _ in range(chance.randint(0, 4)):
        path = place / f"{chance.choice(PLACES)}{chance.choice(NAMES)}"
        if path.is_symlink() or path.exists() or any(up.is_file() for up in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if chance.random() < 0.2:
            path.symlink_to(outside)
            made[path] = str(outside)
        else:
            made[path] = chance.randbytes(chance.randint(1, 3000))
            path.write_bytes(made[path])
    return made


def trees(base: Path, ended: list[Path], chance: random.Random, outside: Path) -> dict[Path, object]:
    """A directory of jobs; everything of the user's in it."""
    users: dict[Path, object] = {}
    for number in range(TREES):
        place, kind = base / f"tree-{number}", chance.random()
        if kind < 0.7:
            job_at(chance.choice(ended), place)
        elif kind < 0.85:  # a project with a saved plan, and perhaps with more of a job's names
            place.mkdir()
            for name in ("plan.json", "spec.yaml", "job.sh", "submission.json")[: chance.randint(1, 4)]:
                shutil.copy(ended[0] / name, place / name)
                users[place / name] = (place / name).read_bytes()
        else:  # a copy of a job
            shutil.copytree(chance.choice(ended), place, symlinks=True)
            users |= {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        if chance.random() < 0.2 and (place / "job.sh").exists():
            with (place / "job.sh").open("a") as page:
                page.write("# edited\n")
            users[place / "job.sh"] = (place / "job.sh").read_bytes()
        users |= fill(place, chance, outside)
    (base / "link-20260101-000000-abcd").symlink_to(outside / "purged-20260101-000000-abcd")
    users[base / "link-20260101-000000-abcd"] = str(outside / "purged-20260101-000000-abcd")
    return users


def check(users: dict[Path, object], doing: object) -> None:
    """Every file of the user is there, unchanged."""
    for path, content in users.items():
        now = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        assert now == content, f"{path} after {doing}"


def words_of(command: tuple[str, ...], base: Path, chance: random.Random) -> list[str]:
    # With --all --yes a job goes as a whole, after all of it was shown.
    projects = [path for path in sorted(base.iterdir()) if not ownership.is_own(path)] or [base]
    owned = [
        path for path in sorted(base.rglob("*")) if not path.is_dir() and not ownership.is_own(path.parent)
    ]
    names = {"job": f"tree-{chance.randrange(TREES)}", "project": str(chance.choice(projects)),
             "user": str(chance.choice([base / "new", *owned])), "spec": "spec.yaml", "script": "old.sbatch"}  # fmt: skip
    return [word.format(**names) for word in command]


@pytest.fixture
def base(tmp_path, monkeypatch) -> Path:
    (tmp_path / "jobs").mkdir()
    monkeypatch.setenv("DLRUN_JOBS", str(tmp_path / "jobs"))
    return tmp_path / "jobs"


@pytest.mark.slow
@pytest.mark.parametrize("seed", cases(range(examples(40)), quick=2))
def test_no_file_of_the_user_is_lost(base, tmp_path, preloaded, ended, seed):
    chance = random.Random(seed)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis.tex").write_bytes(b"mine")
    (tmp_path / "spec.yaml").write_text(f"name: a\nsite: workstation\n{SPECS[0]}")
    (tmp_path / "old.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")
    users = {**trees(base, ended, chance, outside), outside / "thesis.tex": b"mine"}
    dlrun = Dlrun(tmp_path, preloaded)
    for command in chance.sample(COMMANDS, 6):
        words = words_of(command, base, chance)
        before = {path.name for path in base.iterdir()}
        ran = dlrun(*words, code=None)
        check(users, words)
        if "--json" in words and ran.code == 0:
            claimed = {
                Path(one["directory"]).name for one in json.loads(ran.stdout)["clean"] if one["removed"]
            }
            assert before - {path.name for path in base.iterdir()} == claimed


KILLED = """\
import os, signal, sys
from pathlib import Path
left = int(sys.argv[1])
def counted(function):
    def call(*arguments, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call
for name in ("unlink", "rmdir", "rename", "write_text"):
    setattr(Path, name, counted(getattr(Path, name)))
os.write = counted(os.write)
from dlrun.cli.main import main
main(sys.argv[2:])
"""


def full() -> None:
    """No file may grow, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", cases(range(examples(40)), quick=1))
@pytest.mark.parametrize("how", ["killed", "full"])
def test_nor_by_a_kill_or_on_a_full_disk(base, tmp_path, preloaded, ended, how, seed):
    chance = random.Random(seed)
    outside = tmp_path / "outside"
    outside.mkdir()
    users = trees(base, ended, chance, outside)
    moment = chance.randint(0, 400) if how == "killed" else 10**9
    words = ["clean", "--yes", "--older-than", "0d"]
    subprocess.run(
        [sys.executable, "-c", KILLED, str(moment), *words], check=False, capture_output=True, cwd=tmp_path,
        timeout=300,
        preexec_fn=full if how == "full" else None,
    )  # fmt: skip
    check(users, (how, moment))
    Dlrun(tmp_path, preloaded)(*words)
    check(users, words)
    left = [
        path
        for path in base.iterdir()
        if ownership.is_own(path)
        and not any(place in path.parents or path in place.parents for place in users)
    ]
    assert left == [], "the same command continues what was interrupted"
