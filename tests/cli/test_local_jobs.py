"""Jobs on this machine, for real: they run, are followed, end by themselves or are ended, and leave nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for
from tests.examples import cases
from tests.ports import free_port
from tests.programs import works

SLEEPERS = "command: [sleep, '600']\nresources: {ranks_per_node: 2}\n"


def bash(script: str, resources: str = "ranks_per_node: 2") -> str:
    return f"command: [bash, -c, {json.dumps(script)}]\nresources: {{{resources}}}\n"


def log(job: Path, name: str = "job") -> str:
    return (job / "logs" / f"{name}.log").read_text()


def states(dlrun: Dlrun, job: Path) -> list[tuple[str, int | None]]:
    (found,) = json.loads(dlrun("status", job, "--json").stdout)["jobs"]
    return [(run["state"], run["exit_code"]) for run in found["runs"]]


def job_script(dlrun: Dlrun) -> int:
    """The process of the job's script; its functions run in children that look alike."""
    return min(
        int(line.split()[0]) for line in dlrun.alive() if line.endswith("/job.sh") and " bash " in line
    )


def sleepers(dlrun: Dlrun, seconds: int = 600) -> list[int]:
    """The ranks' programs that sleep this long."""
    return [int(line.split()[0]) for line in dlrun.alive() if line.endswith(f" sleep {seconds}")]


def running(dlrun: Dlrun, ranks: int = 2) -> None:
    """Wait until every rank of a job of sleepers has been started."""
    wait_for(lambda: len(sleepers(dlrun)) == ranks)


@pytest.mark.slow
def test_wait_follows_the_log_and_passes_the_exit_code_on(dlrun):
    ran = dlrun(
        "submit",
        dlrun.spec(
            bash(
                "echo hello from $RANK of $WORLD_SIZE; touch said-$RANK; "
                "((RANK == 0)) || { until [[ -e said-0 ]]; do sleep 0.1; done; exit 7; }"
            )
        ),
        "--wait",
        code=7,
    )
    lines = ran.stdout.splitlines()
    job = Path(lines[1].removeprefix("job directory: "))
    assert lines[0].startswith("submitted run to workstation as job ")
    assert "hello from 0 of 2" in lines
    assert "hello from 1 of 2" not in lines
    assert any("first failure: rank 1 on " in line and "exit code 7" in line for line in lines)
    assert any(f"; by time alone, `dlrun why {job.name}` finds the cause; " in line for line in lines)
    late = (job / "failures" / "rank-1").read_text().splitlines()[1]  # ns after its launch
    assert 0 < int(late) < 60e9
    assert log(job, "rank-1") == "hello from 1 of 2\n"
    assert states(dlrun, job) == [("failed", 7)]
    assert not dlrun.alive()


def test_a_job_that_ends_well(dlrun):
    job = dlrun.submit(bash("true"), "--wait")
    assert states(dlrun, job) == [("completed", 0)]
    assert dlrun("status", "latest").stdout.splitlines()[1].split()[3:5] == ["completed", "0"]
    assert dlrun("status").stdout == ""


@pytest.mark.slow
def test_a_job_outlives_the_command_that_submitted_it(dlrun):
    job = dlrun.submit(bash("until [[ -e go ]]; do sleep 0.1; done; echo done"))
    assert dlrun.alive()
    assert states(dlrun, job) in ([("pending", None)], [("running", None)])
    assert job.name in dlrun("status").stdout
    (dlrun.place / "go").touch()
    follower = dlrun("logs", "-f", job.name)
    assert "done" in follower.stdout.splitlines()
    assert states(dlrun, job) == [("completed", 0)]
    assert not dlrun.alive()


@pytest.mark.slow
def test_a_job_outlives_the_terminal_of_the_command_that_submitted_it(dlrun):
    with dlrun.start("submit", dlrun.spec(SLEEPERS), start_new_session=True) as process:
        process.communicate(timeout=120)
    running(dlrun)
    with suppress(ProcessLookupError):  # nobody is left in the command's process group
        os.killpg(process.pid, signal.SIGKILL)
    time.sleep(0.5)
    running(dlrun)
    dlrun("cancel", "latest")


@pytest.mark.slow
def test_cancel_leaves_nothing(dlrun):
    job = dlrun.submit(SLEEPERS)
    running(dlrun)
    assert "cancelled" in dlrun("cancel", job.name).stderr
    assert not dlrun.alive()
    assert states(dlrun, job) == [("cancelled", 143)]
    assert "had ended already" in dlrun("cancel", job.name).stderr


STUBBORN = """\
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:  # a daemon, as the books say: a session of its own, and no parent
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
os.wait()
open(f"ready-{os.environ['RANK']}", "w").close()
time.sleep(600)
"""


@pytest.mark.slow
def test_cancel_ends_programs_that_ignore_it_and_daemons(dlrun):
    (dlrun.place / "stubborn.py").write_text(STUBBORN)
    job = dlrun.submit("command: [python3, stubborn.py]\nresources: {ranks_per_node: 2}")
    wait_for(lambda: len(list(dlrun.place.glob("ready-*"))) == 2)
    assert sum("stubborn.py" in line for line in dlrun.alive()) == 4
    dlrun("cancel", job.name)
    assert not dlrun.alive()
    assert states(dlrun, job)[0][0] == "cancelled"


@pytest.mark.slow
def test_a_daemon_does_not_outlive_a_job_that_ends_by_itself(dlrun):
    job = dlrun.submit(bash("setsid sleep 600 & sleep 0.5", "ranks_per_node: 1"), "--wait")
    assert not dlrun.alive()
    assert states(dlrun, job) == [("completed", 0)]


@pytest.mark.slow
def test_the_walltime_ends_a_job(dlrun):
    ran = dlrun("submit", dlrun.spec(SLEEPERS), "--set", "resources.walltime=1s", "--wait", code=None)
    assert ran.code not in (0, 2, 3)
    assert "the walltime was exceeded" in ran.stdout
    assert not dlrun.alive()
    assert (
        states(dlrun, Path(dlrun("logs", "latest", "--rank", "job", "--paths").stdout).parent.parent)[0][0]
        == "timed out"
    )


def narrow(dlrun: Dlrun, first: int, last: int) -> str:
    """The line that names a site with these ports alone."""
    rules = f"{{address: loopback, ports: [{first}, {last}]}}"
    text = f"name: narrow\nscheduler: {{type: local}}\nlauncher: {{name: local}}\nrendezvous: {rules}\n"
    (dlrun.place / "narrow.yaml").write_text(text)
    return "site: ./narrow.yaml\n"


@pytest.mark.slow
def test_two_jobs_at_once_meet_at_ports_of_their_own(dlrun):
    port = free_port("", block=2)
    spec = SLEEPERS + narrow(dlrun, port, port + 1)
    jobs = [dlrun.submit(spec), dlrun.submit(spec)]
    running(dlrun, 4)  # and none of them has bound its port yet
    assert {(job / "rendezvous").read_text().split()[1] for job in jobs} == {str(port), str(port + 1)}
    ran = dlrun("submit", dlrun.spec(spec), "--wait", code=1)
    assert f"no free block of 1 ports between {port} and {port + 1}" in ran.stdout
    os.kill(dlrun.pid_of(f"supervise.py {jobs[0]}"), signal.SIGKILL)
    dlrun("cancel", jobs[1])
    wait_for(lambda: not dlrun.alive())
    dlrun.submit(spec.replace("sleep, '600'", "'true'"), "--wait")


@pytest.mark.slow
def test_a_port_that_somebody_else_has_is_passed_over(dlrun):
    port = free_port("", block=2)
    spec = bash("echo port $MASTER_PORT", "ranks_per_node: 1") + narrow(dlrun, port, port + 1)
    with socket.create_server(("", port)):
        assert f"port {port + 1}" in dlrun("submit", dlrun.spec(spec), "--wait").stdout.splitlines()
        with socket.create_server(("", port + 1)):
            assert "no free block" in dlrun("submit", dlrun.spec(spec), "--wait", code=1).stdout


@pytest.mark.slow
def test_a_killed_rank_ends_the_job(dlrun):
    job = dlrun.submit(bash("if ((RANK == 1)); then exec sleep 599; else exec sleep 600; fi"))
    (victim,) = wait_for(lambda: sleepers(dlrun, 599))
    running(dlrun, 1)
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: states(dlrun, job)[0][0] == "failed")
    assert states(dlrun, job) == [("failed", 137)]
    assert "first failure: rank 1 on" in log(job)
    assert "exit code 137" in log(job)
    wait_for(lambda: not dlrun.alive())


@pytest.mark.slow
def test_a_killed_rank_script_ends_the_job_too(dlrun):
    job = dlrun.submit(SLEEPERS)
    running(dlrun)
    script = next(line for line in dlrun.alive() if "rank.sh rank" in line)
    os.kill(int(script.split()[0]), signal.SIGKILL)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == [("failed", 137)]


@pytest.mark.slow
def test_a_killed_job_script_takes_its_ranks_along(dlrun):
    job = dlrun.submit(SLEEPERS)
    running(dlrun)
    os.kill(job_script(dlrun), signal.SIGKILL)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == [("failed", 137)]


@pytest.mark.slow
def test_a_killed_supervisor_takes_the_job_along(dlrun):
    job = dlrun.submit(SLEEPERS)
    running(dlrun)
    os.kill(dlrun.pid_of("supervise.py"), signal.SIGKILL)
    wait_for(lambda: not dlrun.alive())
    assert states(dlrun, job) == [("failed", 143)]


CHECKPOINT = """\
import os, signal, sys, time
def save(number, frame):
    open(f"saved-{os.environ['RANK']}", "w").close()
    sys.exit(0)
signal.signal(signal.{signal}, save)
open(f"ready-{os.environ['RANK']}", "w").close()
while True:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("name", cases(["USR2", "HUP", "INT", "TERM"], quick=0))
def test_any_early_signal_reaches_the_ranks(dlrun, name):
    (dlrun.place / "train.py").write_text(CHECKPOINT.replace("{signal}", f"SIG{name}"))
    spec = "command: [python3, train.py]\nresources: {ranks_per_node: 2, walltime: 90s}\n"
    ran = dlrun(
        "submit", dlrun.spec(f"{spec}checkpoint: {{signal: {name}, before_end: 60s}}"), "--wait", code=None
    )
    assert sorted(path.name for path in dlrun.place.glob("saved-*")) == ["saved-0", "saved-1"], ran.stdout
    assert f"SIG{name} to the ranks" in ran.stdout
    assert not dlrun.alive()


@pytest.mark.slow
def test_a_sweep_runs_each_point_with_its_own_values(dlrun):
    spec = bash("echo lr=$0 seed=$1; test $1 != bad", "ranks_per_node: 1")
    spec = spec.replace('"]', '", "{{ lr }}", "{{ seed }}"]') + "sweep: {lr: [0.1, 1e-4], seed: [a, bad]}\n"
    ran = dlrun("submit", dlrun.spec(spec), "--wait", code=1)
    job = Path(ran.stdout.split("job directory: ")[1].splitlines()[0])
    told = [(job / "points" / str(i) / "logs" / "rank-0.log").read_text().strip() for i in range(4)]
    assert told == ["lr=0.1 seed=a", "lr=0.1 seed=bad", "lr=1e-4 seed=a", "lr=1e-4 seed=bad"]
    assert states(dlrun, job) == [("completed", 0), ("failed", 1), ("completed", 0), ("failed", 1)]
    assert "[2/rank 0] lr=1e-4 seed=a" in ran.stdout.splitlines()
    assert dlrun("status", job).stdout.count("failed") == 2


@pytest.mark.slow
def test_one_point_of_a_sweep_is_ended_and_another_never_started(dlrun):
    spec = bash("[[ $0 == quick ]] || sleep 600; echo done", "ranks_per_node: 1")
    job = dlrun.submit(spec.replace('"]', '", "{{ x }}"]') + "sweep: {x: [slow, never, quick]}\n")
    wait_for(lambda: len(sleepers(dlrun)) == 1)
    assert dlrun("cancel", f"{job.name}:1", f"{job.name}:0").stderr.splitlines() == [
        f"{job.name}:1: cancelled",
        f"{job.name}:0: cancelled",
    ]
    wait_for(lambda: not dlrun.alive())
    assert "2 cancelled, 1 completed" in dlrun("list").stdout
    assert [state for state, _ in states(dlrun, job)] == ["cancelled", "cancelled", "completed"]
    assert not (job / "points" / "1" / "logs" / "rank-0.log").exists()
    assert dlrun("cancel", f"{job.name}:2").stderr == f"{job.name}:2: had ended already\n"
    assert "no point 3" in dlrun("cancel", f"{job.name}:3", code=2).stderr


def test_check_says_that_the_job_would_start(dlrun):
    spec = dlrun.spec(bash("true"))
    ran = dlrun("submit", spec, "--check")
    assert ran.stdout == "at once, on this machine\n"
    assert "nothing was submitted" in ran.stderr
    asked = json.loads(dlrun("submit", spec, "--check", "--json").stdout)["check"]
    assert asked == {"accepted": True, "start": "at once, on this machine"}
    assert not dlrun.jobs.exists()


@pytest.mark.slow
def test_a_cancelled_sweep_starts_no_further_point(dlrun):
    job = dlrun.submit(SLEEPERS + "sweep: {x: [a, b, c]}\n")
    running(dlrun)
    dlrun("cancel", job)
    assert not dlrun.alive()
    assert [state for state, _ in states(dlrun, job)] == ["cancelled"] * 3


TOOLS = (
    "bash awk cat cksum cut date env getent grep head hostname id ip ln mkdir mktemp mv paste readlink rm rmdir "
    "sed sleep sort tail taskset tr uname"
)
"""What coreutils, util-linux and their like have on every node: no Python, and no dlrun."""


@pytest.mark.slow
def test_a_job_needs_no_dlrun_and_no_python(dlrun, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS.split():
        if found := shutil.which(tool):
            (tools / tool).symlink_to(found)
    if not works("ip", path=str(tools)):
        (tools / "ip").unlink(missing_ok=True)  # not every node has it
    dlrun(
        "render",
        dlrun.spec(bash("type dlrun python3 python; echo rank $RANK bound; exit 3")),
        "-o",
        "by hand",
    )
    job = dlrun.place / "by hand"
    done = subprocess.run(["/bin/bash", "job.sh"], cwd=job, env={"PATH": str(tools), dlrun.mark: "1"}, check=False,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    told = log(job, "rank-0")
    assert told.count("not found") == 3
    assert "rank 0 bound" in told
    assert "dlrun: rank" not in told
    assert json.loads((job / "state.json").read_text())["exit_code"] == 3
    assert done.stderr == ""


@pytest.mark.slow
def test_a_variable_of_the_node_is_expanded_there_as_one_word(dlrun):
    dlrun.spec(
        """\
command: [bash, -c, 'echo "<$0> <$CACHE>"', "{{ env.SCRATCH_HERE }}/ckpt"]
environment: {variables: {CACHE: "{{ env.SCRATCH_HERE }}/cache {{ nodes }}"}}
resources: {ranks_per_node: 1}
"""
    )
    done = dlrun("submit", "spec.yaml", "--wait", env={"SCRATCH_HERE": "/scratch/a  b$c"})
    assert "</scratch/a  b$c/ckpt> </scratch/a  b$c/cache 1>" in done.stdout
    dlrun.spec(
        """\
run: echo "<"{{ env.SCRATCH_HERE }}"/ckpt>" '{{ env.SCRATCH_HERE }}' $SCRATCH_HERE
resources: {ranks_per_node: 1}
"""
    )
    done = dlrun("submit", "spec.yaml", "--wait", env={"SCRATCH_HERE": "/scratch/a b"})
    assert "</scratch/a b/ckpt> /scratch/a b /scratch/a b" in done.stdout
    assert dlrun("submit", "spec.yaml", "--wait", code=None).code != 0
    assert "no variable of this name is set on the node" in dlrun("why").stdout


def test_home_is_written_out_in_every_path(dlrun, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file").write_text("x")
    dlrun.spec(
        """\
command: [cat, "{{ data.a }}/file", "{{ data.b }}/file"]
data: {a: $HOME/set, b: "${HOME}/set"}
resources: {ranks_per_node: 1}
"""
    )
    done = dlrun("submit", "spec.yaml", "--wait", env={"HOME": str(tmp_path)})
    assert "xx" in done.stdout
