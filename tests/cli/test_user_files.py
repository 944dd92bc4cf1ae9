"""Files of the user's that commands write: killed at any step, on a full disk, where something exists, through links."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked
from tests.examples import examples

SPEC = """\
name: toy  # mine
command: [bash, train.sh, "{{ workers }}"]
placement: {threads: 2}  # kept
site: workstation
"""
TRAIN = """\
speed=90; [[ $1 == 2 ]] && speed=130
[[ $OMP_NUM_THREADS == 2 ]] || speed=$((speed * 2))
for i in 1 2; do echo "throughput: $((speed + i)) samples/s"; done
"""
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=1:00:00\nsrun python train.py\n"
TUNE = (
    "tune", "spec.yaml", "--only", "--try", "workers=1,2", "--try", "placement.threads=1", "--length", "1s", "--repeat", "2",
    "--budget", "1",
)  # fmt: skip
COMMANDS: dict[str, tuple[list[str], str]] = {
    "tune": ([*TUNE, "--apply"], "spec.yaml"),
    "report": (["report", "latest", "-o", "page.html"], "page.html"),
    "plan": (["plan", "plain.yaml", "-o", "run.json"], "run.json"),
    "init": (["init", "first.yaml", "--run", "python train.py"], "first.yaml"),
    "import": (["import", "old.sbatch", "-o", "converted.yaml"], "converted.yaml"),
    "tune-affinity": (["tune-affinity", "plain.yaml", "-o", "binding.txt"], "binding.txt"),
    "site new": (
        ["site", "new", "mine", "--scheduler", "slurm", "--cores", "8", "-o", "mine.yaml"],
        "mine.yaml",
    ),
}
"""The arguments of each command, and the file that it writes."""
MINE = "the work of months\n" * 2000


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with an ended job and an ended tuning."""
    place = tmp_path_factory.mktemp("made") / "project"
    place.mkdir()
    files = {
        "spec.yaml": SPEC,
        "train.sh": TRAIN,
        "old.sbatch": SCRIPT,
        "plain.yaml": "name: plain\ncommand: [bash, -c, echo]\nresources: {walltime: 1h}\nsite: workstation\n",
    }
    for name, text in files.items():
        (place / name).write_text(text)
    for words in (["submit", "plain.yaml", "--wait"], list(TUNE)):
        done = forked.run(words, place, {"DLRUN_JOBS": str(place / "jobs")})
        assert done.code == 0, done.stderr
    assert "in the confirming runs" in done.stdout, done.stdout
    return place


@pytest.fixture
def run(project, tmp_path) -> Callable[..., forked.Ended]:
    """Run a command in `project`, whose files are as before at each run."""

    def again(name: str, *more: str, before: Callable[[], None] = lambda: None) -> forked.Ended:
        words, _ = COMMANDS[name]
        return forked.run([*words, *more], project, {"DLRUN_JOBS": str(project / "jobs")}, before=before)

    return again


def tree(place: Path) -> dict[str, bytes]:
    """Every file outside of dlrun's own directories, without hidden ones that a killed writer leaves."""
    return {path.name: path.read_bytes() for path in place.iterdir() if path.is_file() and not left(path)}


def left(path: Path) -> bool:
    """Whether it is a hidden file of a writer that was killed."""
    return path.name.startswith(".dlrun-")


@pytest.fixture(autouse=True)
def restored(project):
    """The project as it was made, after each test."""
    before = tree(project)
    yield
    restore(project, before)


def restore(place: Path, before: dict[str, bytes]) -> None:
    for path in place.iterdir():
        if path.is_symlink() or (path.name not in before and path.name not in ("jobs", "toy-tuning")):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, content in before.items():
        (place / name).write_bytes(content)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_writes_its_file(project, run, name):
    done = run(name)
    assert done.code == 0, done.stderr
    assert (project / COMMANDS[name][1]).stat().st_size > 100
    assert [path.name for path in project.iterdir() if left(path)] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "tune"])
def test_what_exists_is_replaced_only_with_force(project, run, name):
    file = project / COMMANDS[name][1]
    file.write_text(MINE)
    done = run(name)
    assert (done.code in (1, 2), file.read_text()) == (True, MINE), done.stderr
    assert f"`{file.name}` already exists" in done.stderr
    assert "--force" in done.stderr
    file.chmod(0o640)
    assert run(name, "--force").code == 0
    assert file.read_text() != MINE
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("dangling", [False, True])
def test_nothing_is_written_through_a_link(project, run, name, dangling):
    file, target = project / COMMANDS[name][1], project / "thesis.txt"
    if name == "tune":
        if dangling:
            return
        target.write_text(file.read_text())
    elif not dangling:
        target.write_text(MINE)
    kept = None if dangling else target.read_text()
    file.unlink(missing_ok=True)
    file.symlink_to("thesis.txt")
    for more in ([], ["--force"] if name != "tune" else []):
        done = run(name, *more)
        assert done.code in (1, 2), done.stdout
        assert file.is_symlink()
        assert (target.read_text() if target.exists() else None) == kept
    if name == "tune":
        assert "it is a symbolic link to `thesis.txt`; name the file itself" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "size", [pytest.param(0, marks=pytest.mark.slow), 60, pytest.param(700, marks=pytest.mark.slow)]
)
def test_on_a_full_disk_the_old_file_stays(project, run, name, size):
    file = project / COMMANDS[name][1]
    if name != "tune":
        file.write_text(MINE)
    before = tree(project)
    done = run(name, *(["--force"] if name != "tune" else []), before=forked.with_space(size))
    if done.code == 0:  # the file had room
        assert 0 < file.stat().st_size <= size
        return
    assert (done.code, "Traceback" in done.stderr, " bug " in done.stderr) == (1, False, False), done.stderr
    assert tree(project) == before
    assert [path.name for path in project.iterdir() if left(path)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_step_it_leaves_the_old_file_or_the_new_one(project, run, name):
    file = project / COMMANDS[name][1]
    old = SPEC.encode() if name == "tune" else MINE.encode()
    force = ["--force"] if name != "tune" else []
    file.write_bytes(old)
    steps, chance = forked.Steps(), random.Random(name)
    done = run(name, *force, before=steps.until(None))
    assert done.code == 0, done.stderr
    total, written = steps.done, file.read_bytes()
    others = {key: value for key, value in tree(project).items() if key != file.name}
    ends = []
    for number in range(examples(60)):
        file.write_bytes(old)
        # Half of them among the last steps, of which some write the file.
        step = total - number // 2 if number % 2 else chance.randint(1, total)
        ends.append(run(name, *force, before=steps.until(step)).code)
        found = file.read_bytes()
        assert found == old or (found[:20], found[-20:]) == (written[:20], written[-20:]), (step, found[:200])
        assert {key: value for key, value in tree(project).items() if key != file.name} == others
    assert ends.count(-9) > len(ends) / 2
