"""Only what dlrun wrote is ever removed: a user's files stay wherever they are, and a saved plan makes no job of a project."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from dlrun.jobs.records import directories, lock
from dlrun.render.written_names import WrittenNames
from dlrun.system.process import start_time
from tests.cli.conftest import Dlrun
from tests.cli.test_every_day import aged, listed
from tests.forked import killed_at

OK = "run: 'true'\nresources: {ranks_per_node: 1}\n"


def tree(place: Path) -> dict[str, bytes]:
    """Path -> content of all files below a directory; of links their targets."""
    return {
        str(path.relative_to(place)): os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in place.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("word", [".", "./", "../project", ".//."])
def test_a_plan_saved_in_a_project_makes_no_job_of_it(dlrun, word):
    project = dlrun.place / "project"
    project.mkdir()
    (project / "train.py").write_text("print()\n")
    there = Dlrun(project, dlrun.server)
    there("plan", there.spec(OK), "-o", "plan.json")
    before = tree(project)
    for command in ("clean", "cancel", "resubmit", "status", "logs"):
        options = ("--yes", "--all") if command == "clean" else ()
        assert "no job" in there(command, word, *options, code=2).stderr
    assert tree(project) == before


def test_projects_in_the_directory_of_jobs_are_not_jobs(dlrun):
    project = dlrun.jobs / "resnet"
    project.mkdir(parents=True)
    (project / "train.py").write_text("print()\n")
    there = Dlrun(project, dlrun.server)
    there("plan", there.spec(OK), "-o", "plan.json")
    aged(project, 40)
    assert "resnet" not in dlrun("list").stdout
    dlrun("clean", "--yes", "--all")
    assert (project / "train.py").exists()


OF_A_TRAINING = (
    "results.json", "config.yaml", "model.py", "logs/events.out.tfevents.1", "kept/best.pt", "usage/mine",
    ".checkpoints/last.pt", "logs/rank-1.log", "points/0/state.json", "failures/mine", "files/ckpt.pt", "lib/mine.sh",
    "outcome.json", ".state.json.1", "ended/rank-7", "hostfile-mine", "placement/mine", "stage-secret", "usage/host.jsonl",
)  # fmt: skip
"""Files of a training, with names such as dlrun's: for other jobs, or in dlrun's directories."""


@pytest.mark.slow
def test_what_the_training_wrote_stays_wherever_it_is(dlrun):
    made = " && ".join(f"mkdir -p $(dirname {name}) && echo mine >{name}" for name in OF_A_TRAINING[:8])
    spec = f"run: 'cd {{{{ run_dir }}}} && {made}'\nresources: {{ranks_per_node: 1}}\ncaches: auto\n"
    job = dlrun.submit(spec, "--wait")
    for name in OF_A_TRAINING[8:]:
        (job / name).parent.mkdir(parents=True, exist_ok=True)
        (job / name).write_text("mine")
    aged(job, 40)
    before = tree(job)
    (found,) = listed(dlrun, "--yes")
    assert sorted(found["foreign"]) == sorted(OF_A_TRAINING)
    assert (found["removed"], tree(job)) == (False, before)
    assert f"{job.name}: .checkpoints/last.pt (" in dlrun("clean", job.name).stderr
    assert tree(job) == before
    said = dlrun("clean", job.name, "--all", "--yes").stderr
    assert all(f"{job.name}: {name} (" in said for name in OF_A_TRAINING)
    assert not job.exists()


def test_an_edited_page_is_the_users(dlrun):
    job = dlrun.submit(OK, "--wait")
    with (job / "job.sh").open("a") as page:
        page.write("# mine\n")
    assert listed(dlrun, str(job), "--yes")[0]["foreign"] == ["job.sh"]
    assert job.exists()


def test_a_copy_of_a_job_is_not_dlruns(dlrun):
    job = dlrun.submit(OK, "--wait")
    copy = shutil.copytree(job, dlrun.place / "kept", symlinks=True)
    before = tree(copy)
    (found,) = listed(dlrun, str(copy), "--yes", "--all")
    assert f"a copy of `{job}`" in found["kept"]
    shutil.rmtree(job)
    dlrun("clean", copy, "--yes", "--all")
    assert tree(copy) == before
    moved = dlrun.submit(OK, "--wait")
    moved.rename(dlrun.place / "elsewhere")
    dlrun("clean", dlrun.place / "elsewhere", "--yes")
    assert not (dlrun.place / "elsewhere").exists()


def test_links_are_not_followed(dlrun):
    outside = dlrun.place / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    job = dlrun.submit(OK, "--wait")
    (job / "out").symlink_to(outside)
    (job / "rendezvous").unlink()
    (job / "rendezvous").symlink_to(outside / "mine")
    assert sorted(listed(dlrun, str(job), "--yes")[0]["foreign"]) == ["out", "rendezvous"]
    assert job.exists()
    dlrun("clean", job, "--yes", "--all")
    assert not job.exists()
    assert (outside / "mine").read_text() == "mine"


def test_a_job_of_an_earlier_version_is_shown_and_left_alone(dlrun):
    job = dlrun.submit(OK, "--wait")
    (job / ".dlrun-written").unlink()
    aged(job, 40)
    assert "an earlier version of dlrun made it" in dlrun("list").stdout
    for command in ("clean", "cancel", "resubmit", "status"):
        said = dlrun(command, job.name, code=2).stderr
        assert "remove the directory by hand" in said
    before = tree(job)
    (found,) = listed(dlrun, "--yes", "--all")
    assert "an earlier version" in found["kept"]
    assert tree(job) == before


def test_a_record_that_a_killed_process_did_not_complete_is_dlruns(dlrun):
    job = dlrun.submit(OK, "--wait")
    killed_at("os.rename", lambda: directories.write_json(job / "outcome.json", {"a": 1}))
    (job / ".state.123").write_text('{"version": 1, "sta')
    left = [path.name for path in job.glob(".dlrun-*.new")]
    assert len(left) == 1
    for name in (".dlrun-0123456789ab.new", ".dlrun-0123456789ab-0123456789abcdef.new", ".state.7"):
        (job / name).write_text("mine")
    assert sorted(listed(dlrun, str(job), "--yes")[0]["foreign"]) == [
        ".dlrun-0123456789ab-0123456789abcdef.new", ".dlrun-0123456789ab.new", ".state.7",
    ]  # fmt: skip
    for name in (".dlrun-0123456789ab.new", ".dlrun-0123456789ab-0123456789abcdef.new", ".state.7"):
        (job / name).unlink()
    assert listed(dlrun, str(job), "--yes")[0]["removed"]
    assert not job.exists()


MADE = {
    "plan.json": "{}\n" * 50,
    "job.sh": "#!/bin/bash\n",
    "lib/a.sh": "true\n",
    directories.SUBMISSION: "{}\n",
}
POINTS = WrittenNames(runs=("logs/", "logs/rank-0.log"), points=2)


def left_by_a_kill(place: Path, event: str) -> Path:
    """The incomplete directory that a process leaves that is killed at this event."""
    killed_at(event, lambda: directories.create(place / "a", MADE, POINTS))
    (left,) = place.glob(".a.*.new")
    return left


@pytest.mark.parametrize("command", ["submit", "clean"])
@pytest.mark.parametrize("cut", [None, "plan.json", "lib/a.sh"])
def test_the_incomplete_directory_of_a_killed_submission_goes(dlrun, command, cut):
    left = left_by_a_kill(dlrun.jobs, "os.rename")
    if cut:
        (left / cut).write_bytes((left / cut).read_bytes()[:3])
    if command == "clean":
        assert (
            f"{left}: what a submission that was killed has left; `--yes` removes it" in dlrun("clean").stderr
        )
        assert left.exists()
        assert (
            f"{left}: what a submission that was killed has left; removed" in dlrun("clean", "--yes").stderr
        )
    else:
        dlrun.submit(OK, "--wait")
    assert not list(dlrun.jobs.glob(".*.new"))


def test_nothing_of_the_user_in_one_goes(dlrun):
    copied = shutil.copytree(left_by_a_kill(dlrun.jobs, "os.rename"), dlrun.jobs / ".a.01234567.new")
    alike = dlrun.jobs / ".b.01234567.new"
    alike.mkdir()
    (alike / "plan.json").write_text("mine")
    unproved = shutil.copytree(copied, dlrun.jobs / ".c.01234567.new")
    (unproved / ".dlrun-written").write_bytes(b"")
    (dlrun.jobs / ".d.01234567.new").symlink_to(alike)
    for path, content in (
        ("train.py", "mine"),
        ("job.sh", "#!/bin/bash\n# mine\n"),
        ("points/0/logs/mine", ""),
    ):
        left = next(path for path in dlrun.jobs.glob(".a.*.new") if path != copied)
        kept = (left / path).read_bytes() if (left / path).exists() else None
        (left / path).parent.mkdir(exist_ok=True)
        (left / path).write_text(content)
        for one in dlrun.jobs.iterdir():
            aged(one, 2)
        before = tree(dlrun.jobs)
        dlrun("clean", "--yes", "--all")
        assert tree(dlrun.jobs) == before
        (left / path).unlink() if kept is None else (left / path).write_bytes(kept)
    dlrun("clean", "--yes")
    assert not left.exists()
    assert len(list(dlrun.jobs.glob(".*.new"))) == 4


def test_an_empty_one_goes_once_it_is_old(dlrun):
    left = dlrun.jobs / ".a.01234567.new"
    left.mkdir(parents=True)
    (left / ".dlrun-written").touch()
    dlrun("clean", "--yes")
    assert left.exists()
    aged(left, 1)
    os.utime(left, (time.time() - 86400,) * 2)
    dlrun("clean", "--yes")
    assert not left.exists()


def test_that_of_a_process_that_still_runs_stays(dlrun, monkeypatch):
    left = left_by_a_kill(dlrun.jobs, "os.rename")
    line, _, rest = (left / ".dlrun-written").read_text().partition("\n")
    header = json.loads(line)
    header["by"] |= {"pid": os.getppid(), "start": start_time(os.getppid())}
    (left / ".dlrun-written").write_text(json.dumps(header) + "\n" + rest)
    dlrun("clean", "--yes")
    assert left.exists()
    header["by"] |= {"host": "elsewhere"}
    (left / ".dlrun-written").write_text(json.dumps(header) + "\n" + rest)
    dlrun("clean", "--yes")
    assert left.exists()
    header["by"] |= {"since": time.time() - 3600}
    (left / ".dlrun-written").write_text(json.dumps(header) + "\n" + rest)
    dlrun("clean", "--yes")
    assert not left.exists()


@pytest.mark.parametrize("call", ["os.link", "os.remove"])
def test_a_study_that_was_killed_at_its_begin_begins_again(dlrun, call):
    place = dlrun.place / "study"
    killed_at(call, lambda: directories.begin(place, "tuning", ["tune.json", lock.NAME]))
    assert [path.suffix for path in place.iterdir() if path.name != ".dlrun-written"] == [".new"]
    assert directories.is_free(place, "tuning")
    directories.begin(place, "tuning", ["tune.json", lock.NAME])
    assert listed(dlrun, "study", "--yes")[0]["removed"]
    assert not place.exists()
    place.mkdir()
    (place / ".dlrun-0123456789ab-0123456789abcdef.new").write_text("mine")
    assert not directories.is_free(place, "tuning")


SWEEP = "command: [echo, '{{ x }}']\nsweep: {x: [1, 2, 3]}\nresources: {ranks_per_node: 2}\n"
FAILS = "run: 'exit 3'\nresources: {ranks_per_node: 3}\n"
HANGS = """\
command: [python3, -c, 'import time; print(1, flush=True); time.sleep(600)']
resources: {ranks_per_node: 2, walltime: 30m}
hang: 4s
"""
AGAIN = "run: 'exit 9'\nresources: {ranks_per_node: 1}\non_failure: {requeue: 1, user_error: requeue}\n"


@pytest.mark.slow
@pytest.mark.parametrize("spec", [OK, SWEEP, FAILS, "logs: node\n" + SWEEP, AGAIN, HANGS])
def test_everything_that_a_job_writes_is_on_its_list(dlrun, spec):
    dlrun.spec(spec)
    dlrun("submit", "spec.yaml", "--wait", code=None)
    (job,) = dlrun.jobs.glob("[!.]*")
    dlrun("status", job.name)
    (found,) = listed(dlrun, job.name, "--yes")
    assert found["foreign"] == []
    assert not job.exists()


STAGED = """\
site: ./site.yaml
command: [bash, -c, 'python3 -c "import dlrun_data"']
resources: {ranks_per_node: 1, walltime: 30m}
data:
  few: {source: FEW, strategy: copy}
results: RESULTS
"""


@pytest.mark.slow
def test_what_a_job_with_staged_data_writes_is_on_its_list(dlrun):
    (dlrun.place / "few").mkdir()
    (dlrun.place / "few" / "a.bin").write_bytes(b"x" * 9000)
    (dlrun.place / "local").mkdir()
    local = f"storage: {{node_local: {{path: '{dlrun.place}/local', size: 1GB}}}}\n"
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        + local
    )
    spec = STAGED.replace("FEW", str(dlrun.place / "few")).replace("RESULTS", str(dlrun.place / "brought"))
    job = dlrun.submit(spec, "--wait")
    (found,) = listed(dlrun, job.name, "--yes")
    assert (found["foreign"], found["removed"]) == ([], True)


STUDY = "run: 'echo throughput: 5 samples/s; echo throughput: 6 samples/s'\n"
TRAINING = 'command: [bash, -c, "sleep 1; echo throughput: 5 samples/s; sleep 30", "{{ x }}"]\n'
TUNE = ("--only", "--try", "x=1,2", "--length", "1s", "--repeat", "1", "--budget", "1", "--out", "tuning")


@pytest.fixture(scope="module")
def studies(tmp_path_factory, preloaded) -> Path:
    """A directory with a scaling study and a tuning that have ended, each by the name of its command."""
    place = tmp_path_factory.mktemp("studies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DLRUN_JOBS", str(place / "jobs"))
        dlrun = Dlrun(place, preloaded)
    dlrun("scale", dlrun.spec(STUDY), "--ranks-per-node", "1,2", "--repeat", "1", "--out", "study")
    dlrun("tune", dlrun.spec(TRAINING), *TUNE, code=None)
    return place


@pytest.fixture
def study(request, studies, dlrun) -> Path:
    """One of them in the working directory, as if it had been made there."""
    place = dlrun.place / request.param
    (studies / request.param).rename(place)
    yield place
    if place.exists():
        place.rename(studies / request.param)
    else:
        pytest.fail("it is needed for other tests")


both = pytest.mark.parametrize("study", ["study", "tuning"], indirect=True)


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    "name", ["notes.txt", "jobs/mine", "trials/mine", "job-7", "trials/009-x/job.sh", "jobs/1x1-9"]
)
def test_a_study_with_a_file_of_the_user_is_kept_whole(study, dlrun, name):
    mine = study / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = tree(study)
    said = dlrun("clean", study, "--yes").stderr
    assert f"{study.name}: {name} (" in said
    assert tree(study) == before
    mine.unlink()
    for parent in mine.relative_to(study).parents:
        if not list((study / parent).iterdir()):
            (study / parent).rmdir()


@pytest.mark.slow
@both
def test_nor_does_a_file_in_one_of_its_jobs_go(study, dlrun):
    (job,) = sorted((*study.glob("jobs/*"), *study.glob("trials/*")))[:1]
    (job / "best.pt").write_text("mine")
    before = tree(study)
    dlrun("clean", study, "--yes")
    assert tree(study) == before
    (job / "best.pt").unlink()


@pytest.mark.slow
@both
def test_a_copy_of_a_study_and_one_without_its_list_are_kept(study, dlrun):
    copy = shutil.copytree(study, dlrun.place / "copy", symlinks=True)
    before = tree(copy)
    assert "copy is kept: it is a copy of" in dlrun("clean", copy, "--yes", "--all").stderr
    assert tree(copy) == before
    (copy / ".dlrun-written").unlink()
    dlrun("clean", copy, "--yes", "--all", code=2)
    begin = ("scale", "--repeat", "1") if study.name == "study" else ("tune", *TUNE)
    said = dlrun(begin[0], dlrun.spec(STUDY), *begin[1:], "--out", copy, code=2).stderr
    assert "an earlier version of dlrun made it" in said
    assert {**tree(copy), ".dlrun-written": b""} == {**before, ".dlrun-written": b""}


@pytest.mark.slow
@both
def test_a_study_that_another_process_works_on_is_kept(study, dlrun):
    before = tree(study)
    with lock.exclusive(study, "", ""):
        assert "another dlrun process is working on" in dlrun("clean", study, "--yes", code=1).stderr
    assert tree(study) == before


@pytest.mark.slow
@pytest.mark.parametrize("which", ["study", "tuning"])
def test_a_study_goes_with_its_jobs(dlrun, which):
    if which == "study":
        dlrun("scale", dlrun.spec(STUDY), "--ranks-per-node", "1,2", "--repeat", "1", "--out", which)
        table = dlrun.place / which / "table.tex"
        table.write_text("mine")
        again = dlrun("scale", "spec.yaml", "--ranks-per-node", "1,2", "--repeat", "1", "--out", which)
        assert "kept " in again.stderr
        assert table.read_text() == "mine"
        assert listed(dlrun, which, "--yes")[-1]["foreign"] == ["table.tex"]
        table.unlink()
    else:
        dlrun("tune", dlrun.spec(TRAINING), *TUNE, code=None)
    found = listed(dlrun, which, "--yes")
    assert [one["foreign"] for one in found] == [[]] * len(found)
    assert all(one["removed"] for one in found)
    assert not (dlrun.place / which).exists()


def test_json_has_names_and_sizes(dlrun):
    job = dlrun.submit(OK, "--wait")
    (job / "big.bin").write_bytes(b"x" * 5000)
    (found,) = json.loads(dlrun("clean", job, "--json").stdout)["clean"]
    assert (found["foreign"], found["kept"]) == (["big.bin"], None)
    assert found["foreign_bytes"][0] >= 4096
