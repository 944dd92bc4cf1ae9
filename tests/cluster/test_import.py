"""A batch script and the job of its import on a real Slurm: the same ranks with the same words on the same nodes."""

from __future__ import annotations

import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import SLURM_SITE, User

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

RECORD = """#!/bin/bash
echo "${SLURM_PROCID:-script} of ${SLURM_NTASKS:-none} on $(uname -n) in ${PWD##*/} with ${MODE:-no mode}: $*" >> RECORD
"""
ASK = """#!/bin/bash
until said=$(exec 3<>/dev/tcp/$1/$2 && cat <&3); do sleep 0.2; done
exec bash record.sh "the server says $said" "${@:3}"
"""
SERVE = """import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
while True:
    server.accept()[0].sendall(b"ready")
"""
PORT = "PORT=$((20000 + SLURM_JOB_ID))"
HEAD = ["#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=2 -t 5"]
SCRIPTS = {
    "a server in the background": [
        *HEAD, PORT, "HOST=$(uname -n)", "python3 serve.py $PORT &", "SERVER=$!", "srun bash ask.sh $HOST $PORT a 'b c'",
        "kill $SERVER",
    ],
    "a server that is left": [*HEAD, PORT, "python3 serve.py $PORT &", "srun -n 2 -N 2 bash ask.sh n1 $PORT a"],
    "programs by rank": [
        *HEAD, "export MODE=many", "cat > programs.conf <<EOF", "0 bash record.sh first %t", "1-3 bash record.sh others %t %o",
        "EOF", "srun --multi-prog programs.conf",
    ],
    "programs beside one another": [
        *HEAD, "srun -N1 -n2 bash record.sh a &", "MODE=b srun -N1 -n1 bash record.sh b &", "wait",
    ],
    "a step with the tasks of the job": [
        "#!/bin/bash", "#SBATCH -N 2 --exclusive -t 5", "srun uname -n > hosts.txt",
        "srun -n 4 --ntasks-per-node=2 bash record.sh $(wc -l < hosts.txt)",
    ],
    "a loop": [
        "#!/bin/bash", "#SBATCH -N 1 -n 1 -t 5", "for i in 1 2 3; do", "  MODE=$i bash record.sh $i &", "done", "wait",
    ],
}  # fmt: skip
"""What each script does -> its lines."""


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(
        node_types=(NodeType(count=2),),
        partitions=(Partition(name="work", default=True, max_time="1-00:00:00"),),
        slurm_conf=("KillWait=2",),
    )
    with Cluster(spec, name=f"import-{os.getpid()}") as running:
        yield User(running, SLURM_SITE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_import_of_a_script_runs_the_same_ranks(alice, name):
    record = alice.directory / "record.log"
    alice.write("record.sh", RECORD.replace("RECORD", str(record)))
    alice.write("ask.sh", ASK)
    alice.write("serve.py", SERVE)
    script = alice.write("own.sh", "\n".join([*SCRIPTS[name], ""]))
    alice.dlrun("init", "--from", str(script), "-o", "own.yaml", "--force")
    for words in (["sbatch", "--wait", str(script)], None):
        record.write_text("")
        record.chmod(0o666)
        if words is not None:
            alice.cluster.on("login", words, user="alice", cwd=str(alice.directory), check=True)
            wanted = sorted(record.read_text().splitlines())
        else:
            job = alice.dlrun("submit", "own.yaml", "--parsable").stdout.strip()
            (run,) = alice.ended(job)
            assert run["state"] == "completed", alice.log(job)
            alice.left_nothing(job, ("n1", "n2"))
    got = sorted(record.read_text().splitlines())
    if name == "programs beside one another":  # Slurm gives each its node as they come
        wanted, got = (sorted(re.sub(r" on n[12] ", " ", line) for line in lines) for lines in (wanted, got))
    assert got == wanted
    assert wanted
