"""`dlrun run` on this machine, for real."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from tests.cli.conftest import wait_for
from tests.examples import cases
from tests.meeting import ALL_HERE


@pytest.fixture(autouse=True)
def on_this_machine(monkeypatch):
    monkeypatch.setenv("DLRUN_SITE", "workstation")


SHOW = 'echo "rank $RANK of $WORLD_SIZE, $*"'


@pytest.mark.slow
def test_a_command_runs_with_its_output_and_exit_code(dlrun):
    ends = f"{SHOW}; {ALL_HERE}; exit 3"
    ran = dlrun("run", "--ranks-per-node", "2", "--", "bash", "-c", ends, "x", "--lr", "a b", code=3)
    assert ran.stdout == "rank 0 of 2, --lr a b\n"
    assert "failed with exit code 3" in ran.stderr
    ran = dlrun("run", "--ranks-per-node", "2", "--all-ranks", "--name", "both", "--", "bash", "-c", SHOW)
    assert {"[rank 0] rank 0 of 2, ", "[rank 1] rank 1 of 2, "} <= set(ran.stdout.splitlines())
    assert [job["name"] for job in json.loads(dlrun("list", "--json").stdout)["jobs"]] == ["both", "bash"]


@pytest.mark.slow
def test_a_spec_runs_and_its_sweep_point_by_point(dlrun):
    spec = dlrun.spec(
        "command: [echo, 'x is {{ x }}']\nsweep: {grid: {x: [1, 2]}}\nresources: {ranks_per_node: 1}\n"
    )
    assert dlrun("run", spec).stdout == "[0/rank 0] x is 1\n[1/rank 0] x is 2\n"
    shown = json.loads(dlrun("run", spec, "--set", "sweep={}", "--set", "command=[true]", "--json").stdout)[
        "run"
    ]
    assert shown["exit_code"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", cases([signal.SIGINT, signal.SIGHUP, signal.SIGKILL], quick=1), ids=lambda one: one.name
)
def test_a_signal_ends_all_ranks_also_those_that_ignore_it(dlrun, number):
    words = [
        "run",
        "--ranks-per-node",
        "2",
        "--",
        "bash",
        "-c",
        "trap '' TERM; echo begun; sleep 600; sleep 600",
    ]
    # Of a suite under nohup the programs would inherit that SIGHUP is ignored, and dlrun keeps to that.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = dlrun.start(*words)
    signal.signal(signal.SIGHUP, before)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_for(lambda: not dlrun.alive())


def test_what_is_missing_or_too_much(dlrun):
    assert "write `dlrun run -- python train.py x`" in dlrun("run", "python", "train.py", "x", code=2).stderr
    assert "there is nothing to run" in dlrun("run", code=2).stderr
    assert "there is nothing to run" in dlrun("run", "--", code=2).stderr
    assert "a spec and a command" in dlrun("run", "spec.yaml", "--", "true", code=2).stderr
    assert "requests 2 nodes" in dlrun("run", "--nodes", "2", "--", "true", code=2).stderr


def test_a_dry_run_prints_the_scripts(dlrun):
    assert "dlrun_run true" in dlrun("run", "--dry-run", "--", "true").stdout
    assert dlrun("list", "--json").stdout.count("job_id") == 0


def test_without_an_allocation_there_are_two_ways(dlrun):
    site = dlrun.place / "slurm.yaml"
    site.write_text("name: x\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    said = dlrun("run", "--site", str(site), "--", "true", code=2).stderr
    assert "this shell is not in an allocation of slurm" in said
    assert "`--submit`" in said
    assert "`--interactive` gets an allocation first, as `salloc` does" in said
    assert "`--site workstation` runs it on this machine" in said


@pytest.mark.parametrize(
    ("scheduler", "start"),
    [("openpbs", "qsub -I"), ("flux", "flux alloc"), ("gridengine", "qrsh bash -i")],
)
def test_an_allocation_that_takes_no_command_is_to_be_started_by_hand(dlrun, scheduler, start):
    """`--interactive`, which would refuse, is not named. The shell of `qrsh` alone has no variables of its job."""
    site = dlrun.place / "own.yaml"
    more = ", parallel_environment: mpi" if scheduler == "gridengine" else ""
    site.write_text(f"name: x\nscheduler: {{type: {scheduler}{more}}}\nlauncher: {{name: ssh}}\n")
    said = dlrun("run", "--site", str(site), "--", "true", code=2).stderr
    assert f"`{start}` gets an allocation, in which to run this" in said
    assert "--interactive" not in said
    said = dlrun("run", "--interactive", "--site", str(site), "--", "true", code=2).stderr
    assert f"start `{start}`, and run this there" in said


def test_an_allocation_that_has_ended(dlrun, tmp_path):
    site = dlrun.place / "slurm.yaml"
    site.write_text("name: x\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    (tmp_path / "scontrol").write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n"
    )
    (tmp_path / "scontrol").chmod(0o755)
    env = {"SLURM_JOB_ID": "12", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = dlrun("run", "--site", str(site), "--", "true", code=1, env=env).stderr
    assert "the nodes of allocation 12 cannot be found out: slurm_load_jobs error" in said


@pytest.mark.needs("git")
def test_the_change_of_a_script_is_a_patch(dlrun):
    pytest.importorskip("tree_sitter", reason="tree-sitter is not installed")
    script = dlrun.place / "train.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -N2\nsrun --cpu-bind=cores python train.py $X\necho done\n")
    ran = dlrun("import", "--run", "train.sbatch")
    assert "+dlrun run --ranks-per-node 1 -- python train.py $X" in ran.stdout.splitlines()
    assert "dropped: line 3: --cpu-bind=cores: dlrun itself starts and places ranks" in ran.stderr
    dlrun("import", "--run", "train.sbatch", "-o", "new.sbatch")
    subprocess.run(["git", "apply"], input=ran.stdout, text=True, cwd=dlrun.place, check=True)
    assert script.read_text() == (dlrun.place / "new.sbatch").read_text()
    unchanged = dlrun("import", "--run", "new.sbatch", code=1).stderr
    assert "no line with a launcher that `dlrun run` replaces" in unchanged
    script.write_text("srun -n 1-$N python train.py\nsrun python other.py\n")
    shown = json.loads(dlrun("import", "--run", "train.sbatch", "--json", code=5).stdout)["import-run"]
    assert (shown["lines"], [one["line"] for one in shown["unchanged"]]) == (1, [1])


def test_submit_follows_a_job_to_its_end(dlrun):
    ran = dlrun(
        "run",
        "--submit",
        "--ranks-per-node",
        "1",
        "--",
        "bash",
        "-c",
        'echo "lr $*"; exit 4',
        "x",
        "0.1",
        code=4,
    )
    assert "lr 0.1" in ran.stdout
    assert re.search(r"submitted bash to workstation as job \S+; job directory: ", ran.stderr)
    (job,) = json.loads(dlrun("list", "--json").stdout)["jobs"]
    assert [run["state"] for run in job["runs"]] == ["failed"]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "left"), [(1, True), (2, False)])
def test_the_second_interrupt_cancels_a_submitted_job(dlrun, times, left):
    program = ["bash", "-c", "echo begun; exec sleep 600"]
    process = dlrun.start("run", "--submit", "--ranks-per-node", "1", "--", *program)
    for line in process.stdout:
        if "begun" in line:
            break
    process.send_signal(signal.SIGINT)
    for line in process.stderr:
        if "Ctrl-C again cancels the job" in line:
            break
    if times == 2:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    (job,) = dlrun.jobs.glob("[!.]*")
    if left:
        assert dlrun.pid_of("sleep 600")
        dlrun("cancel", job)
    wait_for(lambda: not dlrun.alive())


@pytest.mark.slow
def test_interactive_gets_an_allocation_and_runs_the_same_command_in_it(dlrun, tmp_path):
    """A stand-in of salloc shows its arguments; tests/cluster/test_run.py has Slurm's own."""
    (dlrun.place / "slurm.yaml").write_text("name: x\nscheduler: {type: slurm}\nlauncher: {name: srun}\n")
    (tmp_path / "salloc").write_text('#!/bin/sh\nprintf "<%s>" "$@"; exit 6\n')
    (tmp_path / "salloc").chmod(0o755)
    words = (
        "--site",
        "slurm.yaml",
        "--nodes",
        "2",
        "--ranks-per-node",
        "2",
        "--set",
        "resources.walltime=10m",
        "--interactive",
    )
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    program = ("train", "a b", "--interactive")
    ran = dlrun("run", *words, "--", *program, code=6, env=env, stdin=subprocess.DEVNULL)
    given = re.findall("<(.*?)>", ran.stdout, re.DOTALL)
    assert {"--nodes=2", "--ntasks-per-node=2", "--time=00:10:00"} <= set(given)
    assert not [word for word in given if word.startswith(("--output", "--requeue", "--no-requeue"))]
    assert given[given.index("run") :] == ["run", *words[:-1], "--", *program]
    (tmp_path / "salloc").unlink()
    said = dlrun(
        "run", *words, "--", "true", code=1, env={"PATH": str(tmp_path)}, stdin=subprocess.DEVNULL
    ).stderr
    assert "`salloc` cannot be started: No such file or directory" in said


def test_interactive_needs_a_scheduler_that_gives_allocations(dlrun):
    said = dlrun("run", "--interactive", "--", "true", code=2).stderr
    assert "gives no allocation for one command" in said
    assert "leave out `--interactive`" in said


@pytest.mark.slow
def test_forty_runs_in_a_row_leave_nothing_but_their_directories(dlrun, tmp_path):
    own = [tmp_path / name for name in ("runtime", "temporary")]
    for place in own:
        place.mkdir(mode=0o700)
    env = {"XDG_RUNTIME_DIR": str(own[0]), "TMPDIR": str(own[1])}
    before = set(dlrun.place.iterdir())
    for _ in range(40):
        dlrun("run", "--ranks-per-node", "2", "--", "true", env=env)
    wait_for(lambda: not dlrun.alive())
    assert len(list(dlrun.jobs.glob("[!.]*"))) == 40
    # The directory of the locks itself stays.
    left = [path for place in own for path in place.rglob("*") if path.is_file()]
    assert [path.name for path in left] == [".used"]  # of the directory of compilers' caches
    assert set(dlrun.place.iterdir()) == before
