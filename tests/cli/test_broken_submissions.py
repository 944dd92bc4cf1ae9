"""A submission that ends at any moment: the job is found again with its id, or was never submitted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.examples import cases

SBATCH = """#!/bin/bash
echo begun >>"$PLACE/begun"
if [[ -e $PLACE/before ]]; then sleep 600; fi # asked, and not yet taken
printf '%s\\n' "$PWD" >>"$PLACE/queue"
if [[ -e $PLACE/slow ]]; then until [[ -e $PLACE/answer ]]; do sleep 0.02; done; fi
if [[ -e $PLACE/mute ]]; then exit 0; fi
if [[ -e $PLACE/fails ]]; then echo "sbatch: error: Socket timed out on send/recv operation" >&2; exit 1; fi
wc -l <"$PLACE/queue"
"""
SQUEUE = """#!/bin/bash
if [[ -e $PLACE/deaf ]]; then echo "squeue: error: no answer" >&2; exit 1; fi
i=0
while read -r place; do
  i=$((i + 1))
  if [[ " $* " == *'%F|%Z'* ]]; then printf '%s|%s\\n' "$i" "$place"; fi
done <"$PLACE/queue"
"""
SPEC = "name: train\ncommand: [./train]\nresources: {nodes: 2, walltime: 1h}\nsite: generic-slurm\n"


def kill_in(place: Path) -> None:
    """Kill what works in a directory or below it, also what has just begun there."""
    found = True
    while found:
        found = False
        for entry in Path("/proc").iterdir():
            try:
                work = (entry / "cwd").readlink() if entry.name.isdigit() else Path("/")
                if place in (work, *work.parents):
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
            except OSError:
                continue


class Login:
    """A login node whose Slurm keeps its queue in a file."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "bin").mkdir()
        for name, text in {
            "sbatch": SBATCH,
            "squeue": SQUEUE,
            "sacct": "#!/bin/bash\n",
            "scontrol": "#!/bin/bash\n",
        }.items():
            (place / "bin" / name).write_text(text)
            (place / "bin" / name).chmod(0o755)
        (place / "queue").touch()
        (place / "train").write_text("#!/bin/bash\n")
        (place / "train").chmod(0o755)
        (place / "spec.yaml").write_text(SPEC)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("DLRUN", "SLURM", "XDG"))} | {
            "PATH": f"{place}/bin:/usr/bin:/bin", "PLACE": str(place), "HOME": str(place), "DLRUN_JOBS": str(place / "jobs"),
        }  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        # Tests that nohup started ignore SIGHUP, and what they start would, too.
        begin = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
        code = f"{begin}\nfrom dlrun.cli.main import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", code, *words], cwd=self.place,
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str) -> tuple[int, str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        assert "bug in dlrun" not in err
        return process.returncode, out, err

    def listed(self) -> list[list[str]]:
        """Rows of `dlrun status --recent`: job, id, site, state."""
        code, out, err = self.run("list")
        assert code == 0, err
        return [line.split() for line in out.splitlines()[1:]]

    def until(self, name: str) -> None:
        end = time.monotonic() + 60
        while not (self.place / name).exists():
            assert time.monotonic() < end
            time.sleep(0.01)

    def queue(self) -> list[str]:
        return (self.place / "queue").read_text().split()


@pytest.fixture
def login(tmp_path):
    return Login(tmp_path)


def test_an_ordinary_submission(login):
    code, out, _ = login.run("submit", "spec.yaml")
    assert (code, "as job 1" in out) == (0, True)
    ((_, job_id, *_),) = login.listed()
    assert job_id == "1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", cases([signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL], quick=2)
)
def test_signal_while_the_client_runs(login, number):
    """The lost ssh session, the impatient user, the batch system's end: the client goes on, and its answer counts."""
    (login.place / "slow").touch()
    process = login.start("submit", "spec.yaml")
    login.until("begun")
    while not login.queue():
        time.sleep(0.01)
    process.send_signal(number)
    if number is signal.SIGKILL:
        process.wait()
        ((_name, job_id, _, state, *_),) = login.listed()
        assert (job_id, state) == ("-", "submitting")
    (login.place / "answer").touch()
    out, err = process.communicate(timeout=60)
    if number is not signal.SIGKILL:
        assert process.returncode == 128 + number, err
        assert "job 1 is submitted" in out + err
        assert "Traceback" not in err
    end = time.monotonic() + 60
    while login.listed()[0][1] != "1":
        assert time.monotonic() < end
    assert len(login.queue()) == 1


@pytest.mark.slow
def test_client_that_was_killed_before_it_answered(login):
    """Only the queue knows the job: it is asked by the directory that the job was submitted from."""
    (login.place / "slow").touch()
    process = login.start("submit", "spec.yaml")
    login.until("begun")
    while not login.queue():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    kill_in(Path(login.queue()[0]))
    (login.place / "deaf").touch()
    assert login.listed()[0][3] == "submitting"
    (login.place / "deaf").unlink()
    assert login.listed()[0][1] == "1"
    (login.place / "deaf").touch()  # the id is written down: nobody is asked again
    assert login.listed()[0][1] == "1"


def test_job_that_never_reached_the_scheduler(login):
    (login.place / "before").touch()
    process = login.start("submit", "spec.yaml")
    login.until("begun")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    kill_in(login.place / "jobs")
    assert login.listed()[0][3:5] == ["not", "submitted"]


@pytest.mark.parametrize("way", ["fails", "mute"])
def test_client_that_fails_though_the_job_is_taken(login, way):
    """A controller too busy to answer may have taken the job."""
    (login.place / way).touch()
    code, out, _ = login.run("submit", "spec.yaml", "--parsable")
    assert (code, out) == (0, "1\n")
    assert login.listed()[0][1] == "1"


@pytest.mark.slow
def test_nobody_can_tell_whether_it_was_taken(login):
    (login.place / "fails").touch()
    (login.place / "deaf").touch()
    code, _, err = login.run("submit", "spec.yaml")
    assert code == 1
    assert "it is unknown whether the job was submitted" in err
    ((name, _job_id, _, state, *_),) = login.listed()
    assert state == "submitting"
    assert f"`dlrun status {name}`" in err
    (login.place / "deaf").unlink()
    assert login.run("status", name)[1].split()[9] == "1"


@pytest.mark.slow
def test_record_that_cannot_be_written(login, monkeypatch):
    """The disk is full when the scheduler has answered: the id is printed, and is in the client's answer."""
    begin = (
        "from dlrun.jobs.records import directories\n"
        "def full(path, data):\n    raise OSError(28, 'No space left on device')\n"
        "directories.write_json = full\n"
        "from dlrun.cli.main import main; main(['submit', 'spec.yaml'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin],
        cwd=login.place,
        env=login.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "as job 1" in done.stdout
    assert "cannot be written: No space left" in done.stderr
    assert login.listed()[0][1] == "1"


def test_job_that_began_names_itself(login):
    """Also where the client's answer was lost, and the queue has forgotten it."""
    login.run("submit", "spec.yaml")
    (job,) = (login.place / "jobs").glob("[!.]*")
    (job / ".client-answer").write_text("\n" * 100)
    record = json.loads((job / "submission.json").read_text())
    (job / "submission.json").write_text(
        json.dumps(record | {"job_id": None, "submitting": {"host": "x", "since": 1.0}})
    )
    (job / "state.json").write_text('{"version": 1, "state": "running", "job_id": "77", "host": "n1"}')
    assert login.listed()[0][1] == "77"


@pytest.mark.slow
def test_a_study_waits_for_a_client_that_was_left_behind(login):
    """Its size is not submitted a second time, neither while the client runs nor because the queue does not list it yet."""
    (login.place / "slow").touch()
    words = ("scale", "run", "spec.yaml", "--nodes", "2", "--repeat", "1", "--no-wait", "--out", "study")
    process = login.start(*words)
    login.until("begun")
    while not login.queue():
        time.sleep(0.01)
    process.kill()
    process.wait()
    again = login.start(*words)
    time.sleep(1)
    assert again.poll() is None
    (login.place / "answer").touch()
    _, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    process.communicate()
    assert len(login.queue()) == 1
