"""Jobs of a real OpenPBS with its cgroup hook (`pbs_cgroups`, control groups of version 1) on a booted node: two jobs beside each
other, with two GPUs each, which the hook shows by UUID (character devices and a program stand for them). Each launcher starts
ranks with its default binding on.

Takes ten minutes, so it runs when asked for: `DLRUN_TEST_VM=1 DLRUN_TEST_PBS=/opt/pbs pytest tests/oracles/test_vm_pbs.py`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.model.cpuset import parse_list
from tests.cluster import pbs
from tests.oracles import vm
from tests.oracles.conftest import need

pytestmark = pytest.mark.skipif(
    os.environ.get("DLRUN_TEST_VM") != "1", reason="DLRUN_TEST_VM=1 boots a virtual machine"
)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 1800
FORMS = ("Open MPI 4", "Open MPI 5", "MPICH", "MPICH by core", "Intel MPI")
SCRIPT = r"""
export PATH=$PBS/bin:$PBS/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TMPDIR=/tmp
ip link set lo up; ip addr add 10.9.0.1/32 dev lo; hostname node
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm /tmp/out /tmp/bin /run/postgresql; chmod 1777 /tmp /dev/shm /run/postgresql
mount -t tmpfs shm /dev/shm; chmod 755 /run
cp -a /etc /tmp/etc; mount --bind /tmp/etc /etc
echo "10.9.0.1 node" >>/etc/hosts
printf '%s\n' PBS_EXEC=$PBS PBS_HOME=/run/pbs PBS_SERVER=node PBS_CORE_LIMIT=0 PBS_START_{SERVER,SCHED,COMM,MOM}=1 >/etc/pbs.conf

mount -t tmpfs cgroup /sys/fs/cgroup
for name in cpuset cpuacct devices memory; do
  mkdir /sys/fs/cgroup/$name; mount -t cgroup -o $name cgroup /sys/fs/cgroup/$name
done

number=0
for minor in 5 7 8 9; do mknod -m 666 /dev/nvidia$number c 1 $minor; number=$((number + 1)); done
cat >/tmp/bin/nvidia-smi <<'END'
#!/bin/bash
buses=(/sys/bus/pci/devices/*)
echo '<?xml version="1.0" ?><nvidia_smi_log>'
for gpu in 0 1 2 3; do
  uuid=GPU-${gpu}e58ca71-6fd1-4c32-bc1e-0f5a9c1f0001
  echo "<gpu id=\"0000${buses[gpu]##*/}\"><minor_number>$gpu</minor_number><uuid>$uuid</uuid></gpu>"
done
echo '</nvidia_smi_log>'
END
chmod +x /tmp/bin/nvidia-smi

$PBS/libexec/pbs_habitat >/tmp/habitat.log 2>&1
printf '%s\n' '$clienthost node' '$usecp *:/ /' >/run/pbs/mom_priv/config
$PBS/libexec/pbs_init.d start >/tmp/start.log 2>&1 </dev/null
for try in $(seq 120); do if qstat -B >/dev/null 2>&1; then break; fi; sleep 1; done
qstat -B || tail -n 30 /tmp/habitat.log /tmp/start.log /run/pbs/server_logs/*
qmgr <<END
set server flatuid = True
set server acl_roots += root@*
set server scheduler_iteration = 5
create resource ngpus type=long,flag=nh
create node node
create queue work queue_type=execution,enabled=True,started=True
set server default_queue = work
import hook pbs_cgroups application/x-config default $FOLDER/hook.json
set hook pbs_cgroups enabled = true
END
sed -i 's/resources: "ncpus/resources: "ngpus, ncpus/' /run/pbs/sched_priv/sched_config
kill -HUP $(cat /run/pbs/sched_priv/sched.lock)
sleep 5
kill -HUP $(cat /run/pbs/mom_priv/mom.lock)
qstat -B >/dev/null || exit
for try in $(seq 120); do if [[ $(pbsnodes -a) == *"state = free"*"ngpus = 4"* ]]; then break; fi; sleep 1; done
pbsnodes -a

cat >/tmp/show <<'END'
#!/bin/bash
while read -r name value; do if [[ $name == Cpus_allowed_list: ]]; then mask=$value; fi; done </proc/self/status
sleep 1
echo "FORM $1 | mask $mask | threads $OMP_NUM_THREADS | gpus ${CUDA_VISIBLE_DEVICES--} | job $PBS_JOBID"
END
cat >/tmp/job <<END
export PATH=$PATH HOME=/tmp TMPDIR=/tmp
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_oob_tcp_if_include=lo PRTE_MCA_oob_tcp_if_include=lo
bind="bash $FOLDER/bind.sh /tmp/show"
read -r _ granted <<<"\$(grep Cpus_allowed_list /proc/self/status)"
echo "JOB \$PBS_JOBID | granted \$granted | gpus \${CUDA_VISIBLE_DEVICES--}"
$OPENMPI -np 2 \$bind "Open MPI 4"
$OPENMPI5 -np 2 \$bind "Open MPI 5"
$HYDRA -launcher fork -n 2 \$bind "MPICH"
$HYDRA -launcher fork -bind-to core -n 2 \$bind "MPICH by core"
$IMPI -launcher fork -n 2 \$bind "Intel MPI"
END
chmod +x /tmp/show
echo "=== beside"
qsub -N one -l select=1:ncpus=4:ngpus=2:mpiprocs=2:mem=1gb -j oe -o /tmp/out/1 -S /bin/bash /tmp/job
qsub -N two -l select=1:ncpus=4:ngpus=2:mpiprocs=2:mem=1gb -j oe -o /tmp/out/2 -S /bin/bash /tmp/job
for try in $(seq 300); do if [[ -z $(qstat) ]]; then break; fi; sleep 2; done
cat /tmp/out/*
echo "=== end"
qstat -f; tail -n 30 /run/pbs/mom_logs/*
"""


@pytest.fixture(scope="module")
def found(oracles, tmp_path_factory):
    """What the jobs printed in the guest."""
    if missing := pbs.why_not() or vm.why_not():
        pytest.skip(missing)
    need(oracles, "openmpi", "openmpi5", "hydra", "impi")
    folder = ROOT / ".cache" / "vm-pbs"
    folder.mkdir(parents=True, exist_ok=True)  # the guest sees this machine's files, but not /tmp
    (folder / "node.yaml").write_text("{packages: 2, cores: 4, gpus: {numa: [0, 1, 0, 1]}}\n")
    options = ["--topology", str(folder / "node.yaml"), "--memory", "none", "--ranks-per-node", "2"]
    argv = [sys.executable, "-m", "dlrun", "tune-affinity", *options, "--gpus-per-rank", "1"]
    wrapper = subprocess.run(
        [*argv, "--format", "wrapper"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (folder / "bind.sh").write_text(wrapper.stdout)
    hook = json.loads((pbs.prefix() / "lib/python/altair/pbs_hooks/pbs_cgroups.CF").read_text())
    hook["nvidia-smi"] = "/tmp/bin/nvidia-smi"
    hook["cgroup"]["devices"] |= {
        "enabled": True,
        "allow": ["b *:* rwm", "c 1:3 rwm", "c 1:11 rwm", "c 5:* rwm", "c 136:* rwm"],
    }
    hook["cgroup"]["memory"] |= {"default": "1GB", "reserve_amount": "0B"}
    (folder / "hook.json").write_text(json.dumps(hook))
    names = {
        "OPENMPI": oracles.openmpi,
        "OPENMPI5": oracles.openmpi5,
        "HYDRA": oracles.hydra,
        "IMPI": oracles.impi,
        "PBS": pbs.prefix(),
        "FOLDER": folder,
    }
    head = "".join(f"{name}={value}\n" for name, value in names.items())
    order = tuple((package, core, 0) for package in range(2) for core in range(4))
    return vm.run(vm.Machine(2, 4, 1, order), head + SCRIPT, tmp_path_factory.mktemp("vm"), patience=PATIENCE)


def test_two_jobs_on_one_node_have_cores_and_gpus_of_their_own(found):
    jobs = {
        job: (set(parse_list(cpus)), gpus)
        for job, cpus, gpus in re.findall(r"JOB (\S+) \| granted (\S+) \| gpus (\S+)", found)
    }
    assert len(jobs) == 2, found
    assert sorted(len(cpus) for cpus, _ in jobs.values()) == [4, 4]
    assert len(set().union(*(cpus for cpus, _ in jobs.values()))) == 8
    shown = [name for _, gpus in jobs.values() for name in gpus.split(",")]
    assert sorted(name[:5] for name in shown) == [f"GPU-{number}" for number in range(4)]
    ranks = re.findall(r"FORM (.+?) \| mask (\S+) \| threads (\d+) \| gpus (\S+) \| job (\S+)", found)
    for job, (cpus, gpus) in jobs.items():
        for form in FORMS:
            own = [rank[1:4] for rank in ranks if (rank[0], rank[4]) == (form, job)]
            assert len(own) == 2, (form, found)
            (first, one, gpu), (second, two, other) = own
            masks = set(parse_list(first)), set(parse_list(second))
            assert (len(masks[0]), len(masks[1]), masks[0] | masks[1]) == (2, 2, cpus), (form, own)
            assert (one, two) == ("2", "2"), form
            assert {gpu, other} == set(gpus.split(",")), form
