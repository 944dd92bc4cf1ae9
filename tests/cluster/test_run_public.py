"""Ten public batch scripts on a real Slurm, as they are and with the one line changed: the same ranks with the same words."""

from __future__ import annotations

import importlib.util
import os
import re

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, Partition, why_not
from tests.cluster.jobs import PYTHON, SLURM_SITE, User
from tests.equivalence.run_lines import SCRIPTS, Script

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(why_not()), reason=why_not())]

TRAINING = """\
import os, sys
rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID"))
world = os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS"))
words = [os.path.basename(os.getcwd()), os.environ.get("BATCH_SIZE"), *sys.argv[1:]]
with open("RECORD", "a") as record:
    record.write(f"rank {rank} of {world} on {os.uname().nodename} with {words}\\n")
"""
STAND_INS = {"module": "true", "ml": "true", "conda": "true", "ipython": 'exec python3 "$@"'}
"""Programs of the scripts' own clusters -> what stands in for them."""


@pytest.fixture(scope="module")
def alice():
    spec = ClusterSpec(
        node_types=(NodeType(count=2, gpus=4), NodeType(name="c", count=1)),
        partitions=(
            Partition(name="work", node_types=("n",), default=True, max_time="3-00:00:00"),
            Partition(name="small", node_types=("c",), max_time="3-00:00:00"),
        ),
        slurm_conf=("KillWait=2",),
    )
    cores = {"packages": 2, "cores": 4}
    site = {
        **SLURM_SITE,
        "partitions": {**SLURM_SITE["partitions"], "small": {"node_type": "c"}},
        "node_types": {
            "n": {"topology": {**cores, "gpus": {"count": 4, "numa": [0, 0, 1, 1]}}},
            "c": {"topology": cores},
        },
    }
    with Cluster(spec, name=f"public-{os.getpid()}") as running:
        yield User(running, site)


def ran(alice: User, script: Script, text: str) -> list[str]:
    """What the ranks of a script have recorded."""
    place = alice.directory / re.sub(r"\W", "-", script.source)
    program, record = place / script.program, place / "record"
    for folder in (program.parent, place, place / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
    program.write_text(TRAINING.replace("RECORD", str(record)))
    record.write_text("")
    record.chmod(0o666)
    for name, line in STAND_INS.items():
        (place / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (place / "bin" / name).chmod(0o755)
    (place / "own.sh").write_text(text)
    environment = {
        "DLRUN_SITE": str(alice.directory / "site.yaml"),
        "PATH": f"{place}/bin:{PYTHON}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    }
    done = alice.cluster.on(
        "login", ["sbatch", "--wait", f"--output={place}/log", "own.sh", "--lr", "1"], user="alice",
        env=environment, cwd=str(place), timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + (place / "log").read_text()
    lines = sorted(record.read_text().splitlines())
    if "torchrun" in script.launch:  # its nodes have the order in which they came
        lines = sorted(re.sub(r"^rank \d+", "rank", line) for line in lines)
    return lines


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.source.partition("@")[0])
def test_a_public_script_and_its_one_line_change_start_the_same_ranks(alice, script):
    if "torchrun" in script.launch and importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    wanted = ran(alice, script, script.text)
    assert wanted
    assert ran(alice, script, script.new) == wanted
