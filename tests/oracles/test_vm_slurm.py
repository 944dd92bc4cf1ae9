"""Jobs of a real Slurm with control groups (cpuset, version 1 and 2) on a booted node: two jobs beside each other, cores kept by
`CoreSpecCount`, GPUs by `gres` (character devices stand for them). Each launcher starts ranks with its default binding on.

Takes ten minutes, so it runs when asked for: `DLRUN_TEST_VM=1 pytest tests/oracles/test_vm_slurm.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster.install import install, packages, why_not
from tests.cluster.spec import ClusterSpec
from tests.oracles import vm
from tests.oracles.conftest import need

pytestmark = pytest.mark.skipif(
    os.environ.get("DLRUN_TEST_VM") != "1", reason="DLRUN_TEST_VM=1 boots a virtual machine"
)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 2400
FORMS = (
    "srun unbound", "srun", "Open MPI 4", "Open MPI 5", "MPICH", "MPICH by core", "Intel MPI", "Open MPI 4 in srun",
)  # fmt: skip
SCRIPT = r"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TMPDIR=/tmp SLURM_CONF=/run/slurm/slurm.conf
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_oob_tcp_if_include=lo PRTE_MCA_oob_tcp_if_include=lo
ip link set lo up; ip addr add 10.9.0.1/32 dev lo; hostname node
ln -s /proc/self/fd /dev/fd
mkdir -p /run/slurm /tmp/state /tmp/spool /tmp/bin /tmp/out
for daemon in slurmctld slurmd; do ln -s /usr/sbin/$daemon-wlm /tmp/bin/$daemon; done
number=0
for minor in 5 7 8 9; do mknod -m 666 /dev/nvidia$number c 1 $minor; number=$((number + 1)); done
echo "NodeName=node Name=gpu File=/dev/nvidia[0-3]" >/run/slurm/gres.conf

configure() { # NODE_OPTION CONSTRAIN_DEVICES
  cat >/run/slurm/slurm.conf <<END
ClusterName=vm
SlurmctldHost=node(10.9.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/tmp/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,batch_sched_delay=0
GresTypes=gpu
PropagateResourceLimits=NONE
SlurmdTimeout=300
MessageTimeout=100
NodeName=node NodeAddr=10.9.0.1 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000 Gres=gpu:4 $1
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE
END
  printf '%s\n' CgroupPlugin=cgroup/v$VERSION CgroupMountpoint=/sys/fs/cgroup ConstrainCores=yes "ConstrainDevices=$2" \
    >/run/slurm/cgroup.conf
  if [[ $VERSION == 2 ]]; then echo IgnoreSystemd=yes >>/run/slurm/cgroup.conf; fi
}

up() {
  rm -rf /tmp/state/* /tmp/spool/*
  /tmp/bin/slurmctld -f $SLURM_CONF -c; sleep 2; /tmp/bin/slurmd -f $SLURM_CONF -N node
  for try in $(seq 60); do if sinfo -h -o %T | grep -q idle; then return; fi; sleep 2; done
  echo "NOT UP"; tail -n 20 /tmp/slurmd.log
}

ended() {
  for try in $(seq 300); do if [[ -z $(squeue -h) ]]; then break; fi; sleep 2; done
  for log; do cat /tmp/out/$log; done
}

cat >/tmp/show <<'END'
#!/bin/bash
while read -r name value; do if [[ $name == Cpus_allowed_list: ]]; then mask=$value; fi; done </proc/self/status
sleep 1
echo "FORM $1 | mask $mask | threads $OMP_NUM_THREADS | gpus ${CUDA_VISIBLE_DEVICES--} | job $SLURM_JOB_ID"
END
cat >/tmp/job <<END
#!/bin/bash
bind="bash \$1 /tmp/show"
read -r _ granted <<<"\$(grep Cpus_allowed_list /proc/self/status)"
echo "JOB \$SLURM_JOB_ID | granted \$granted | gpus \${CUDA_VISIBLE_DEVICES--}"
srun --mpi=none -n2 --cpu-bind=none \$bind "srun unbound"
srun --mpi=none -n2 -c\$((SLURM_CPUS_ON_NODE / 2)) \$bind "srun"
$OPENMPI -np 2 \$bind "Open MPI 4"
$OPENMPI5 -np 2 \$bind "Open MPI 5"
$HYDRA -launcher fork -n 2 \$bind "MPICH"
$HYDRA -launcher fork -bind-to core -n 2 \$bind "MPICH by core"
$IMPI -launcher fork -n 2 \$bind "Intel MPI"
srun --mpi=none -n1 -c\$SLURM_CPUS_ON_NODE $OPENMPI -np 2 --oversubscribe --mca plm isolated \$bind "Open MPI 4 in srun"
END
chmod +x /tmp/show /tmp/job

if [[ $VERSION == 1 ]]; then
  mount -t tmpfs cgroup /sys/fs/cgroup
  for name in cpuset freezer devices memory cpu,cpuacct; do
    mkdir /sys/fs/cgroup/$name; mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name
  done
else
  mount -t cgroup2 cgroup /sys/fs/cgroup
  mkdir /sys/fs/cgroup/system.slice # without systemd, Slurm has its scope there
  for place in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    echo "+cpuset +cpu +memory" >$place/cgroup.subtree_control
  done
fi
configure "" no; up
echo "=== beside"
sbatch -Q -n2 -c2 --gres=gpu:2 -o /tmp/out/1 /tmp/job $FOLDER/bind.sh
sbatch -Q -n2 -c2 --gres=gpu:2 -o /tmp/out/2 /tmp/job $FOLDER/bind.sh
ended 1 2
scontrol shutdown; sleep 5
configure CoreSpecCount=1 yes; up
echo "=== reserved"
sbatch -Q -n2 --exclusive --gres=gpu:4 -o /tmp/out/3 /tmp/job $FOLDER/cpus.sh
ended 3
echo "=== end"
"""


@pytest.fixture(scope="module", params=["1", "2"])
def parts(request, oracles, tmp_path_factory):
    """What each part of the script printed in the guest, by the version of its control groups."""
    if missing := why_not() or vm.why_not():
        pytest.skip(missing)
    need(oracles, "openmpi", "openmpi5", "hydra", "impi")
    install(packages(ClusterSpec()))
    folder = ROOT / ".cache" / "vm-slurm"
    folder.mkdir(parents=True, exist_ok=True)  # the guest sees this machine's files, but not /tmp
    for name, gpus in (("bind.sh", ", gpus: {numa: [0, 1, 0, 1]}"), ("cpus.sh", "")):
        (folder / "node.yaml").write_text(f"{{packages: 2, cores: 4{gpus}}}\n")
        options = ["--topology", str(folder / "node.yaml"), "--memory", "none", "--ranks-per-node", "2"]
        options += ["--gpus-per-rank", "1" if gpus else "0", "--format", "wrapper"]
        argv = [sys.executable, "-m", "dlrun", "tune-affinity", *options]
        wrapper = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
        (folder / name).write_text(wrapper.stdout)
    names = {
        "OPENMPI": oracles.openmpi,
        "OPENMPI5": oracles.openmpi5,
        "HYDRA": oracles.hydra,
        "IMPI": oracles.impi,
    }
    head = "".join(
        f"{name}={value}\n" for name, value in {**names, "VERSION": request.param, "FOLDER": folder}.items()
    )
    order = tuple((package, core, 0) for package in range(2) for core in range(4))
    text = vm.run(vm.Machine(2, 4, 1, order), head + SCRIPT, tmp_path_factory.mktemp("vm"), patience=PATIENCE)
    found = re.split(r"=== (\w+)\n", text)
    return dict(zip(found[1::2], found[2::2], strict=True))


def jobs(text):
    """Job -> its CPUs and GPUs, and for each form the masks, threads and GPUs of its ranks."""
    granted = {
        job: (set(parse_list(cpus)), gpus)
        for job, cpus, gpus in re.findall(r"JOB (\d+) \| granted (\S+) \| gpus (\S+)", text)
    }
    ranks = re.findall(r"FORM (.+?) \| mask (\S+) \| threads (\d+) \| gpus (\S+) \| job (\d+)", text)
    found = {job: {form: [] for form in FORMS} for job in granted}
    for form, mask, threads, shown, job in ranks:
        found[job][form].append((set(parse_list(mask)), int(threads), shown))
    return granted, found


def test_two_jobs_on_one_node_have_cores_and_gpus_of_their_own(parts):
    granted, found = jobs(parts["beside"])
    assert len(granted) == 2, parts
    assert sorted(len(cpus) for cpus, _ in granted.values()) == [4, 4]
    assert len(set().union(*(cpus for cpus, _ in granted.values()))) == 8
    assert sorted(gpus for _, gpus in granted.values()) == ["0,1", "2,3"]
    for job, (cpus, gpus) in granted.items():
        for form in FORMS:
            (first, one, gpu), (second, two, other) = found[job][form]
            assert (len(first), len(second), first | second) == (2, 2, cpus), (form, found[job][form])
            assert (one, two) == (2, 2), form
            assert sorted((gpu, other)) == gpus.split(","), form


def test_ranks_divide_the_cores_that_core_spec_count_leaves(parts):
    ((cpus, _),), (found,) = (list(one.values()) for one in jobs(parts["reserved"]))
    assert len(cpus) == 7, parts
    for form in FORMS:
        (first, one, _), (second, two, _) = found[form]
        assert (len(first), len(second), len(first | second)) == (3, 3, 6), (form, found[form])
        assert first | second <= cpus, form
        assert (one, two) == (3, 3), form


def test_the_reason_is_in_one_line_of_the_node(parts):
    """Of each start of two ranks; a launcher that binds by itself is named in another."""
    lines = [line for line in parts["reserved"].splitlines() if "was not granted to this job" in line]
    assert len(lines) == len(FORMS), parts["reserved"]
    assert "take all of the job's CPUs" in parts["reserved"]
