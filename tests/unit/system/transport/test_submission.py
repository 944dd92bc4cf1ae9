"""A submission to a login node, broken off wherever it can be: nothing or all, and never twice."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.queue.recover import completed
from dlrun.jobs.records import jobs
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.remote import steps as remote_steps, submit as remote
from dlrun.jobs.remote.destination import Destination
from dlrun.jobs.submission.prepare import read_inputs
from dlrun.model.problem import InvalidFile
from dlrun.system.inputs import spec as reading
from dlrun.system.process import start_time
from dlrun.system.transport.local import LocalTransport
from dlrun.system.transport.protocol import TransportFailed
from dlrun.system.transport.scripts import script
from tests.examples import chosen
from tests.unit.system.transport.far import Wire


def test_job_directory_there_and_record_here(far):
    job = far.submit()
    (there,) = far.directories()
    assert far.calls() == [str(there)]
    assert (there / "files/train.sh").read_text() == "echo train\n"
    assert os.access(there / "job.sh", os.X_OK)
    assert f"cd -- {there}/files\n" in (there / "job.sh").read_text()
    assert there.stat().st_mode & 0o777 == 0o700
    (record,) = far.records()
    assert (job.directory, job.job_id) == (record, "1")
    said = json.loads((record / "submission.json").read_text())
    assert (said["host"], said["transport"], said["remote_directory"]) == ("there", "local", str(there))
    assert [found.job_id for found in jobs.all_jobs(far.jobs)] == ["1"]
    assert any("SBATCH_ACCOUNT" in line for line in far.said)


@pytest.mark.slow
def test_wire_cut_everywhere(far, monkeypatch):
    """The connection breaks at each thing that goes over it in turn; the same command then goes on."""
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write(
            "files: [train.sh, lib.sh]\ncaches: off\n"
        )  # the programs of nodes would be most of what goes over it
    for count in chosen(range(1, 100), quick=25):
        wire = Wire(count)
        monkeypatch.setattr(remote, "open_transport", lambda *_, wire=wire: wire)
        before = len(far.calls())
        (far.tree / "train.sh").write_text(f"# {count}\n" + "x" * 9000)
        (far.tree / "lib.sh").write_text("the same in each job")
        try:
            job = far.submit()
        except TransportFailed:
            assert wire.cut
            for directory in far.directories():
                assert (directory / "job.sh").exists()
                assert (directory / "files/train.sh").exists()
                assert (directory / "files/lib.sh").read_text() == "the same in each job"
                assert not list(directory.glob(".[!sd]*")), "nothing of the store is left in it"
            monkeypatch.setattr(remote, "open_transport", lambda *_: LocalTransport("there"))
            job = far.submit()
        assert len(far.calls()) == before + 1, f"cut at {count}"
        assert job.remote is not None
        assert far.calls()[-1] == job.remote.directory
        until = (
            time.monotonic() + 300
        )  # the other end of a connection that broke removes its directory by itself
        while left := list(far.jobs.glob(".*.new")):
            assert time.monotonic() < until, left
            time.sleep(0.05)
        if not wire.cut:
            assert count > 15
            return
    pytest.fail("a submission has no end")


FATAL_MKDIR = """\
#!/bin/bash
/bin/mkdir "$@" || exit
if [[ ${!#} == */.submission && ! -e PLACE/killed ]]; then touch PLACE/killed; kill -KILL $PPID; fi
"""


def test_an_attempt_that_is_killed_as_it_begins_is_in_nobodys_way(far, monkeypatch):
    """Its part has no mark yet by which it would be known as dlrun's."""
    place = far.home / "fatal"
    place.mkdir()
    (place / "mkdir").write_text(FATAL_MKDIR.replace("PLACE", str(place)))
    (place / "mkdir").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    with pytest.raises((OperationFailed, TransportFailed)):
        far.submit()
    assert (place / "killed").exists()
    assert len(list(far.jobs.glob(".*.new"))) == 1
    job = far.submit()
    assert far.calls() == [job.remote.directory]
    assert not list(far.jobs.glob(".*.new"))


def test_attempt_that_died_is_found_in_the_queue(far, monkeypatch):
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    (there,) = far.directories()
    (there / ".submission/1").symlink_to(f"{os.uname().nodename}:999999")  # a process that is gone
    (far.home / "calls").write_text(f"{far.home}/other\n{there}\n")
    environment(far, monkeypatch)
    assert far.submit().job_id == "2"
    assert len(far.calls()) == 2


@pytest.mark.slow
def test_queue_that_does_not_answer_leaves_it_open(far, monkeypatch):
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    (there,) = far.directories()
    (there / ".submission/1").symlink_to(f"{os.uname().nodename}:999999")
    (far.home / "deaf").touch()
    with pytest.raises(OperationFailed, match="does not know whether the job was submitted"):
        far.submit()
    assert far.calls() == []
    (far.home / "deaf").unlink()
    assert far.submit().job_id == "1"


def test_job_that_ran_says_itself_that_it_was_submitted(far, monkeypatch):
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    (there,) = far.directories()
    (there / ".submission/1").symlink_to(f"{os.uname().nodename}:999999")
    (there / "state.json").write_text('{"version": 1, "state": "ended", "job_id": "77", "host": "n1"}\n')
    assert far.submit().job_id == "77"
    assert far.calls() == []


def test_attempt_that_still_runs_is_waited_for(far, tmp_path):
    (tmp_path / ".submission").mkdir()
    waiting = subprocess.Popen(["sleep", "600"], cwd=tmp_path)
    (tmp_path / ".submission/1").symlink_to(f"{os.uname().nodename}:{waiting.pid}")
    text = script(
        "find_none",
        "attempts",
        "submit",
        directory=str(tmp_path),
        token="",
        number=1,
        client=["echo", "5"],
        unwanted=[],
    )
    second = subprocess.Popen(["bash", "-c", text], stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    assert second.poll() is None
    (tmp_path / ".submission/said").write_text("4\n")
    assert second.communicate(timeout=120)[0] == "4\n"
    waiting.kill()
    waiting.wait()


def test_many_at_once_submit_once(far, tmp_path):
    (tmp_path / "job/.submission").mkdir(parents=True)
    text = script(
        backends.scheduler("slurm").FINDER,
        "attempts",
        "submit",
        directory=str(tmp_path / "job"),
        token="",
        number=1,
        client=[str(far.home / "programs/sbatch")],
        unwanted=[],
    )
    many = [subprocess.Popen(["bash", "-c", text], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert {one.communicate(timeout=240)[0] for one in many} == {"1\n"}
    assert len(far.calls()) == 1


def test_refused_job_leaves_nothing(far):
    (far.home / "refuse").touch()
    with pytest.raises(OperationFailed, match="refused the job: sbatch: error: invalid partition") as refusal:
        far.submit()
    assert refusal.value.help
    assert far.directories() == far.records() == []


@pytest.mark.slow
def test_new_submission_of_a_job_that_is_through_is_another_job(far):
    assert [far.submit().job_id, far.submit().job_id] == ["1", "2"]
    assert len(far.directories()) == 2


def test_place_that_is_taken_is_not_touched(far):
    (far.home / "mine").mkdir()
    (far.home / "mine/file").touch()
    with pytest.raises(Invalid, match="already exists"):
        far.submit(directory="mine")
    assert [path.name for path in (far.home / "mine").iterdir()] == ["file"]
    assert far.records() == []


@pytest.mark.slow
def test_stream_cut_anywhere_makes_no_directory(far, tmp_path):
    """Also between two files, where tar itself sees nothing wrong."""
    from dlrun.jobs.remote import files as remote_files

    def stream(limit):
        def write(send, _missing):
            written = []
            remote_files.write_stream(
                lambda data: written.append(data) or True,
                {"job.sh": "x", "plan.json": "y" * 9000},
                ["logs"],
                (),
                "token",
            )
            return send(b"".join(written)[:limit])

        return write

    place = str(tmp_path / "jobs/one")
    for limit in (*range(0, 16000, 512), 700):
        try:
            remote_steps.send(
                LocalTransport("there"), place, needed="", token="token", jobs="", write=stream(limit)
            )
        except OperationFailed:
            assert not list((tmp_path / "jobs").iterdir())
        else:
            break
    assert limit > 12000
    assert sorted(path.name for path in (tmp_path / "jobs/one").iterdir()) == [
        ".submission",
        "job.sh",
        "logs",
        "plan.json",
    ]


def test_clients_that_are_missing_there(far):
    for name in ("bash", "sed", "head", "hostname"):
        (far.home / "programs" / name).symlink_to(shutil.which(name))
    (far.home / "programs/sbatch").unlink()
    (far.home / ".bash_profile").write_text(f"PATH={far.home}/programs\n")
    with pytest.raises(Invalid, match="`sbatch` is not installed on `there`"):
        far.submit()
    assert far.records() == []


def test_secret_goes_to_the_client_and_into_no_file(far, monkeypatch):
    (far.home / "secret").touch()
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write("secrets: {TOKEN: {env: TOKEN}}\n")
    with pytest.raises(Invalid, match="`TOKEN` is not set"):
        far.submit()
    monkeypatch.setenv("TOKEN", "canary-5502")
    job = far.submit()
    assert (far.home / "seen").read_text() == "canary-5502\n"
    assert job.remote is not None
    for place in (job.directory, far.directories()[0]):
        assert b"canary-5502" not in b"".join(p.read_bytes() for p in place.rglob("*") if p.is_file())


def test_local_scheduler_is_not_elsewhere(far):
    with pytest.raises(Invalid, match="runs jobs on the submitting machine"):
        far.submit(site="workstation")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("files: [../secret]", "is outside the directory"),
        ("files: [/etc/passwd]", "is outside the directory"),
        ("files: [no-such]", "there is no `no-such` to copy"),
        ("files: ['*.nope']", r"there is no `\*.nope` to copy"),
        ("environment: {venv: .venv}", "`.venv/bin/activate` is not among the `files`"),
        ("environment: {venv: ~/no-such}", "there is no `~/no-such/bin/activate` on `there`"),
    ],
)
def test_files_that_will_not_be_there(far, line, message):
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write(f"{line}\n")
    with pytest.raises(InvalidFile, match=message) as fault:
        far.submit()
    assert fault.value.problems[0].origin is not None
    assert far.records() == far.directories() == []


def test_files_travel_as_they_are(far):
    """Names of any bytes, modes, times, links, empty directories; not version control and caches."""
    tree = far.tree
    with (tree / "spec.yaml").open("a") as spec:
        spec.write("files: [.]\n")
    for name in ("sub/.git/x", "sub/__pycache__/x.pyc", "sub/deep/it's $HOME \n.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    (tree / "empty").mkdir()
    odd = os.fsencode(tree) + b"/caf\xe9"
    with open(odd, "wb") as file:  # noqa: PTH123 - not text
        file.write(b"odd")
    os.utime(odd, ns=(10**9, 1_234_567_890_123_456_789))
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    far.submit()
    there = far.directories()[0] / "files"
    found = sorted(os.fsencode(p.relative_to(there)) for p in there.rglob("*"))
    assert found == [
        b"caf\xe9", b"empty", b"link", b"run", b"spec.yaml", b"sub", b"sub/deep", b"sub/deep/it's $HOME \n.txt", b"train.sh",
    ]  # fmt: skip
    assert os.stat(os.fsencode(there) + b"/caf\xe9").st_mtime == 1_234_567_890  # noqa: PTH116
    assert os.access(there / "run", os.X_OK)
    assert os.readlink(there / "link") == "run"  # noqa: PTH115


def test_check_sends_the_script_to_the_client_and_keeps_nothing(far):
    (far.home / "programs/sbatch").write_text(
        '#!/bin/bash\n[[ $* == "--test-only /dev/stdin" && -z $SBATCH_ACCOUNT ]] || exit 9\n'
        'grep -q "SBATCH --job-name=job" || exit 8\n[[ ! -e $HOME/refuse ]] || { echo "sbatch: error: no" >&2; exit 1; }\n'
        'echo "sbatch: Job 7 to start at 2026-11-21T03:04:15 using 1 processors on nodes n1 in partition x" >&2\n'
    )
    to = Destination(host="there", transport="local")
    assert (
        remote.check_with_scheduler(read_inputs(Path("spec.yaml")), to, notice=far.said.append)
        == "2026-11-21T03:04:15 on n1"
    )
    (far.home / "refuse").touch()
    with pytest.raises(OperationFailed, match="sbatch on `there` rejects the job: sbatch: error: no"):
        remote.check_with_scheduler(read_inputs(Path("spec.yaml")), to, notice=far.said.append)
    assert far.directories() == []
    assert not far.jobs.exists()


def test_check_asks_for_the_start_in_each_queue(far):
    start = "sbatch: Job 7 to start at 2026-11-21T03:04:15 using 1 processors on nodes n1 in partition x"
    (far.home / "programs/sbatch").write_text(
        f'#!/bin/bash\n[[ $1 != --partition=full ]] || {{ echo "sbatch: error: no" >&2; exit 1; }}\necho "{start}" >&2\n'
    )
    inputs = read_inputs(Path("spec.yaml"), sets=("resources.partition=quick,full",))
    assert (
        remote.check_with_scheduler(
            inputs, Destination(host="there", transport="local"), notice=far.said.append
        )
        == "quick: 2026-11-21T03:04:15 on n1, full: no start predicted"
    )


def test_dry_run_asks_nobody(far, monkeypatch):
    monkeypatch.setattr(remote, "open_transport", lambda *_: pytest.fail("connected"))
    load = remote.preview(read_inputs(Path("spec.yaml")), Destination(host="there"), notice=far.said.append)
    assert "~/.local/state/dlrun/jobs/job" in load.texts["job.sh"]
    assert [one.name for one in load.sent] == ["train.sh"]
    assert "was not queried" in far.said[0]


def environment(far, monkeypatch):
    """What `monkeypatch.undo` took back."""
    monkeypatch.setenv("HOME", str(far.home))
    monkeypatch.delenv("DLRUN_JOBS", raising=False)
    monkeypatch.chdir(far.tree)


def died(*_args, **_more):
    raise TransportFailed("gone")


def aged(path, files):
    """A directory of some days ago."""
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    os.utime(path, (1, 1))


@pytest.mark.slow
def test_nothing_is_removed_that_is_not_dlruns(far):
    """Beside a job directory lie the user's things, whatever their names; among the jobs, too."""
    far.jobs.mkdir(parents=True)
    for base in (far.home, far.jobs):
        aged(base / ".thesis.new", {"chapter": "years of work"})
        aged(base / ".other.new", {"job.sh": "#!/bin/bash", ".submission/complete": "x"})
        aged(base / ".part.new", {".submission/part": "dlrun\n", "job.sh": "half"})
        (base / ".link.new").symlink_to(far.tree)
    far.submit()
    far.submit(directory="mine")
    for base, left in ((far.home, True), (far.jobs, False)):
        assert (base / ".thesis.new/chapter").exists()
        assert (base / ".other.new/job.sh").exists()
        assert (base / ".link.new").is_symlink()
        assert (base / ".part.new").exists() == left
    assert (far.tree / "train.sh").exists()


def test_place_for_the_part_is_taken(far):
    """The hidden name that a job directory has until it is complete is the user's."""
    aged(far.home / ".thesis.new", {"chapter": "years of work"})
    with pytest.raises(Invalid, match=r"`.*/\.thesis\.new` .* was not created by dlrun"):
        far.submit(directory="thesis")
    assert (far.home / ".thesis.new/chapter").read_text() == "years of work"
    assert far.records() == []
    (far.home / ".empty.new").mkdir()
    with pytest.raises(Invalid, match="was not created by dlrun"):
        far.submit(directory="empty")
    assert (far.home / ".empty.new").exists()


def test_refused_job_takes_only_its_own_directory(far, monkeypatch):
    """If the directory is another's by then, it stays."""

    real = remote_steps.submit

    def swapped(transport, directory, *rest, **how):
        shutil.rmtree(directory)
        aged(Path(directory), {"thesis": "years of work", ".submission/complete": "another token"})
        return real(transport, directory, *rest, **how)

    monkeypatch.setattr(remote_steps, "submit", swapped)
    (far.home / "refuse").touch()
    with pytest.raises(OperationFailed, match="refused the job"):
        far.submit()
    (there,) = far.directories()
    assert (there / "thesis").exists()


@pytest.mark.slow
def test_fault_of_the_second_attempt_keeps_the_record(far, monkeypatch):
    """The first may have been taken: a secret that is missing now says nothing of that job."""
    with (far.tree / "spec.yaml").open("a") as spec:
        spec.write("secrets: {TOKEN: {env: TOKEN}}\n")
    monkeypatch.setenv("TOKEN", "x")
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    with pytest.raises(Invalid, match="`TOKEN` is not set"):
        far.submit()
    assert len(far.records()) == 1
    monkeypatch.setenv("TOKEN", "x")
    assert far.submit().job_id == "1"
    assert len(far.records()) == 1


def test_a_spec_is_read_once_though_its_site_is_known_late(far, monkeypatch):
    read_text, names = reading.read_text, []
    monkeypatch.setattr(
        reading, "read_text", lambda path, layer: (names.append(path.name), read_text(path, layer))[1]
    )
    far.submit()
    assert names.count("spec.yaml") == 1


def record_of(far) -> Job:
    (place,) = far.records()
    job = jobs.load(place)
    assert job is not None
    return job


def test_a_submission_is_in_progress_until_its_result_is_known(far, monkeypatch):
    """Its dlrun was killed; what it began on the login node goes on: the job comes after it was asked about."""
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    assert record_of(far).submitting
    (there,) = far.directories()
    client = subprocess.Popen(["sleep", "600"], cwd=there)  # the login node still waits for its scheduler
    try:
        (there / ".submission/1").symlink_to(f"{os.uname().nodename}:{client.pid}")
        assert completed(record_of(far)).submitting
    finally:
        client.kill()
        client.wait()
    (far.home / "calls").write_text(f"{there}\n")
    (far.home / "deaf").touch()
    assert completed(record_of(far)).submitting
    (far.home / "deaf").unlink()
    assert completed(record_of(far)).job_id == "1"
    assert not record_of(far).submitting
    assert far.calls() == [str(there)]


def test_another_dlrun_that_still_sends_is_left_alone(far, monkeypatch):
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", died)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    (place,) = far.records()
    record = json.loads((place / "submission.json").read_text())
    with subprocess.Popen(["sleep", "600"]) as other:
        record["submitting"] |= {"pid": other.pid, "start": start_time(other.pid), "since": time.time()}
        (place / "submission.json").write_text(json.dumps(record))
        assert completed(record_of(far)).submitting
        other.kill()
    assert not completed(record_of(far)).submitting


@pytest.mark.slow
def test_what_was_settled_as_not_submitted_is_not_submitted_later(far, monkeypatch):
    """The script of a killed dlrun may begin late; the same command is a new submission of the same job."""
    late = []

    def asked(*given, **more):
        late.append((given, more))
        raise TransportFailed("gone")

    real = remote_steps.submit
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", asked)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    settled = completed(record_of(far))
    assert (settled.job_id, settled.submitting) == (None, False)
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.submit", asked)
    with pytest.raises(TransportFailed):
        far.submit()
    monkeypatch.undo()
    environment(far, monkeypatch)
    assert completed(record_of(far)).job_id is None
    (given, more), _ = late
    with pytest.raises(OperationFailed, match="another dlrun found this submission interrupted"):
        real(*given, **more)
    assert far.calls() == []
    assert far.submit().job_id == "1"
    assert real(*given, **more) == ("1", [])
    assert len(far.calls()) == len(far.records()) == 1


def test_nothing_was_sent(far, monkeypatch):
    """Nor is anything left in a directory of that name that is another's."""
    monkeypatch.setattr("dlrun.jobs.remote.submission.remote_steps.send", died)
    with pytest.raises(TransportFailed):
        far.submit(directory="mine")
    assert record_of(far).submitting
    (far.home / "mine").mkdir()
    (far.home / "mine/thesis").touch()
    settled = completed(record_of(far))
    assert (settled.job_id, settled.submitting) == (None, False)
    assert [path.name for path in (far.home / "mine").iterdir()] == ["thesis"]


def test_record_that_cannot_be_written_at_the_end(far, monkeypatch):
    """The disk is full here when the login node has answered: the id is reported, and found there again."""
    monkeypatch.setattr("dlrun.jobs.remote.record.directories.write_json", full)
    assert far.submit().job_id == "1"
    assert any("job 1 is submitted, but its record cannot be written: No space" in line for line in far.said)
    monkeypatch.undo()
    environment(far, monkeypatch)
    assert record_of(far).submitting
    assert completed(record_of(far)).job_id == "1"


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


PROFILE = "name: there\nscheduler: {type: slurm}\nlauncher: {name: srun}\nstorage: {jobs: $SCRATCH/dlrun}\n"


@pytest.mark.slow
def test_jobs_are_made_where_the_sites_profile_has_them(far, tmp_path):
    site = tmp_path / "there.yaml"
    site.write_text(PROFILE)
    without = far.submit(site=str(site))
    assert without.remote is not None
    assert Path(without.remote.directory).parent == far.home / ".local/state/dlrun/jobs", (
        "no such variable there"
    )
    with (far.home / ".bash_profile").open("a") as profile:
        profile.write(f"export SCRATCH='{tmp_path}/scratch of mine'\n")
    job = far.submit(site=str(site), sets=["name=other"])
    assert job.remote is not None
    assert Path(job.remote.directory).parent == tmp_path / "scratch of mine" / "dlrun"
    assert (Path(job.remote.directory) / "job.sh").exists()
    again = remote.resubmit(job, job.remote, job.plan(), far.said.append)
    assert again.remote is not None
    assert Path(again.remote.directory).parent == tmp_path / "scratch of mine" / "dlrun"
