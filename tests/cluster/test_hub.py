"""A model of the hub on a real Slurm: fetched once on the login host, staged to all nodes, and found by its name by all ranks."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import SLURM_SITE, User
from tests.cluster.laptop import kill

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
pytest.importorskip(
    "huggingface_hub", reason="huggingface_hub is not installed: it is in the dependency group `hub`"
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SERVE = f"""
import json, threading
from pathlib import Path
from tests.hub import Hub, Repository, serve
hub = Hub({{"models/org/model": Repository("{COMMIT}", {{"config.json": b"{{}}", "weights.bin": bytes(3000000)}})}})
server = serve(hub)
Path("endpoint").write_text(hub.url)
while True:
    threading.Event().wait(0.2)
    Path("asked.new").write_text(json.dumps(hub.gets()))
    Path("asked.new").rename("asked")
"""
TRAIN = """
import os, sys
from huggingface_hub import snapshot_download
place = snapshot_download("org/model")
print(os.environ["DLRUN_RANK"], os.path.getsize(place + "/weights.bin"), os.path.realpath(place), flush=True)
"""


def test_one_request_a_file_for_three_nodes_with_two_ranks():
    spec = ClusterSpec(node_types=(NodeType(count=3),))
    with Cluster(spec, name=f"hub-{os.getpid()}") as cluster:
        storage = {"node_local": {"path": "/tmp", "size": "1GB"}}
        alice = User(cluster, {**SLURM_SITE, "partitions": {"debug": {"default": True}}, "storage": storage})
        alice.write("train.py", TRAIN)
        top = str(Path(__file__).parents[2])
        server = cluster.popen(
            "login", [sys.executable, "-c", SERVE], env={"PYTHONPATH": top}, cwd=str(alice.directory)
        )
        try:
            await_true((alice.directory / "asked").exists, 30, "the hub")
            env = {"HF_ENDPOINT": (alice.directory / "endpoint").read_text()}
            job = alice.submit({
                "command": [sys.executable, "train.py"], "resources": {"nodes": 3, "ranks_per_node": 2, "walltime": "5m"},
                "data": {"model": {"source": f"hf://org/model@{COMMIT}"}},
            }, env=env)  # fmt: skip
            assert [run["state"] for run in alice.ended(job)] == ["completed"], alice.log(job)
            for rank in range(6):
                found = alice.log(job, f"rank-{rank}").split()
                assert found[:2] == [str(rank), "3000000"]
                assert found[2].startswith("/tmp/dlrun-"), "from the node's own storage"
            asked = json.loads((alice.directory / "asked").read_text())
            assert sorted(asked) == sorted(
                f"GET /org/model/resolve/{COMMIT}/{name}" for name in ("config.json", "weights.bin")
            )
        finally:
            kill(server)
