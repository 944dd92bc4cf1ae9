"""Which job directories are believed: one's own, with ids that their scheduler could have given."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.clusters import local
from dlrun.jobs.queue import attempts, status, study as studies
from dlrun.jobs.queue.study import Size, Study
from dlrun.jobs.records import directories, jobs, validation
from dlrun.model.spec import Metric
from dlrun.render.written_names import WrittenNames

PLAN = {"name": "a", "site": "s", "scheduler": "slurm"}


def make(path: Path, submission: object = None, **plan: object) -> Path:
    directories.create(
        path, {"job.sh": "", "lib/job.sh": "", "plan.json": json.dumps(PLAN | plan)}, WrittenNames()
    )
    if submission is not None:
        (path / directories.SUBMISSION).write_text(
            submission if isinstance(submission, str) else json.dumps(submission)
        )
    return path


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("what", ["directory", "plan.json", "submission.json"])
def test_what_another_user_owns_is_not_believed(tmp_path, what):
    path = make(tmp_path / "a", {"job_id": "7"})
    os.chown(path if what == "directory" else path / what, 65534, 65534)
    (job,) = [one for one in [jobs.load(path)] if one]
    assert (job.job_id, job.remote) == (None, None)
    assert list(jobs.all_jobs(tmp_path)) == []
    with pytest.raises(Invalid, match=r"belongs to another user \(uid 65534\)"):
        jobs.find(str(path), tmp_path)
    with pytest.raises(Invalid, match="no job `7`"):
        jobs.find("7", tmp_path)


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
def test_where_users_share_a_directory_a_stranger_takes_no_jobs_name(tmp_path):
    """Directories and links that are called as the id of a job, or as its name begins, are passed over."""
    jobs_of_all = tmp_path / "all"
    own = make(jobs_of_all / "train-1", {"job_id": "7"})
    other = make(jobs_of_all / "train-2", {"job_id": "8"})
    for name in ("7", "latest", "tr"):
        make(jobs_of_all / name, {"job_id": "9"})
        for path in (jobs_of_all / name, *(jobs_of_all / name).rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)
    (jobs_of_all / "8").symlink_to(own)
    os.chown(jobs_of_all / "8", 65534, 65534, follow_symlinks=False)
    assert jobs.find("7", jobs_of_all).directory == own
    assert jobs.find("8", jobs_of_all).directory == other
    assert jobs.find("latest", jobs_of_all).directory in (own, other)
    with pytest.raises(Invalid, match="any of 2 jobs"):
        jobs.find("tr", jobs_of_all)
    with pytest.raises(Invalid, match="belongs to another user"):
        jobs.find(str(jobs_of_all / "7"), jobs_of_all)
    os.chown(jobs_of_all / "8", os.getuid(), os.getgid(), follow_symlinks=False)
    assert jobs.find("8", jobs_of_all).directory == own


BAD = {
    "slurm": [
        "--user=victim",
        "-7",
        "7 8",
        "7,8",
        "",
        "x",
        7,
        7.5,
        None,
        [],
        "7\n",
        "7\0",
        "²",
        "٣",
        "9" * 40,
        "7_",
        "7;ls",
    ],
    "openpbs": ["-W", "7.s -x", "all", "7[", "7..", "7.-x;", "²"],
    "torque": ["-m", "7.server/x"],
    "local": ["1", "1.", ".5", "-1.5", "1.5.6", "²." + "5", "1 .5", "99999999999999999999.5"],
}


@pytest.mark.parametrize(
    ("scheduler", "job_id"), [(s, i) for s, ids in BAD.items() for i in ids if i is not None]
)
def test_ids_that_no_scheduler_gives(tmp_path, scheduler, job_id):
    make(tmp_path / "good", {"job_id": "4"})
    path = make(tmp_path / "bad", {"job_id": job_id}, scheduler=scheduler)
    found = {job.directory.name: job for job in jobs.all_jobs(tmp_path)}
    assert found["good"].job_id == "4"
    assert found["bad"].job_id is None
    assert found["bad"].damage is not None
    with pytest.raises(Invalid, match=r"the record of `bad` is damaged: .*`job_id`"):
        jobs.find(str(path), tmp_path)


@pytest.mark.parametrize(("scheduler", "job_id"), [
    ("slurm", "4711"), ("openpbs", "12.pbs-1.example.org"), ("openpbs", "12[].pbs"), ("openpbs", "12"), ("torque", "3.h"),
    ("torque", "3[].h"), ("local", "4242.991"),
])  # fmt: skip
def test_ids_that_they_give(tmp_path, scheduler, job_id):
    make(tmp_path / "a", {"job_id": job_id}, scheduler=scheduler)
    assert jobs.find("a", tmp_path).job_id == job_id


DAMAGED = [
    ("submission.json", "[]"), ("submission.json", "{"), ("submission.json", "null"), ("submission.json", "[" * 100000),
    ("submission.json", '{"job_id": "7", "submitted": "yesterday"}'), ("submission.json", '{"job_id": "7", "submitted": NaN}'),
    ("submission.json", '{"job_id": "7", "host": ["x"]}'), ("submission.json", '{"job_id": "7", "cluster": 5}'),
    ("submission.json", '{"job_id": "7", "remote_directory": 5, "host": "h"}'),
    ("submission.json", '{"job_id": "7", "remote_directory": "relative", "host": "h"}'),
    ("submission.json", '{"job_id": "7", "remote_directory": "/x", "host": "-oProxyCommand=x"}'),
    ("submission.json", '{"job_id": "7", "remote_directory": "/x", "host": "h", "transport": "magic"}'),
    ("submission.json", '{"job_id": "7", "remote_directory": "/x", "host": "h", "unwanted": 5}'),
    ("submission.json", '{"job_id": "7", "remote_directory": "/x", "host": "h", "unwanted": ["A=b; rm"]}'),
    ("plan.json", '{"scheduler": 5}'), ("plan.json", '{"scheduler": "no-such"}'),
    ("plan.json", '{"scheduler": "slurm", "points": 5}'),
    ("plan.json", "{"), ("plan.json", '{"scheduler": "slurm", "name": "a", "site": {"x": 1}}'),
    ("job-id", "--user=victim\n"), ("job-id", "\xff\xfe"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), DAMAGED)
def test_a_damaged_record_hides_no_other(tmp_path, name, text, monkeypatch):
    make(tmp_path / "good", None)
    path = make(tmp_path / "bad", {"job_id": "7", "submitted": 1.0})
    (path / name).write_bytes(text.encode("latin-1"))
    found = list(jobs.all_jobs(tmp_path))
    assert {job.directory.name for job in found} == {"good", "bad"}
    (bad,) = [job for job in found if job.directory.name == "bad"]
    assert bad.damage is not None
    assert status.of(found)[bad.directory] == []
    with pytest.raises(Invalid, match="damaged"):
        jobs.find("bad", tmp_path)


@pytest.mark.parametrize(
    ("change", "damage"),
    [
        ({"submitted": "yesterday"}, "`submission.json`: submitted: float expected, str found"),
        ({"submitted": float("nan")}, "`submission.json`: submitted: nan is not between 0 and"),
        ({"host": ["x"]}, "`submission.json`: host: str expected, list found"),
        ({"cluster": "a\0b"}, "`submission.json`: cluster: a NUL byte"),
        ({"host": "-oProxyCommand=x"}, "`submission.json`: host: '-oProxyCommand=x' does not match"),
        ({"remote_directory": "/x"}, "`submission.json` has no `host`"),
        ({"transport": "magic"}, "`submission.json`: transport: `magic` is not one of 'openssh', "),
        ({"unwanted": ["A=b"]}, "`submission.json`: unwanted: 'A=b' does not match"),
        (
            {"job_id": None, "submitting": {"since": "x"}},
            "`submission.json`: since: float expected, str found",
        ),
    ],
)
def test_damage_names_the_file_the_field_and_what_was_expected(tmp_path, change, damage):
    job = jobs.load(make(tmp_path / "a", {"job_id": "7", **change}))
    assert job is not None
    assert str(job.damage).startswith(damage)
    assert job.job_id is None


@pytest.mark.parametrize(
    ("plan", "damage"),
    [
        ({"scheduler": 5}, "`plan.json`: scheduler: str expected, int found"),
        ({"scheduler": ""}, "`scheduler` is `''`"),
        ({"points": 5}, "`plan.json`: points: list expected, int found"),
        ({"site": {"x": 1}}, "`plan.json`: site: str expected, dict found"),
    ],
)
def test_damage_of_a_plan_names_its_field(tmp_path, plan, damage):
    job = jobs.load(make(tmp_path / "a", None, **plan))
    assert job is not None
    assert str(job.damage).startswith(damage)


@pytest.mark.parametrize("entry", [5, {},
                                   {"directory": 5, "points": [1]}, {"directory": "/x"}, {"directory": "{good}", "points": ["x"]},
                                   {"directory": "{good}", "points": [-1]}, "x", None])  # fmt: skip
def test_damaged_notes_of_runs_that_came_later(tmp_path, entry):
    good = make(tmp_path / "good", None, scheduler="local")
    path = make(tmp_path / "a", None, scheduler="local")
    text = json.dumps({"jobs": [entry]}).replace("{good}", str(good))
    for name in (jobs.RERUNS, jobs.RERUN_OF):
        (path / name).write_text(
            text if name == jobs.RERUNS else json.dumps(entry).replace("{good}", str(good))
        )
    job = jobs.load(path)
    assert job is not None
    assert attempts.reruns(job) == []
    attempts.statuses(job)


def test_jobs_come_before_what_lies_in_the_working_directory(tmp_path, monkeypatch):
    """A directory named as a job's number, made by whoever, is not taken for the job."""
    base, here = tmp_path / "jobs", tmp_path / "here"
    mine = make(base / "train-1", {"job_id": "123"})
    for name in ("123", "latest", "train-1", "train"):
        make(here / name, {"job_id": "666"})
    make(here / "other", {"job_id": "5"})
    monkeypatch.chdir(here)
    for word in ("123", "latest", "train-1", "train"):
        assert jobs.find(word, base).directory == mine
    assert jobs.find("other", base).job_id == "5"
    assert jobs.find("./123", base).job_id == "666"
    with pytest.raises(Invalid):
        jobs.find("", base)


def test_only_the_jobs_own_supervisor_is_ended(tmp_path):
    """A record with the number and the start of another process of the user ends nothing."""
    victim = subprocess.Popen(["sleep", "600"])
    try:
        started = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19]
        make(tmp_path / "a", {"job_id": f"{victim.pid}.{started}"}, scheduler="local")
        job = jobs.find("a", tmp_path)
        assert not local.cancel(job, timeout=0.5)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


STUDY = Study(
    directory=Path("/studies/one"), name="a", origin=Path("/home/ada"), spec=Path("/home/ada/spec.yaml"), site=None,
    sets=("epochs=1",), mode="weak", repeat=2, sizes=(Size(nodes=1), Size(nodes=2, per_node=4)),
    metrics={"throughput": Metric(pattern=r"(\d+) samples/s")},
)  # fmt: skip


def test_a_study_is_read_as_it_was_written_wherever_its_directory_is_now(tmp_path):
    dataclasses.replace(STUDY, directory=tmp_path / "one").save()
    (tmp_path / "one").rename(tmp_path / "two")
    assert studies.load(tmp_path / "two") == dataclasses.replace(STUDY, directory=tmp_path / "two")


def test_of_a_record_later_fields_are_ignored_and_earlier_ones_have_their_defaults():
    record = json.loads(json.dumps(validation.encoded(STUDY, sizes=[])))
    assert "directory" not in record
    del record["host"], record["transport"]
    found = validation.decoded(Study, record | {"of_a_later_version": 1}, directory="/studies/one")
    assert found == dataclasses.replace(STUDY, sizes=())


@pytest.mark.parametrize("change", [
    {"version": 2}, {"mode": "odd"}, {"repeat": "2"}, {"spec": 5}, {"spec": "a\0b"}, {"sets": "x"},
])  # fmt: skip
def test_a_record_of_another_shape_is_not_decoded(change):
    record = json.loads(json.dumps(validation.encoded(STUDY, sizes=[]))) | change
    with pytest.raises(ValueError, match=next(iter(change))):
        validation.decoded(Study, record, directory="/studies/one")
