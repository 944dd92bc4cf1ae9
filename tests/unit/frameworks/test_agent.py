"""Frameworks' own agents, where a spec asks for them: how each is started, and what its ranks are told and spared."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dlrun.frameworks import paddle
from dlrun.frameworks.mpi import horovod
from dlrun.frameworks.torch import accelerate, deepspeed, torch
from dlrun.model.text import Text
from tests import processes
from tests.library import LIBRARY
from tests.making import LOCAL, SLURM, plan_of, scripts_of, write_job
from tests.unit.frameworks.making import RUN, SSH, only, problems, roles, run_process, shape, told, words

PROGRAM = (Text.of("./train"), Text.of("x"))


def agent(framework, *more: str, command=None, **changes):
    """The role of a framework's agent."""
    options = framework.Options(agent=True, agent_arguments=more)
    return roles(framework, options, **({"command": command} if command else {}), **changes)["agent"]


@pytest.mark.parametrize(
    ("framework", "line"),
    [
        (
            paddle,
            (
                "python -m paddle.distributed.launch --master $DLRUN_MASTER_IP:$DLRUN_MASTER_PORT --nnodes 2 "
                "--nproc_per_node 2 --rank $DLRUN_NODE_RANK --host $DLRUN_OWN_ADDRESS --job_id $DLRUN_RUN_ID "
                "--log_dir $DLRUN_RUN_DIR/logs/paddle-$DLRUN_NODE_RANK --more 1 train.py"
            ),
        ),
        (
            deepspeed,
            (
                "python -m deepspeed.launcher.runner --hostfile $(dlrun_hostfile 2 4) --no_ssh --node_rank $DLRUN_NODE_RANK "
                "--master_addr $DLRUN_MASTER_ADDR --master_port $DLRUN_MASTER_PORT --no_local_rank --more 1 train.py"
            ),
        ),
        (
            accelerate,
            (
                "python -m accelerate.commands.launch --multi_gpu --mixed_precision no --dynamo_backend no --same_network "
                "--deepspeed_multinode_launcher standard --num_machines 2 --machine_rank $DLRUN_NODE_RANK --num_processes 4 "
                "--main_process_ip $DLRUN_MASTER_ADDR --main_process_port $DLRUN_MASTER_PORT --more 1 train.py"
            ),
        ),
    ],
)
def test_one_on_each_node(framework, line):
    role = agent(framework, "--more", "1")
    assert (role.place, role.per_node, role.binds) == ("node", 1, False)
    assert words(role.argv) == line


def test_what_is_told_to_agents_is_told_to_their_ranks():
    assert told(agent(paddle)) == {"PADDLE_DISTRI_BACKEND": "gloo"}
    assert told(agent(deepspeed, interface="ib0")) == {"GLOO_SOCKET_IFNAME": "ib0", "DS_ACCELERATOR": "cpu"}
    assert told(agent(accelerate)) == {"ACCELERATE_USE_CPU": "true"}
    assert told(agent(accelerate, gpus_per_node=2)) == {}


@pytest.mark.parametrize(("framework", "option"), [(deepspeed, "--no_python"), (accelerate, "--no_python")])
def test_programs_that_are_no_python_are_started_as_they_are(framework, option):
    assert words(agent(framework, command=PROGRAM).argv).startswith("python3 -m ")
    assert words(agent(framework, command=PROGRAM).argv).endswith(f" {option} ./train x")


def test_accelerate_is_told_once_in_which_way_it_starts_ranks():
    """Its way for one process starts ranks that do not know of one another."""
    assert "--multi_gpu" not in words(agent(accelerate, world_size=1, nodes=1, ranks_per_node=1).argv)
    for own in ("--config_file=fsdp.yaml", "--use_fsdp"):
        assert "--multi_gpu" not in words(agent(accelerate, own, gpus_per_node=2).argv)
        assert "--multi_gpu" in words(agent(accelerate, own).argv)  # without GPUs a file cannot say it
    assert "--mixed_precision" not in words(agent(accelerate, "--config_file", "fsdp.yaml").argv)


def test_horovodrun_starts_rank_scripts():
    found = roles(
        horovod, horovod.Options(agent=True, agent_arguments=("--autotune",)), interface="ib0", world_size=3
    )
    assert words(found["agent"].argv) == (
        "dlrun_without_environment horovodrun -np 3 --hostfile $(dlrun_hostfile 2 3) --gloo --disable-cache "
        "--network-interfaces ib0 --autotune bash -p $DLRUN_JOB_DIR/rank.sh rank"
    )
    assert (found["agent"].place, found["rank"].place, found["rank"].binds) == ("first", "rank", True)
    assert told(found["rank"])["HOROVOD_CONTROLLER"] == "gloo"
    assert " --mpi " in words(roles(horovod, horovod.Options(agent=True), launcher="openmpi")["agent"].argv)
    assert horovod.ports(shape(), horovod.Options(agent=True)) == 0


@pytest.mark.parametrize("framework", [torch, horovod, paddle, deepspeed, accelerate])
def test_its_arguments_alone_start_none(framework):
    assert problems(framework, framework.Options(agent_arguments=("--x",))) == ["DLR041"]
    assert problems(framework, framework.Options(agent=True, agent_arguments=("--x",))) == []


@pytest.mark.parametrize(
    ("framework", "even"),
    [(torch, True), (paddle, True), (accelerate, True), (deepspeed, False), (horovod, False)],
)
def test_who_wants_even_nodes(framework, even):
    assert problems(framework, framework.Options(agent=True), world_size=3) == (["DLR039"] if even else [])
    assert problems(framework, framework.Options(), world_size=3) == []


def test_what_agents_cannot_do():
    assert problems(paddle, paddle.Options(agent=True, mode="parameter_server")) == ["DLR041"]
    assert problems(accelerate, accelerate.Options(agent=True, agent_arguments=("--cpu",))) == ["DLR046"]


def test_the_host_file_has_the_ranks_of_each_host(tmp_path):
    launcher = tmp_path / "bin" / "python"
    launcher.parent.mkdir()
    launcher.write_text('#!/bin/bash\nwhile [[ $1 != --hostfile ]]; do shift; done; cat "$2"\n')
    launcher.chmod(0o755)
    spec = "framework: deepspeed\ndeepspeed: {agent: true}\ncommand: [python, t.py]\n"
    spec += "resources: {nodes: 3, ranks_per_node: 2, ranks: 5}\n"
    path = {"PATH": f"{launcher.parent}:{os.environ['PATH']}"}
    printed = run_process(tmp_path, spec, "agent", 1, hosts=("n1", "n2", "n3"), more=path)
    assert printed.splitlines()[-3:] == ["n1 slots=2", "n2 slots=2", "n3 slots=1"]


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        ("torch: {agent: true}", '--master-port="$DLRUN_MASTER_PORT" t.py --lr 0.2 ;;'),
        ("horovod: {agent: true}", "1) dlrun_run python t.py --lr 0.2 ;;"),
        ("spark: {}", "spark-submit"),
        ("caffe2: {}", "1) dlrun_run python t.py --lr 0.2 --num_shards 2 "),
    ],
)
def test_every_point_of_a_sweep_runs_its_own_command(framework, said, tmp_path):
    spec = f"framework: {framework.partition(':')[0]}\n{framework}\nresources: {{nodes: 2}}\n"
    spec += "command: [python, t.py, --lr, '{{ lr }}']\nsweep: {lr: [0.1, 0.2]}\n"
    script = scripts_of(plan_of(tmp_path, spec, SSH))["rank.sh"]
    points = [
        line for line in script.splitlines() if line.lstrip().startswith(("0) dlrun_run", "1) dlrun_run"))
    ]
    assert len(points) == 2
    assert "t.py --lr 0.1" in points[0]
    assert "t.py --lr 0.2" in points[1]
    assert points[0].replace("0) ", "1) ").replace("0.1", "0.2") == points[1]
    assert said in points[1]


HOROVODRUN = """#!/bin/bash
env >"$DLRUN_RUN_DIR/seen"
stat -c %a "$DLRUN_RUN_DIR/environment" >>"$DLRUN_RUN_DIR/seen"
while [[ $1 != bash ]]; do shift; done
for rank in 0 1; do
  env -u DLRUN_JOB_DIR HOROVOD_RANK=$rank HOROVOD_LOCAL_RANK=$rank "$@" &
done
wait -n || exit 1
wait
"""


def horovodrun_job(place, script: str, command: str) -> subprocess.Popen[str]:
    """A job of two ranks under a stand-in for horovodrun, started."""
    (place / "bin").mkdir()
    program = place / "bin" / "horovodrun"
    program.write_text(script)
    program.chmod(0o755)
    spec = "framework: horovod\nhorovod: {agent: true}\nresources: {ranks_per_node: 2}\n"
    spec += f"command: [bash, -c, '{command}']\n"
    write_job(plan_of(place, spec, LOCAL, directory=str(place)), place)
    path = f"{place}/bin:{os.environ['PATH']}"
    environment = {"PATH": path, "XDG_RUNTIME_DIR": str(place), "PASSPHRASE": 'a "b" $c'}
    return subprocess.Popen(
        ["bash", "job.sh"],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_horovodrun_sees_little_and_its_ranks_everything(tmp_path):
    job = horovodrun_job(tmp_path, HOROVODRUN, 'echo "$DLRUN_RANK $DLRUN_ROLE $OMP_NUM_THREADS $PASSPHRASE"')
    said, _ = job.communicate(timeout=240)
    assert job.returncode == 0, said
    seen = (tmp_path / "seen").read_text()
    assert "PASSPHRASE" not in seen
    assert seen.splitlines()[-1] == "600"
    assert not (tmp_path / "environment").exists()
    for rank in (0, 1):
        line = (tmp_path / "logs" / f"rank-{rank}.log").read_text().splitlines()[-1]
        assert line.split() == [str(rank), "rank", line.split()[2], "a", '"b"', "$c"]


def test_what_a_killed_job_left_of_its_environment_goes_with_the_next_start(tmp_path):
    job = horovodrun_job(tmp_path, HOROVODRUN, "touch begun; sleep 600")
    deadline = time.monotonic() + 240
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    script = psutil.Process(job.pid)
    for process in [script, *script.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # it has ended with the one before it
            process.kill()
    job.communicate(timeout=60)
    assert (tmp_path / "environment").stat().st_mode & 0o777 == 0o600
    page = tmp_path / "job.sh"
    page.write_text(
        re.sub(r"^dlrun_start .*", r"\g<0>\nexit 3", page.read_text(), flags=re.MULTILINE)
    )  # a module is missing
    environment = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    again = subprocess.run(
        ["bash", "job.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert again.returncode == 3, again.stdout + again.stderr
    assert not (tmp_path / "environment").exists()


@pytest.mark.slow
def test_a_rank_of_horovodrun_that_fails_is_named(tmp_path):
    long = only(972)
    job = horovodrun_job(tmp_path, HOROVODRUN, f"if ((DLRUN_RANK)); then exit 7; else sleep {long}; fi")
    said, _ = job.communicate(timeout=240)
    assert job.returncode == 7, said
    assert "first failure: rank 1 on " in said
    assert not processes.matching(f"^sleep {long}$")


LOSES_ITS_CONNECTION = """#!/bin/bash
while [[ $1 != bash ]]; do shift; done
setsid bash -c 'env -u DLRUN_PROCESS HOROVOD_RANK=0 HOROVOD_LOCAL_RANK=0 "$@" & wait' - "$@" &
until grep -qs began "$DLRUN_RUN_DIR/logs/rank-0.log"; do sleep 0.1; done
kill -KILL $!
exit 3
"""


@pytest.mark.slow
def test_a_rank_whose_connection_is_lost_ends(tmp_path):
    """As sshd leaves it: nobody signals it, and no sweep of this node's finds it."""
    job = horovodrun_job(
        tmp_path, LOSES_ITS_CONNECTION, 'echo $$ >"$DLRUN_RUN_DIR/pid"; echo began; exec sleep 973'
    )
    said, _ = job.communicate(timeout=240)
    assert job.returncode == 3, said
    log = tmp_path / "logs" / "rank-0.log"
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 240
    while (alive := Path(f"/proc/{pid}").exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive, log.read_text()
    assert "what had started rank 0 is gone" in log.read_text()


LOST_IN_SET_UP = """#!/bin/bash
DLRUN_JOB_DIR=$1
DLRUN_RANK=0
_dlrun_watch=
source "$1/lib/agent.sh"
dlrun_follow_agent
touch followed
until [[ -e lost ]]; do sleep 0.05; done
_dlrun_watch_agent &
for ((waited = 0; waited < 600; waited++)); do sleep 0.1; done
"""


def test_a_rank_whose_agent_ends_during_its_set_up_ends(tmp_path):
    """Checks, mounts and limits of cores come before the program and what runs beside it; they may take minutes."""
    (tmp_path / "lib").symlink_to(LIBRARY)
    (tmp_path / "rank.sh").write_text(LOST_IN_SET_UP)
    started = [
        "bash",
        "-c",
        'bash rank.sh "$PWD" >rank.log 2>&1 & echo $!; until [[ -e followed ]]; do sleep 0.05; done',
    ]
    agent = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    rank = psutil.Process(int(agent.stdout))
    (tmp_path / "lost").touch()
    rank.wait(30)
    assert (tmp_path / "rank.log").read_text() == "dlrun: what had started rank 0 is gone\n"


@pytest.mark.slow
def test_a_rank_outlives_a_restart_of_sshd_and_no_end_of_its_connection(tmp_path):
    """A service that is restarted leaves its sessions running, as children of another process."""
    (tmp_path / "lib").symlink_to(LIBRARY)
    (tmp_path / "sshd").symlink_to(shutil.which("bash"))
    (tmp_path / "lost").touch()
    (tmp_path / "rank.sh").write_text(LOST_IN_SET_UP)
    (tmp_path / "session").write_text(
        'bash rank.sh "$PWD" >rank.log 2>&1 &\necho $! >new; mv new rank\nwait\n'
    )
    (tmp_path / "service").write_text("./sshd session &\necho $! >first; mv first connection\nwait\n")
    service = subprocess.Popen(["./sshd", "service"], cwd=tmp_path)
    deadline = time.monotonic() + 60
    known = [tmp_path / "rank", tmp_path / "connection"]
    while not all(path.exists() for path in (tmp_path / "followed", *known)) and time.monotonic() < deadline:
        time.sleep(0.05)
    rank, connection = (psutil.Process(int(path.read_text())) for path in known)
    service.kill()
    service.wait(60)
    with pytest.raises(psutil.TimeoutExpired):
        rank.wait(4)
    connection.kill()
    rank.wait(30)


NESTED = f"""#!/bin/bash
# As `deepspeed` does: another launcher below this one, and only below that the ranks.
bash -c 'for rank in 0 1; do LOCAL_RANK=$rank {sys.executable} "$0" & done; wait' "$DLRUN_RUN_DIR/rank.py" &
wait
"""
RANK = """import os, signal, sys
rank = os.environ["LOCAL_RANK"]
def save(*_):
    print("saved", rank, flush=True)
    sys.exit()
signal.signal(signal.SIGUSR1, save)
print("ready", rank, flush=True)
while True:
    signal.pause()
"""


def test_the_early_signal_reaches_the_ranks_below_an_agent(tmp_path):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text(NESTED)
    program.chmod(0o755)
    (tmp_path / "rank.py").write_text(RANK)
    spec = "framework: deepspeed\ndeepspeed: {agent: true}\ncommand: [python, t.py]\ncheckpoint: {signal: USR1}\n"
    spec += "resources: {ranks_per_node: 2, walltime: 1h}\n"
    plan = plan_of(tmp_path, spec, SLURM, directory=str(tmp_path))
    write_job(plan, tmp_path)
    for name in ("logs", "failures", "ended"):
        (tmp_path / name).mkdir()
    (tmp_path / "hosts").write_text("n1\n")
    told_by_job = {
        "DLRUN_JOB_DIR": str(tmp_path), "DLRUN_RUN_DIR": str(tmp_path), "DLRUN_RUN_ID": RUN, "DLRUN_NODES": "1",
        "DLRUN_HOSTS": str(tmp_path / "hosts"), "DLRUN_MASTER_ADDR": "n1", "DLRUN_MASTER_PORT": "20000",
        "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
    }  # fmt: skip
    process = subprocess.Popen(["bash", tmp_path / "rank.sh", "agent"], env=told_by_job, cwd=tmp_path)
    log = tmp_path / "logs" / "agent-0.log"
    deadline = time.monotonic() + 240
    while not log.exists() or log.read_text().count("ready") < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(getattr(signal, f"SIG{plan.checkpoint.carrier}"))
    assert process.wait(240) == 0, log.read_text()
    assert {"saved 0", "saved 1"} <= set(log.read_text().splitlines())
