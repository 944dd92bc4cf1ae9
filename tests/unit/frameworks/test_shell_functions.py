"""What frameworks lean on in the scripts: addresses in numbers, free ports, variables left to the user, sweeps, ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import processes
from tests.library import LIBRARY, call
from tests.making import LOCAL, plan_of, scripts_of, write_job
from tests.ports import free_port
from tests.unit.frameworks.making import RUN, SSH, only, run_process


def numeric(place, address: str, *, known: str = "", nodes: int = 2) -> str:
    """What `dlrun_numeric` makes of an address, where names resolve to `known`."""
    says = {
        "getent": f"{known} STREAM n1",
        "ip": "2: eth0 inet 10.0.0.7/16 brd 10.0.255.255 scope global",
    }
    programs = {name: f"[ -n '{text.split()[0]}' ] && echo '{text}'" for name, text in says.items()}
    return call(
        place, f"DLRUN_NODES={nodes}; dlrun_source addresses; dlrun_numeric {address}", **programs
    ).stdout


@pytest.mark.parametrize(
    ("address", "known", "nodes", "number"),
    [
        ("n1", "10.0.0.1", 2, "10.0.0.1"),
        ("10.9.9.9", "", 2, "10.9.9.9"),
        ("n1", "127.0.1.1", 2, "10.0.0.7"),  # Debian's /etc/hosts
        ("n1", "127.0.1.1", 1, "127.0.1.1"),
        ("127.0.0.1", "", 2, "10.0.0.7"),
    ],
)
def test_loopback_is_never_handed_to_several_hosts(address, known, nodes, number, tmp_path):
    assert numeric(tmp_path, address, known=known, nodes=nodes) == number


def test_a_process_gives_its_own_hosts_address_whatever_the_environment_says(tmp_path, monkeypatch):
    """A login shell exports HOSTNAME, and launchers carry it to every node."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "getent").write_text('#!/bin/sh\necho "$2 STREAM"\n')
    (tmp_path / "bin" / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    spec = (
        "framework: mxnet\nresources: {nodes: 2}\n"
        'command: [bash, -c, "echo $DMLC_NODE_HOST"]\nenvironment: {variables: {HOSTNAME: login1}}\n'
    )
    told = run_process(tmp_path, spec, "worker", 1, more={"HOSTNAME": "login1"}).split()[-1]
    assert told == os.uname().nodename.partition(".")[0]


def take_ports(place, *, first: int, last: int, count: int = 1, runtime: str | None = None):
    """Take ports of this range, with the locks in `runtime`, and print which."""
    lines = f"""
    XDG_RUNTIME_DIR={runtime or place} DLRUN_MASTER_ADDR=n1
    dlrun_take_ports {first} {last} {count}
    echo "took $DLRUN_MASTER_PORT"
    """
    return call(place, lines, check=False)


@contextmanager
def listener():
    """A port where something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_where_somebody_listens_is_not_taken(tmp_path):
    with listener() as port:
        done = take_ports(tmp_path, first=port, last=port)
        assert (done.returncode, done.stdout) == (
            1,
            f"no free block of 1 ports between {port} and {port} on here\n",
        )
    done = take_ports(tmp_path, first=port, last=port)
    assert (done.returncode, done.stdout) == (0, f"took {port}\n")


def test_a_port_that_another_job_holds_is_not_taken_until_that_is_gone(tmp_path):
    port = free_port()
    locks = tmp_path / f"dlrun-ports-{os.getuid()}"
    locks.mkdir(mode=0o700)
    (locks / str(port)).write_text(f"{os.getpid()}\n")
    assert take_ports(tmp_path, first=port, last=port).returncode == 1
    gone = subprocess.run(["bash", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout
    (locks / str(port)).write_text(gone)
    (locks / f"{port}-{gone.strip()}").write_text(
        "999999999\n"
    )  # one that was killed while it took the place
    assert take_ports(tmp_path, first=port, last=port).stdout == f"took {port}\n"
    assert (locks / str(port)).read_text() != gone
    assert len(list(locks.iterdir())) == 1


def test_jobs_that_start_at_once_where_dead_ones_left_their_locks_take_different_ports(tmp_path):
    first, jobs = 23456, 8
    lines = f"""
    XDG_RUNTIME_DIR={tmp_path} DLRUN_MASTER_ADDR=n1
    _dlrun_port_is_free() {{ :; }} # the locks alone decide, whatever else this machine does
    until [[ -e {tmp_path}/go ]]; do sleep 0.01; done
    dlrun_take_ports {first} {first + jobs - 1} 1
    echo "$DLRUN_MASTER_PORT" >>{tmp_path}/taken
    until (($(wc -l <{tmp_path}/taken) == {jobs})); do sleep 0.05; done
    _dlrun_release_ports
    """
    place = tmp_path / f"dlrun-ports-{os.getuid()}"
    place.mkdir(mode=0o700)
    for _ in range(3):
        for port in range(first, first + jobs):
            (place / str(port)).write_text("999999999\n")
        with ThreadPoolExecutor(jobs) as pool:
            started = [pool.submit(call, tmp_path, lines, timeout=300) for _ in range(jobs)]
            (tmp_path / "go").touch()
            for one in started:
                one.result()
        assert sorted(map(int, (tmp_path / "taken").read_text().split())) == [*range(first, first + jobs)]
        assert not list(place.iterdir())
        (tmp_path / "taken").unlink()
        (tmp_path / "go").unlink()


@pytest.mark.parametrize("where", ["spec", "site"])
def test_variables_of_the_user_or_the_site_are_left_to_them(where, tmp_path):
    spec = "framework: horovod\nresources: {nodes: 2}\n"
    site = SSH
    if where == "spec":
        spec += "environment: {variables: {HOROVOD_CPU_OPERATIONS: ccl}}\n"
    else:
        site += "environment: {variables: {HOROVOD_CPU_OPERATIONS: ccl}}\n"
    plan = plan_of(tmp_path, spec, site)
    told = [v.name for role in plan.roles for v in role.variables]
    assert "HOROVOD_CPU_OPERATIONS" not in told
    assert "HOROVOD_CONTROLLER" in told
    assert "export HOROVOD_CPU_OPERATIONS=ccl" in scripts_of(plan)["job.sh"]


def test_a_sweep_changes_the_command_of_every_role_that_runs_it(tmp_path):
    spec = "framework: mxnet\ncommand: [python, t.py, --lr, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\nresources: {nodes: 2}\n"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["rank.sh"]
    assert script.count("1) dlrun_run python t.py --lr 0.2 ;;") == 3


def test_a_sweep_leaves_services_with_commands_of_their_own(tmp_path):
    spec = "framework: ray\ncommand: [python, t.py, --lr, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\nresources: {nodes: 2}\n"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["rank.sh"]
    assert script.count("1) dlrun_run python t.py --lr 0.2 ;;") == 1
    assert script.count("ray start --address=") == 1


def test_nothing_that_a_program_detaches_outlives_it(tmp_path):
    long = only(977)
    spec = (
        "framework: mpi\nlauncher: intelmpi\nresources: {nodes: 2}\n"
        f'command: [bash, -c, "setsid sleep {long} >/dev/null 2>&1 & echo started"]'
    )
    assert "started" in run_process(tmp_path, spec, "rank", 0)
    assert not processes.matching(f"^sleep {long}$")


def test_a_process_of_another_cluster_that_counts_as_this_one_does_goes_on(tmp_path):
    """Root of a machine sees the processes of all containers on it, and each cluster has a first job."""
    stranger = {
        "PATH": os.environ["PATH"],
        "DLRUN_PROCESS": f"{RUN} rank 0",
        "DLRUN_RUN_DIR": "/srv/elsewhere",
    }
    with subprocess.Popen(["sleep", "600"], env=stranger) as process:
        run_process(
            tmp_path,
            'framework: mpi\nlauncher: intelmpi\ncommand: ["true"]\nresources: {nodes: 2}',
            "rank",
            0,
        )
        code = process.poll()
        process.kill()
    assert code is None


@pytest.mark.parametrize(("variable", "stays", "ends"), [("SLURM_JOB_ID", 976, 975), ("PBS_JOBID", 974, 973)])
def test_a_job_that_a_program_submits_goes_on(variable, stays, ends, tmp_path):
    """Schedulers hand the submitting program's environment to the next job, but its own number."""
    stays, ends = only(stays), only(ends)
    # Until it is itself, a new process has the environment of its parent.
    itself = "until grep -qz ^sleep /proc/$!/cmdline; do sleep 0.05; done"
    act = f"{variable}=8 setsid sleep {stays} >/dev/null 2>&1 & {itself}; "
    act += f"setsid sleep {ends} >/dev/null 2>&1 & {itself}"
    spec = f'framework: mpi\nlauncher: intelmpi\nresources: {{nodes: 2}}\ncommand: [bash, -c, "{act}"]'
    run_process(tmp_path, spec, "rank", 0, more={variable: "7"})
    (pid,) = processes.matching(f"^sleep ({stays}|{ends})$")
    assert (Path("/proc") / str(pid) / "cmdline").read_bytes() == b"sleep\x00%d\x00" % stays
    os.kill(pid, signal.SIGKILL)


def run_job(place, spec: str, *, short_grace: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a whole job on this machine, as the scheduler would."""
    write_job(plan_of(place, spec, LOCAL, directory=str(place)), place)
    for name, (usual, short) in {
        "processes": ("_dlrun_grace=${DLRUN_GRACE:-10} ", "_dlrun_grace=4 "),
        "rank": ("6 * ${DLRUN_GRACE:-10} * 100000000", "500000000"),
    }.items():
        part = place / "lib" / f"{name}.sh"
        assert usual in part.read_text()
        if short_grace:
            part.write_text(part.read_text().replace(usual, short))
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(place)}
    return subprocess.run(
        ["bash", "job.sh"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_graces_of_a_dead_job_add_up_to_less_than_15_seconds():
    """How long a job may live after a process has died is what its library waits; no clock is needed to hold that."""
    parts = ("job", "rank", "left", "processes")
    job, rank, left, processes = ((LIBRARY / f"{name}.sh").read_text() for name in parts)
    ticks = int(re.search(r"\+\+_dlrun_failing > (\d+)\)\); then\s+_dlrun_give_up", job)[1]) + 1
    assert "\n  sleep 1 &\n" in job  # a tick
    grace = int(re.search(r"^_dlrun_grace=\$\{DLRUN_GRACE:-(\d+)\} ", processes, re.MULTILINE)[1])
    assert ticks + grace < 15
    shares = re.search(r"_dlrun_up \+ (\d+) \* \$\{DLRUN_GRACE:-10\} \* 100000000", rank)
    asked = int(shares[1]) * grace / 10
    swept = int(re.search(r"begun >= (\d+)\)\); then signal=KILL", left)[1]) / 1e9
    swept += int(re.search(r"kills < (\d+)", left)[1]) / 10
    assert asked + swept <= grace - 1  # rank.sh ends all that does not listen, before it is itself ended


def test_a_service_that_may_end_must_not_vanish(tmp_path):
    """A server of ps-lite ends by itself when all is done. Here nothing is left that could say that it failed."""
    long = only(978)
    act = f"if [[ $DMLC_ROLE == server ]]; then kill -KILL $PPID; else sleep {long}; fi"
    done = run_job(
        tmp_path, f"framework: mxnet\nresources: {{ranks_per_node: 1}}\ncommand: [bash, -c, '{act}']"
    )
    assert done.returncode == 1, done.stdout
    assert "a service of the job ended early" in done.stdout
    assert not processes.matching(f"^sleep {long}$")


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 6])
def test_services_that_do_not_listen_are_killed_and_the_exit_code_is_the_trainings(code, tmp_path):
    """Parameter servers and workers of TensorFlow serve for ever; here they ignore SIGTERM, too."""
    long = only(971)
    act = (
        f"case $TF_CONFIG in *chief*type*chief*) until [[ -e up ]]; do sleep 0.1; done; exit {code} ;; esac; "
        f'trap "" TERM; touch up; while :; do sleep {long}; done'
    )
    spec = "framework: tensorflow\ntensorflow: {strategy: parameter_server}\nresources: {ranks_per_node: 1}\n"
    done = run_job(tmp_path, f"{spec}command: [bash, -c, '{act}']", short_grace=True)
    assert done.returncode == code, done.stdout
    assert not processes.matching(f"sleep {long}")


@pytest.mark.slow
def test_the_jobs_exit_code_is_that_of_the_service_that_failed(tmp_path):
    act = "if [[ $DMLC_ROLE == server ]]; then exit 5; else sleep 979; fi"
    done = run_job(
        tmp_path, f"framework: mxnet\nresources: {{ranks_per_node: 1}}\ncommand: [bash, -c, '{act}']"
    )
    assert done.returncode == 5, done.stdout
    assert "first failure: server 0" in done.stdout


MASTER = """#!/bin/bash
case $1 in *Master) exec python3 -c '
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    server.accept()
sys.exit(6)' "$5" ;; esac
exec sleep 980
"""
"""A `spark-class` whose master ends as soon as it was seen, and whose workers never register."""


@pytest.mark.slow
def test_a_service_that_fails_while_another_comes_up_ends_the_job(tmp_path):
    """Nobody waits for minutes until workers have found a master that is gone."""
    (tmp_path / "spark-class").write_text(MASTER)
    (tmp_path / "spark-class").chmod(0o755)
    done = run_job(
        tmp_path,
        "framework: spark\nresources: {ranks_per_node: 1}\ncommand: [python3, t.py]\n"
        f"environment: {{setup: ['export PATH={tmp_path}:$PATH']}}\n",
    )
    assert done.returncode == 6, done.stdout
    assert "worker did not come up" in done.stdout
    assert "first failure: master 0" in done.stdout


@pytest.mark.parametrize("runtime", ["/no/such/directory", "relative"])
def test_a_runtime_directory_that_is_not_here_or_not_ours_is_not_used(tmp_path, runtime):
    """Schedulers hand `XDG_RUNTIME_DIR` on to nodes where it does not exist."""
    port = free_port()
    done = take_ports(tmp_path, first=port, last=port, runtime=runtime)
    assert (done.returncode, done.stdout) == (0, f"took {port}\n"), done.stderr
    lock = Path(f"/tmp/dlrun-ports-{os.getuid()}/{port}")
    assert lock.exists()
    lock.unlink()


@pytest.mark.parametrize("squatted", ["owned by another", "a link", "a file"])
def test_where_somebody_has_taken_the_name_of_the_locks_ports_go_on_without(tmp_path, squatted):
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    place = runtime / f"dlrun-ports-{os.getuid()}"
    if squatted == "owned by another":
        place.mkdir()
        if os.getuid():
            pytest.skip("only root can make a directory of somebody else's")
        os.chown(place, 65534, 65534)
    elif squatted == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text("")
    port = free_port()
    done = take_ports(tmp_path, first=port, last=port, runtime=str(runtime))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        f"{place} is not a directory of this user's: ports are taken without locks against other jobs\ntook {port}\n"
    )
    assert not list(tmp_path.glob("elsewhere/*"))


def run_of(place: Path) -> str:
    """The id of a run in /dev/shm, which all tests of this machine share: directories of several processes have one name."""
    return f"{place.name}-{os.getpid()}"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm")
@pytest.mark.parametrize("squatted", ["nothing", "a link", "a directory of another's", "a pipe", "a file"])
def test_the_notes_of_a_nodes_ranks_touch_nothing_that_somebody_else_has_put_there(tmp_path, squatted):
    run = run_of(tmp_path)
    notes, mine = Path(f"/dev/shm/dlrun-{os.getuid()}-{run}"), tmp_path / "thesis"
    mine.mkdir()
    (mine / "placement").write_text("chapter 1\n")
    if squatted == "a link":
        notes.symlink_to(mine)
    elif squatted == "a pipe":
        os.mkfifo(notes)
    elif squatted == "a file":
        notes.touch()
    elif squatted != "nothing":
        if os.getuid():
            pytest.skip("only root can make a directory of somebody else's")
        notes.mkdir(mode=0o777)
        os.chown(notes, 65534, 65534)
    lines = f"""
    DLRUN_RUN_ID={run} DLRUN_LOCAL_SIZE=2 DLRUN_HOST=here DLRUN_ROLE=rank fault=''
    exec {{_dlrun_launcher}}>&1
    dlrun_source checks
    for DLRUN_LOCAL_RANK in 0 1; do
      DLRUN_RANK=$DLRUN_LOCAL_RANK
      _dlrun_report_placement || echo "rank $DLRUN_RANK leaves it to another"
    done
    ls /proc/$BASHPID/fd | wc -l
    """
    before = call(tmp_path, "exec {_dlrun_launcher}>&1; ls /proc/$BASHPID/fd | wc -l").stdout
    try:
        said = call(tmp_path, lines, timeout=60).stdout.splitlines()
    finally:
        left = os.path.lexists(notes)
        if left:
            notes.rmdir() if notes.is_dir() and not notes.is_symlink() else notes.unlink()
    alone = ["dlrun: here: 1 of 1 as planned"] * 2
    together = ["rank 0 leaves it to another", "dlrun: here: 2 of 2 as planned"]
    assert said == [*(together if squatted == "nothing" else alone), before.strip()]
    assert left == (squatted != "nothing")
    assert (mine / "placement").read_text() == "chapter 1\n"


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm")
def test_notes_that_a_rank_waits_for_in_vain_do_not_stay(tmp_path):
    """The other rank was ended before its check, with the whole run, because this one has failed."""
    lines = f"""
    DLRUN_RUN_ID={run_of(tmp_path)} DLRUN_LOCAL_SIZE=2 DLRUN_LOCAL_RANK=0 DLRUN_RANK=0 DLRUN_HOST=here fault=''
    exec {{_dlrun_launcher}}>&1
    dlrun_source checks
    _dlrun_report_placement || ls /dev/shm/dlrun-$UID-$DLRUN_RUN_ID
    _dlrun_forget_placement
    ls -d /dev/shm/dlrun-$UID-$DLRUN_RUN_ID || true
    """
    assert call(tmp_path, lines).stdout.splitlines() == ["placement"]


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no /dev/shm")
def test_a_rank_that_fails_leaves_notes_of_somebody_else_alone(tmp_path):
    run = run_of(tmp_path)
    notes, mine = Path(f"/dev/shm/dlrun-{os.getuid()}-{run}"), tmp_path / "thesis"
    mine.mkdir()
    (mine / "placement").write_text("chapter 1\n")
    notes.symlink_to(mine)
    try:
        call(tmp_path, f"DLRUN_RUN_ID={run}\ndlrun_source checks\n_dlrun_forget_placement")
    finally:
        notes.unlink()
    assert (mine / "placement").read_text() == "chapter 1\n"
