"""Submission through a scheduler's clients: small programs that record how they were called and play answers back."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from dlrun.schedulers.slurm.states import HISTORY_FIELDS, QUEUE_FIELDS
from tests.cli.conftest import Dlrun

CLIENT = """\
#!/usr/bin/env python3
import json, os, pathlib, sys
calls = pathlib.Path(os.environ["CALLS"])
name = pathlib.Path(sys.argv[0]).name
with calls.open("a") as out:
    out.write(json.dumps({"name": name, "argv": sys.argv[1:], "cwd": os.getcwd(), "env": sorted(os.environ)}) + "\\n")
answer = calls.parent / f"{name}.json"
code, stdout, stderr = json.loads(answer.read_text()) if answer.exists() else (0, "", "")
sys.stdout.write(stdout)
sys.stderr.write(stderr)
sys.exit(code)
"""
PROGRAMS = ("sbatch", "squeue", "sacct", "sacctmgr", "scancel", "scontrol", "qsub", "qstat", "qdel")


class Clients:
    """The clients on PATH: what they answer, and how they were called."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        for program in PROGRAMS:
            (directory / program).write_text(CLIENT)
            (directory / program).chmod(0o755)
        self.env = {"PATH": f"{directory}:/usr/bin:/bin", "CALLS": str(directory / "calls")}

    def answer(self, program: str, stdout: str = "", *, code: int = 0, stderr: str = "") -> None:
        (self.directory / f"{program}.json").write_text(json.dumps([code, stdout, stderr]))

    def calls(self) -> list[dict]:
        path = self.directory / "calls"
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.fixture
def clients(tmp_path) -> Clients:
    return Clients(tmp_path / "clients")


SPEC = "command: [./train]\nresources: {nodes: 2, walltime: 1h}\n"


def submit(dlrun: Dlrun, clients: Clients, scheduler: str = "slurm", *more: str, code: int = 0, **env: str):
    spec = dlrun.spec(SPEC + f"site: generic-{scheduler}\n")
    return dlrun("submit", spec, "--job-dir", "job", *more, env=clients.env | env, code=code)


@pytest.mark.parametrize(
    ("scheduler", "program", "said", "job_id", "argv"),
    [
        ("slurm", "sbatch", "4711\n", "4711", ["--parsable", "job.sh"]),
        ("slurm", "sbatch", "Welcome!\n4711;big\n", "4711", ["--parsable", "job.sh"]),
        ("openpbs", "qsub", "12.server\n", "12.server", ["job.sh"]),
        ("torque", "qsub", "13.server\n", "13.server", ["job.sh"]),
    ],
)
def test_submit_is_one_call_from_the_job_directory(dlrun, clients, scheduler, program, said, job_id, argv):
    clients.answer(program, said)
    ran = submit(dlrun, clients, scheduler, SLURM_JOB_ID="1", SBATCH_ACCOUNT="x", PBS_JOBID="2", RANK="3")
    *asked, call, shown = clients.calls()
    assert [one["argv"] for one in asked] == ([["show", "config"]] if scheduler == "slurm" else [])
    assert shown["name"] == ("scontrol" if scheduler == "slurm" else "qstat")
    assert shown["argv"][-1] == job_id
    assert (call["name"], call["argv"], call["cwd"]) == (program, argv, str(dlrun.place / "job"))
    assert not {"SLURM_JOB_ID", "SBATCH_ACCOUNT", "PBS_JOBID", "RANK"} & set(call["env"])
    assert "HOME" in call["env"]
    assert "PBS_JOBID, RANK, SBATCH_ACCOUNT, SLURM_JOB_ID" in ran.stderr
    assert f"as job {job_id}\n" in ran.stdout
    assert json.loads((dlrun.place / "job" / "submission.json").read_text())["job_id"] == job_id


ODD = (
    "%j",
    "%x.%u",
    "%%",
    "a\\b",
    "a b",
    "-o",
    "--",
    "a:b",
    "a,b",
    "$JOB_ID",
    "$PBS_JOBID",
    'it\'s "so"',
    "na\u00efve",
    "#x;y",
    "*",
)


@pytest.mark.parametrize(
    ("scheduler", "mark", "answer"),
    [
        ("openpbs", "#PBS", "12.server\n"),
        pytest.param("torque", "#PBS", "13.server\n", marks=pytest.mark.slow),
        pytest.param("gridengine", "#$", "14\n", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("sweep", ["", pytest.param("sweep: {x: [1, 2]}\n", marks=pytest.mark.slow)])
def test_the_log_is_in_the_job_directory_whatever_its_name_is(dlrun, clients, scheduler, mark, answer, sweep):
    """The path of the log has nothing of the name, and qsub is called where it begins."""
    clients.answer("qsub", answer)
    text = f"command: [./train, '{{{{ x }}}}']\n{sweep}" if sweep else "command: [./train]\n"
    spec = dlrun.spec(
        text + f"resources: {{nodes: 1, walltime: 1h, ranks_per_node: 1}}\nsite: generic-{scheduler}\n"
    )
    for name in ODD:
        dlrun("submit", spec, f"--job-dir={name}", env=clients.env)
        job = dlrun.place / name
        (call,) = [one for one in clients.calls() if one["name"] == "qsub"]
        assert (call["cwd"], call["argv"][-1]) == (str(job), "job.sh"), name
        assert not any(name in word for word in call["argv"][:-1])
        lines = [
            line.split() for line in (job / "job.sh").read_text().splitlines() if line.startswith(f"{mark} -")
        ]
        # Grid Engine counts tasks from 1, so the script opens the log of a task itself.
        of_points = "/dev/null" if scheduler == "gridengine" else "points/^array_index^/logs/job.log"
        (log,) = [line[2] for line in lines if line[1] == "-o"]
        if scheduler != "torque" or not sweep:
            assert log == (of_points if sweep else "logs/job.log"), name
        assert not [line for line in lines if line[1] == "-e"]
        assert [line[2] for line in lines if line[1] == "-j"] == ["y" if scheduler == "gridengine" else "oe"]
        assert (scheduler == "gridengine") == ([mark, "-cwd"] in lines)
        assert (job / ("points/1/logs" if sweep else "logs")).is_dir()


def test_what_the_client_prints_besides_the_id_is_shown_and_kept(dlrun, clients):
    """A submission plug-in moved the job (log_user of job_submit.lua), and a wrapper printed a remark."""
    clients.answer("sbatch", "3 hours left\n4711\n", stderr="sbatch: moved to partition low\n")
    ran = submit(dlrun, clients)
    assert "sbatch: moved to partition low\n" in ran.stderr
    assert "sbatch: 3 hours left\n" in ran.stderr
    record = json.loads((dlrun.place / "job" / "submission.json").read_text())
    assert record["remarks"] == ["moved to partition low", "3 hours left"]
    clients.answer("squeue", f"4711{'|x' * len(QUEUE_FIELDS)}\n")
    shown = dlrun("status", "job", env=clients.env)
    assert "printed: moved to partition low" in shown.stderr


@pytest.mark.slow
def test_what_the_scheduler_changed_is_shown_and_kept(dlrun, clients):
    """A submission plug-in gives the job another partition and half of the time."""
    clients.answer("sbatch", "4711\n")
    clients.answer(
        "scontrol",
        "JobId=4711 JobName=x Account=(null) QOS=normal TimeLimit=00:30:00 Partition=low NumNodes=2-2\n",
    )
    spec = dlrun.spec(SPEC.replace("1h", "1h, partition: gpu") + "site: generic-slurm\n")
    ran = dlrun("submit", spec, "--job-dir", "job", env=clients.env)
    said = "changed the job: partition `low`, not `gpu`; walltime 30m, not 1h"
    assert said in ran.stderr
    record = json.loads((dlrun.place / "job" / "submission.json").read_text())
    assert record["changed"] == ["partition `low`, not `gpu`", "walltime 30m, not 1h"]
    clients.answer("squeue", f"4711{'|x' * len(QUEUE_FIELDS)}\n")
    assert "partition `low`, not `gpu`" in dlrun("status", "job", env=clients.env).stderr
    data = json.loads(dlrun("status", "job", "--json", env=clients.env).stdout)
    assert data["jobs"][0]["scheduler_changed"] == record["changed"]
    dlrun("report", "job", "-o", "report.html", env=clients.env)
    assert "walltime 30m, not 1h" in (dlrun.place / "report.html").read_text()


def test_a_job_whose_directory_is_gone_is_known_by_its_id(dlrun, clients):
    clients.answer("squeue", "4711|RUNNING|None|0|0|2026-11-21T03:04:15|N/A|n[1-2]|\n")
    shown = dlrun("status", "4711", env=clients.env)
    assert "running" in shown.stdout
    assert "n[1-2]" in shown.stdout
    assert "has no job directory" in shown.stderr
    (one,) = json.loads(dlrun("status", "4711", "--json", env=clients.env).stdout)["jobs"]
    assert (one["job_id"], one["directory"], one["runs"][0]["state"]) == ("4711", None, "running")


def test_why_of_an_array_whose_directory_is_gone_has_what_failed_first(dlrun, clients):
    states = ("COMPLETED", "COMPLETED", "FAILED", "FAILED", "RUNNING")
    rows = (f"4711_{task}|{state}|None|0|0|N/A|N/A|n1|\n" for task, state in enumerate(states))
    clients.answer("squeue", "".join(rows))
    shown = dlrun("why", "4711", env=clients.env)
    assert shown.stdout.startswith("4711[2-3] (slurm): failed\nwhy:   it ended as failed; its job directory")
    assert "3 more points differ: `dlrun status 4711` lists all" in shown.stderr
    assert len(json.loads(dlrun("why", "4711", "--json", env=clients.env).stdout)["why"]) == 5
    clients.answer("squeue", "".join(f"4711_{task}|COMPLETED|None|0|0|N/A|N/A|n1|\n" for task in range(3)))
    shown = dlrun("why", "4711", env=clients.env)
    assert shown.stdout.startswith("4711[0-2] (slurm): completed\nwhy:   it ended without an error; ")
    assert "more points" not in shown.stderr


def test_a_check_shows_what_the_client_prints_besides_the_start(dlrun, clients):
    printed = "sbatch: the partition is down\nsbatch: Job 5 to start at 2026-11-21T03:04:15 using 8 processors on nodes n1\n"
    clients.answer("sbatch", stderr=printed)
    spec = dlrun.spec(SPEC + "site: generic-slurm\n")
    ran = dlrun("submit", "--check", spec, env=clients.env)
    assert "sbatch: the partition is down" in ran.stderr
    assert ran.stdout.startswith("2026-11-21T03:04:15")


def test_a_check_names_a_partition_that_starts_no_jobs(dlrun, clients):
    """sbatch --test-only names a time for it, too."""
    printed = "sbatch: Job 5 to start at 2026-11-21T03:04:15 using 8 processors on nodes n1 in partition a\n"
    clients.answer("sbatch", stderr=printed)
    lines = "PartitionName=a Default=YES State=DOWN\nPartitionName=b Default=NO State=UP\n"
    clients.answer("scontrol", lines)
    spec = dlrun.spec(SPEC + "site: generic-slurm\n")
    asked = json.loads(dlrun("submit", "--check", "--json", spec, env=clients.env).stdout)["check"]
    assert asked["start"].startswith("none while the partition a is down")
    several = dlrun("submit", "--check", spec, "--set", "resources.partition=a,b", env=clients.env)
    assert several.stdout == "a: none while it is down, b: 2026-11-21T03:04:15 on n1\n"


def test_a_check_shows_the_start_in_each_of_several_queues(dlrun, clients):
    printed = "sbatch: Job 5 to start at 2026-11-21T03:04:15 using 8 processors on nodes n1\n"
    clients.answer("sbatch", stderr=printed)
    spec = dlrun.spec(SPEC.replace("nodes: 2", "nodes: 2, partition: 'a,b'") + "site: generic-slurm\n")
    ran = dlrun("submit", "--check", spec, env=clients.env)
    assert ran.stdout == "a: 2026-11-21T03:04:15 on n1, b: 2026-11-21T03:04:15 on n1\n"
    asked = [call["argv"] for call in clients.calls() if call["name"] == "sbatch"]
    assert asked == [
        ["--test-only", "job.sh"],
        ["--partition=a", "--test-only", "job.sh"],
        ["--partition=b", "--test-only", "job.sh"],
    ]


@pytest.mark.parametrize(
    "command", [["submit", "--dry-run"], ["plan"], ["render"], ["explain", "WORLD_SIZE"]]
)
def test_looking_at_a_job_asks_no_scheduler(dlrun, clients, command):
    spec = dlrun.spec(SPEC + "site: generic-slurm\n")
    dlrun(*command, spec, env=clients.env)
    assert clients.calls() == []


def test_a_refusal_is_passed_on_with_advice_and_leaves_nothing(dlrun, clients):
    refusal = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n"
    clients.answer("sbatch", code=1, stderr=refusal)
    ran = submit(dlrun, clients, code=1)
    assert ran.stdout == ""
    assert "\nerror: sbatch refused the job: sbatch: error: Batch job submission failed" in ran.stderr
    assert "= help: " in ran.stderr
    assert not (dlrun.place / "job").exists()


@pytest.mark.parametrize(
    ("given", "known", "advice"),
    [
        ("projet", "other\nproject\nproject\n", "did you mean `project`? set `resources.account`; yours: `other`, `project`"),
        ("", "project\n", "set `resources.account`; yours: `project`"),
        ("", "\n", "you have no account on this cluster: ask the centre for one"),
        (
            "project", "other\nproject\n",
            "`project` is yours, but not for this partition: choose another `resources.partition`, or another account",
        ),
        ("projet", None, "name a project that you may use under resources.account; `sacctmgr show associations"),
    ],
)  # fmt: skip
def test_a_wrong_account_is_told_with_those_that_the_user_has(dlrun, clients, given, known, advice):
    refusal = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n"
    clients.answer("sbatch", code=1, stderr=refusal)
    clients.answer("sacctmgr", known or "", code=int(known is None))
    ran = submit(dlrun, clients, "slurm", *(["--set", f"resources.account={given}"] if given else []), code=1)
    assert f" = help: {advice}" in ran.stderr
    (asked,) = [call["argv"] for call in clients.calls() if call["name"] == "sacctmgr"]
    assert asked[-2:] == [f"user={getpass.getuser()}", "format=account"]


def test_another_refusal_asks_for_no_accounts(dlrun, clients):
    clients.answer("sbatch", code=1, stderr="sbatch: error: Invalid partition name specified\n")
    submit(dlrun, clients, code=1)
    assert [call["name"] for call in clients.calls()] == ["scontrol", "sbatch"]


def test_status_of_many_jobs_is_one_call(dlrun, clients):
    spec = dlrun.spec(SPEC + "site: generic-slurm\n")
    for number in (1, 2, 3):
        clients.answer("sbatch", f"{number}\n")
        dlrun("submit", spec, env=clients.env)
    clients.calls()
    rows = [
        {"job": "1", "state": "PENDING", "reason": "Priority"},
        {"job": "2", "state": "RUNNING", "nodes": "n[1-2]"},
        {"job": "3", "state": "RUNNING", "nodes": "n[3-4]"},
    ]
    clients.answer(
        "squeue", "".join("".join(row.get(f, "") + "|" for f in QUEUE_FIELDS) + "\n" for row in rows)
    )
    ran = dlrun("status", env=clients.env)
    (call,) = clients.calls()
    assert "--jobs=" in call["argv"][-1]
    assert sorted(call["argv"][-1].removeprefix("--jobs=").split(",")) == ["1", "2", "3"]
    shown = {line.split()[1]: line for line in ran.stdout.splitlines()[1:]}
    assert "pending (jobs with a higher priority come first)" in shown["1"]
    assert "running" in shown["2"]
    assert "n[3-4]" in shown["3"]


@pytest.mark.parametrize(
    ("state", "code", "expected"), [("COMPLETED", "0:0", 0), ("FAILED", "7:0", 7), ("TIMEOUT", "0:0", 1)]
)
def test_wait_ends_with_the_jobs_own_exit_code(dlrun, clients, state, code, expected):
    clients.answer("sbatch", "9\n")
    clients.answer("squeue", code=1, stderr="slurm_load_jobs error: Invalid job id specified\n")
    said = {
        "job": "9",
        "state": state,
        "code": code,
        "partition": "debug",
        "started": "2026-11-21T08:00:00",
        "ended": "2026-11-21T08:01:00",
    }
    clients.answer("sacct", "|".join(said.get(field, "") for field in HISTORY_FIELDS) + "\n")
    ran = submit(dlrun, clients, "slurm", "--wait", code=expected)
    assert "submitted run to generic-slurm as job 9" in ran.stdout
    assert ("job 9: timed out" in ran.stderr) is (state == "TIMEOUT")


def test_cancel_is_one_call(dlrun, clients):
    clients.answer("sbatch", "9\n")
    submit(dlrun, clients)
    clients.calls()
    assert "cancel requested" in dlrun("cancel", "job", env=clients.env).stderr
    (call,) = clients.calls()
    assert (call["name"], call["argv"]) == ("scancel", ["9"])
    clients.answer("squeue", "9|RUNNING|None|0|0|N/A|N/A|n1|\n")
    clients.answer(
        "scancel", code=1, stderr="scancel: error: Kill job error on job id 9: Access/permission denied\n"
    )
    ran = dlrun("cancel", "job", env=clients.env, code=1)
    assert "could not cancel" in ran.stderr
    assert "Access/permission denied" in ran.stderr


def test_an_id_that_two_jobs_have_is_not_taken_for_one_without_a_record(dlrun, clients):
    """As of two clusters, or of two instances of Flux: the scheduler here may have a third job of this id."""
    clients.answer("sbatch", "9\n")
    submit(dlrun, clients)
    submit(dlrun, clients, "slurm", "--job-dir", "other")
    clients.calls()
    for command in ("cancel", "status"):
        assert "`9` could be any of 2 jobs" in dlrun(command, "9", env=clients.env, code=2).stderr
    assert clients.calls() == []


def test_a_job_whose_directory_is_gone_is_cancelled_by_its_id(dlrun, clients):
    clients.answer("scontrol", "ClusterName = big\n")
    ran = dlrun("cancel", "4711", env=clients.env)
    assert "job 4711 has no record here: cancel requested of slurm on cluster `big`" in ran.stderr
    assert [call["argv"] for call in clients.calls() if call["name"] == "scancel"] == [["4711"]]
    clients.answer(
        "scancel", code=1, stderr="scancel: error: Kill job error on job id 4712: Access/permission denied\n"
    )
    assert "Access/permission denied" in dlrun("cancel", "4712", env=clients.env, code=1).stderr
    clients.calls()
    dlrun("cancel", "no-such-job", env=clients.env, code=2)
    dlrun("hold", "4711", env=clients.env, code=2)
    assert clients.calls() == []


def test_hold_says_of_a_running_job_that_it_has_no_effect(dlrun, clients):
    clients.answer("sbatch", "7\n")
    submit(dlrun, clients)
    clients.calls()
    clients.answer("squeue", "7|RUNNING|None|0|0|N/A|N/A|n1|\n")
    ran = dlrun("hold", "job", env=clients.env)
    assert "job: is running: hold has no effect" in ran.stderr
    assert not [call for call in clients.calls() if call["argv"][:1] == ["hold"]]
    clients.answer("squeue", "7|PENDING|Priority|0|0|N/A|N/A||\n")
    assert "hold requested" in dlrun("hold", "job", env=clients.env).stderr
    assert [call["argv"] for call in clients.calls() if call["argv"][:1] == ["hold"]] == [["hold", "7"]]
