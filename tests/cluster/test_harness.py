"""The test cluster is what it claims: real separate hosts, everything asked for, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster import (
    Cluster,
    ClusterError,
    ClusterSpec,
    NodeType,
    Partition,
    cgroups,
    image,
    init,
    lumi_g_like,
    why_no_pbs,
    why_not,
)
from tests.cluster.__main__ import main
from tests.cluster.cluster import clear
from tests.cluster.hosts import await_true
from tests.cluster.sshd import SECOND_FACTOR

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]


def outside_state(name: str) -> dict[str, str]:
    """What the cluster `name` must not change on the machine: mounts of other clusters come and go meanwhile."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    others = re.compile(rf" /srv/dlrun-(?!{name}/)")
    return {
        "mounts": "\n".join(mount for mount in mounts if not others.search(mount)),
        "interfaces": "\n".join(line.split(":")[1] for line in links.splitlines()),
        "users": Path("/etc/passwd").read_text(),
        "hosts": Path("/etc/hosts").read_text(),
    }


def processes_of(cluster: Cluster) -> list[str]:
    """Command lines that speak of the cluster's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(cluster.root) in line:
                found.append(line)
    return found


def children(parent: int, word: str) -> list[int]:
    """Processes that `parent` started and whose command line has `word` as a word."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            of = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if of == parent and word in (entry / "cmdline").read_text().split("\0"):
                found.append(pid)
    return found


def test_jobs_cross_real_hosts_and_nothing_is_left():
    name = f"cross-{os.getpid()}"
    before = outside_state(name)
    cluster = Cluster(ClusterSpec(), name=name)
    with cluster:
        assert processes_of(cluster)
        named = cluster.on("login", ["srun", "-N4", "hostname"], check=True)
        assert sorted(named.stdout.split()) == ["n1", "n2", "n3", "n4"]
        addressed = cluster.on("login", "srun -N4 ip -br -4 address show eth0", check=True)
        assert sorted(line.split()[2] for line in addressed.stdout.splitlines()) == [
            f"10.141.1.{number}/16" for number in range(1, 5)
        ]
        assert cluster.on("login", ["srun", "id", "-un"], check=True).stdout == "alice\n"
    assert processes_of(cluster) == []
    assert not cluster.root.exists()
    assert outside_state(name) == before


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(node_types=(NodeType(count=2),), outside=("laptop",))
    with Cluster(spec, name=f"harness-{os.getpid()}") as running:
        yield running


def test_hosts_share_homes_but_not_tmp(cluster):
    cluster.on("n1", "echo one > ~/f; echo two > /tmp/f; echo three > /dev/shm/f", check=True)
    assert (cluster.home("alice") / "f").read_text() == "one\n"
    assert (cluster.own_path("n1", "/tmp") / "f").read_text() == "two\n"
    assert cluster.on("n2", "cat ~/f", check=True).stdout == "one\n"
    assert cluster.on("n2", "ls /tmp/f /dev/shm/f").returncode != 0


def test_a_users_home_is_closed_to_the_other(cluster):
    assert cluster.on("login", ["ls", str(cluster.home("alice"))], user="bob").returncode != 0


def test_checkout_and_its_python_are_there_for_ordinary_users(cluster):
    program = "import dlrun, sys; print(sys.executable, dlrun.__file__)"
    seen = cluster.on("n1", [sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True)
    import dlrun

    assert seen.stdout.split() == [sys.executable, dlrun.__file__]


def test_closed_checkout_is_reached_by_ordinary_users(monkeypatch, tmp_path):
    checkout = tmp_path / "home/dlrun"
    checkout.mkdir(parents=True)
    (checkout / "file").write_text("here\n")
    checkout.chmod(0o700)
    checkout.parent.chmod(0o700)
    monkeypatch.setattr(init, "_CHECKOUT", checkout)
    with Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=f"closed-{os.getpid()}") as closed:
        assert closed.on("n1", ["cat", str(checkout / "file")], check=True).stdout == "here\n"


def test_outside_host_reaches_the_cluster_but_is_no_part_of_it(cluster):
    cluster.on("login", "touch ~/only-inside", check=True)
    assert cluster.on("laptop", "ls ~/only-inside").returncode != 0
    assert cluster.on("laptop", ["sinfo"]).returncode != 0
    assert cluster.on("laptop", "exec 3<>/dev/tcp/n1/6818").returncode == 0


def test_machines_own_network_is_out_of_reach(cluster):
    routes = cluster.on("n1", ["ip", "route"], check=True).stdout
    assert "default" not in routes
    assert cluster.on("n1", ["ls", "/sys/class/net"], check=True).stdout.split() == ["eth0", "lo"]


def test_timeout_leaves_no_command_behind(cluster):
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.on("n1", ["sleep", "987"], timeout=0.5)

    def gone():
        return "987" not in cluster.on("n1", ["ps", "-eo", "args"], check=True).stdout

    await_true(gone, 60, "the killed command to be gone")


def test_cut_and_joined_cable(cluster):
    reach = ["timeout", "1", "bash", "-c", "exec 3<>/dev/tcp/n2/6818"]
    cluster.cut("n2")
    assert cluster.on("n1", reach).returncode != 0
    cluster.join("n2")
    await_true(lambda: cluster.on("n1", reach).returncode == 0, 60, "n1 to reach n2 again")


def test_killed_node_comes_back(cluster):
    cluster.kill_node("n2")
    assert cluster.status()["n2"] is False
    with pytest.raises(ClusterError, match=r"n2.*not running"):
        cluster.on("n2", ["true"])
    cluster.start_node("n2")
    run = ["timeout", "20", "srun", "-w", "n2", "hostname"]  # slurmctld may not know yet that it is back
    await_true(lambda: cluster.on("login", run).stdout == "n2\n", 120, "a job to run there")


def test_up_again_is_quick_and_another_spec_is_refused(cluster):
    cluster.on("n1", "touch /tmp/still-here", check=True)
    cluster.up()
    assert cluster.on("n1", ["ls", "/tmp/still-here"]).returncode == 0
    with pytest.raises(ClusterError, match="another spec"):
        Cluster(ClusterSpec(users=("carol",)), name=cluster.name).up()


def test_two_clusters_do_not_meet(cluster):
    with Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=f"second-{os.getpid()}") as second:
        assert second.on("login", ["srun", "hostname"], check=True).stdout == "n1\n"
        assert len(cluster.on("login", ["sinfo", "-hN"], check=True).stdout.splitlines()) == 2
        assert len(second.on("login", ["sinfo", "-hN"], check=True).stdout.splitlines()) == 1
    assert cluster.on("login", ["srun", "-N2", "true"]).returncode == 0


def test_what_a_dead_harness_left_is_cleared():
    cluster = Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=f"dead-{os.getpid()}")
    with cluster:
        (cluster.system / "spec.pickle").unlink()  # the last thing that `up` writes
        cluster.up()
        assert cluster.on("login", ["srun", "hostname"], check=True).stdout == "n1\n"
    assert processes_of(cluster) == []


@pytest.mark.skipif(bool(cgroups.why_not()), reason=cgroups.why_not())
def test_one_with_a_suspended_job_goes_down():
    """The processes of that are frozen, and do not end by a signal."""
    cluster = Cluster(
        ClusterSpec(node_types=(NodeType(count=1),), cgroup=True), name=f"suspended-{os.getpid()}"
    )
    with cluster:
        job = cluster.on(
            "login", "sbatch --parsable -o /dev/null --wrap 'sleep 300'", check=True
        ).stdout.strip()
        await_true(lambda: cluster.on("n1", ["pgrep", "-fx", "sleep 300"]).returncode == 0, 60, "the job")
        cluster.on("login", ["scontrol", "suspend", job], user="root", check=True)
        frozen = "grep -ls FROZEN /sys/fs/cgroup/freezer/*/*/*/*/freezer.state"
        await_true(lambda: cluster.on("n1", frozen, user="root").returncode == 0, 60, "its cgroup to freeze")
    assert processes_of(cluster) == []
    assert not cluster.root.exists()


OWNS = """\
import sys, time
from tests.cluster import Cluster, ClusterSpec, NodeType
with Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=sys.argv[1]):
    print("up", flush=True)
    time.sleep(600)
"""


def owned(name: str) -> tuple[Cluster, subprocess.Popen[str]]:
    """A cluster that is up, and the process that it belongs to."""
    owner = subprocess.Popen([sys.executable, "-c", OWNS, name], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    cluster = Cluster(name=name)
    assert processes_of(cluster)
    return cluster, owner


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_process_that_brought_it_up(number):
    name = f"owned-{os.getpid()}"
    before = outside_state(name)
    cluster, owner = owned(name)
    with owner:
        owner.send_signal(number)
    await_true(lambda: not cluster.root.exists(), 60, "the cluster to be cleared")
    assert processes_of(cluster) == []
    await_true(lambda: outside_state(name) == before, 60, "its mounts to be gone")


def test_the_next_run_clears_what_a_killed_one_left():
    cluster, owner = owned(f"left-{os.getpid()}")
    (watcher,) = children(owner.pid, "watcher")
    with owner:
        os.kill(watcher, signal.SIGKILL)
        owner.kill()
    assert processes_of(cluster)
    with Cluster(ClusterSpec(node_types=(NodeType(count=1),)), name=f"next-{os.getpid()}") as following:
        assert processes_of(cluster) == []
        assert not cluster.root.exists()
        assert processes_of(following)


def test_one_that_stays_has_no_owner(cluster):
    name = f"stays-{os.getpid()}"
    up = [sys.executable, "-m", "tests.cluster", "--name", name, "up", "--nodes", "1"]
    subprocess.run(up, check=True, cwd=Path(__file__).parents[2])
    try:
        clear()
        assert all(Cluster.attach(name).status().values())
        assert all(cluster.status().values())
    finally:
        Cluster(name=name).down()


def test_people_of_this_machine_are_not_in_it():
    files = {
        "passwd": [
            "root:x:0:0::/root:/bin/sh",
            "slurm:x:64030:64030::/:/bin/sh",
            "alice:x:4242:4242::/:/bin/sh",
        ],
        "group": ["root:x:0:", "docker:x:999:alice,eve", "alice:x:4242:"],
        "shadow": ["root:*:1::::::", "alice:!:1::::::"],
    }
    files["passwd"].append("eve:x:7001:7001::/home/eve:/bin/sh")
    assert {name: list(image.without_people(name, lines, ("alice",))) for name, lines in files.items()} == {
        "passwd": ["root:x:0:0::/root:/bin/sh", "slurm:x:64030:64030::/:/bin/sh"],
        "group": ["root:x:0:", "docker:x:999:"],
        "shadow": ["root:*:1::::::"],
    }


def test_failed_start_says_why_and_leaves_nothing():
    cluster = Cluster(ClusterSpec(slurm_conf=("Nonsense=1",)), name=f"broken-{os.getpid()}")
    with pytest.raises(ClusterError, match="Nonsense"):
        cluster.up()
    assert processes_of(cluster) == []
    assert not cluster.root.exists()


def test_cluster_name_is_no_path():
    with pytest.raises(ClusterError, match="not a cluster name"):
        Cluster(name="../etc")


def test_masks_are_kept_as_the_kernel_keeps_them(cluster):
    program = """if True:
        import os, subprocess, threading
        print(os.cpu_count(), len(os.sched_getaffinity(0)))
        os.sched_setaffinity(0, {3, 5, 999})
        subprocess.run(["nproc"])
        subprocess.run(["taskset", "-cp", str(os.getpid())])
        show = 'while read -r key list; do [[ $key == Cpus_allowed_list: ]] && echo "$list"; done <"/proc/$0/status"'
        for process in (str(os.getpid()), "self"):
            subprocess.run(["taskset", "-c", "1-2,6", "bash", "-c", show, process])
        def thread():
            inherited = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {7})
            print(inherited, os.sched_getaffinity(0), os.sched_getaffinity(os.getpid()))
        worker = threading.Thread(target=thread)
        worker.start()
        worker.join()
        if os.fork() == 0:
            print(os.sched_getaffinity(0), flush=True)
            os._exit(0)
        os.wait()
        try:
            os.sched_setaffinity(0, {8})
        except OSError as error:
            print(error.strerror)
    """
    seen = cluster.on("n1", ["python3", "-uc", program], check=True).stdout.splitlines()
    assert seen[:2] == ["8 8", "2"]
    assert seen[2].endswith("current affinity list: 3,5")
    assert seen[3:5] == ["3,5", "1-2,6"]  # of its parent, and of itself
    assert seen[5:] == ["{3, 5} {7} {3, 5}", "{3, 5}", "Invalid argument"]


def test_a_mask_set_while_its_process_begins_is_kept(cluster):
    """As Slurm binds a task: the mask comes from the parent while the child writes down what it inherited."""
    program = """if True:
        import os
        lost = 0
        for _ in range(1000):
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.read(reading, 1)
                os._exit(os.sched_getaffinity(0) != {1})
            os.sched_setaffinity(child, {1})
            os.write(writing, b"x")
            lost += os.waitpid(child, 0)[1] != 0
            os.close(reading), os.close(writing)
        print(lost)
    """
    assert cluster.on("n1", ["python3", "-uc", program], check=True).stdout == "0\n"


def test_node_shows_the_topology_that_it_claims(cluster):
    rows = cluster.on("n1", ["lscpu", "-p=CPU,CORE,SOCKET,NODE"], check=True).stdout.splitlines()
    places = [tuple(map(int, row.split(","))) for row in rows if not row.startswith("#")]
    assert places == [(cpu, cpu, cpu // 4, cpu // 4) for cpu in range(8)]


def test_slurm_binds_tasks_on_the_claimed_cpus(cluster):
    script = "srun -N2 --ntasks-per-node=2 -c4 --cpu-bind=cores bash -c 'taskset -cp $$ | sed s/.*://'"
    for _ in range(5):
        masks = cluster.on("login", script, check=True).stdout.split()
        assert sorted(masks) == ["0-3", "0-3", "4-7", "4-7"]


def test_command_line(cluster, capfd):
    assert main(["--name", cluster.name, "on", "n1", "echo $USER on $(hostname); exit 7"]) == 7
    assert capfd.readouterr().out == "alice on n1\n"
    assert main(["--name", cluster.name, "on", "-u", "root", "login", "echo", "$USER"]) == 0
    assert capfd.readouterr().out == "$USER\n"
    assert main(["--name", "no-such", "status"]) == 1
    assert capfd.readouterr().err == "error: no cluster 'no-such' is up\n"


@pytest.fixture(scope="module")
def rich():
    spec = ClusterSpec(
        node_types=(NodeType(count=2, gpus=4, gpu_type="a100", link_mbit=80, tmp_mib=4),),
        partitions=(
            Partition(name="debug", default=True, priority_tier=2, max_nodes=1),
            Partition(name="scavenge", preempt="requeue"),
        ),
        outside=("gate", "laptop"),
        sshd=True,
        second_factor=("gate",),
        torque=True,
        cgroup=not cgroups.why_not(),
        slurm_conf=("EnforcePartLimits=ALL",),
    )
    with Cluster(spec, name=f"rich-{os.getpid()}") as running:
        yield running


def test_gpus_are_granted_by_index(rich):
    assert "Gres=gpu:a100:4" in rich.on("login", "scontrol show node n1", check=True).stdout
    shown = rich.on("login", "srun --gpus-per-node=2 printenv CUDA_VISIBLE_DEVICES", check=True)
    assert shown.stdout == "0,1\n"


def test_partition_limits_hold(rich):
    refused = rich.on("login", ["srun", "-p", "debug", "-N2", "true"])
    assert "Node count specification invalid" in refused.stderr


def test_higher_tier_requeues_a_scavenging_job(rich):
    submit = "sbatch --parsable -p scavenge -N2 --exclusive --requeue -o /dev/null --wrap 'sleep 300'"
    job = rich.on("login", submit, check=True).stdout.strip()
    state = ["squeue", "-h", "-j", job, "-o", "%T"]
    await_true(lambda: rich.on("login", state).stdout == "RUNNING\n", 60, "the job to run")
    rich.on("login", ["srun", "-p", "debug", "--exclusive", "true"], timeout=120, check=True)
    show = ["scontrol", "show", "job", job]
    await_true(lambda: "Restarts=1" in rich.on("login", show).stdout, 60, "the job to be requeued")
    rich.on("login", ["scancel", job], check=True)


def test_users_move_between_hosts_by_key(rich):
    assert rich.on("login", ["ssh", "n1", "ssh n2 hostname"], check=True).stdout == "n2\n"
    assert rich.on("laptop", ["ssh", "login", "srun hostname"], check=True).stdout in ("n1\n", "n2\n")


def test_second_factor_is_asked_for(rich):
    assert rich.on("laptop", ["ssh", "-o", "BatchMode=yes", "gate", "true"]).returncode == 255
    rich.on("laptop", f"printf '#!/bin/sh\\necho {SECOND_FACTOR}\\n' > ask && chmod +x ask", check=True)
    asking = {"SSH_ASKPASS": f"{rich.home('alice')}/ask", "SSH_ASKPASS_REQUIRE": "force"}
    through = rich.on("laptop", ["ssh", "-J", "gate", "login", "hostname"], env=asking, check=True)
    assert through.stdout == "login\n"


def test_links_are_as_slow_as_asked(rich):
    serve = (
        "import socket; s = socket.create_server(('', 5000)); print('up', flush=True); c = s.accept()[0]\n"
    )
    with rich.popen("n2", ["python3", "-c", serve + "while c.recv(1 << 20): pass"]) as server:
        assert server.stdout.readline() == "up\n"
        send = (
            "import socket, time; c = socket.create_connection(('n2', 5000)); t = time.time()\n"
            "c.sendall(bytes(10_000_000)); c.shutdown(1); c.recv(1); print(time.time() - t)"
        )
        seconds = float(rich.on("n1", ["python3", "-c", send], check=True).stdout)
    assert seconds > 0.9  # 80 Mbit in 1 s, and TCP's own; only a busy machine takes longer


def test_small_tmp_fills_up(rich):
    full = rich.on("n1", "head -c 8M /dev/zero > /tmp/big")
    assert "No space left on device" in full.stderr


def test_torque_wrappers_submit(rich):
    script = "#PBS -N wrapped\nprintenv PBS_JOBNAME\n"
    rich.on("login", "cat > job.pbs", input="#!/bin/bash\n" + script, check=True)
    rich.on("login", "qsub -W block=true -o out job.pbs", check=True)
    await_true(lambda: rich.on("login", ["cat", "out"]).stdout == "wrapped\n", 60, "the job's output")


@pytest.mark.skipif(bool(cgroups.why_not()), reason=cgroups.why_not())
def test_too_much_memory_is_an_outcome_of_its_own(rich):
    eat = "python3 -c 'bytearray(300 << 20)'"
    rich.on("login", ["sbatch", "--wait", "-J", "glutton", "--mem=50M", "-o", "/dev/null", "--wrap", eat])
    assert "JobState=OUT_OF_MEMORY" in rich.on("login", "scontrol show job", check=True).stdout


def test_lumi_like_reserves_cores_and_accounts_for_jobs():
    with Cluster(lumi_g_like(), name=f"lumi-{os.getpid()}") as lumi:
        masks = lumi.on("login", "srun -p dev-g -n2 -c4 bash -c 'taskset -cp $$ | sed s/.*://'", check=True)
        assert sorted(masks.stdout.split()) == ["1,2,65,66", "3,4,67,68"]  # never core 0
        refused = lumi.on("login", ["srun", "-p", "dev-g", "true"], user="bob")
        assert "Invalid account" in refused.stderr
        listing = ["sacct", "-nX", "-o", "account%30,state"]
        expected = ["project_462000001", "COMPLETED"]
        await_true(lambda: lumi.on("login", listing).stdout.split() == expected, 60, "sacct to show the job")


def test_pbs_refuses_what_only_slurm_has(monkeypatch, tmp_path):
    server = tmp_path / "sbin/pbs_server"
    server.parent.mkdir()
    server.touch()
    monkeypatch.setenv("DLRUN_TEST_PBS", str(tmp_path))
    cluster = Cluster(ClusterSpec(scheduler="pbs", cgroup=True, torque=True), name=f"no-pbs-{os.getpid()}")
    with pytest.raises(ClusterError, match="only a Slurm cluster can have cgroup, torque"):
        cluster.up()
    assert not cluster.root.exists()


@pytest.mark.skipif(bool(why_no_pbs()), reason=why_no_pbs())
def test_pbs_job_gets_two_hosts():
    with Cluster(
        ClusterSpec(scheduler="pbs", node_types=(NodeType(count=2),)), name=f"pbs-{os.getpid()}"
    ) as pbs:
        submit = "echo 'cat $PBS_NODEFILE' | qsub -l select=2:ncpus=1 -l place=scatter -W block=true -j oe -o ~/out"
        pbs.on("login", submit, timeout=120, check=True)
        await_true(lambda: pbs.on("login", "sort ~/out").stdout == "n1\nn2\n", 60, "the job's output")
