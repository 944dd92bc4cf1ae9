"""Jobs on NVIDIA GPUs: placement, memory, causes of failures, NCCL's transport, node checks, and `tune`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlrun.model.cpuset import parse_list
from dlrun.node.checks import node_checks, transport_lines
from dlrun.plan.runtime_checks import VERBOSE
from tests.cli.conftest import Dlrun
from tests.gpu import ask, needs_gpu


def spec(dlrun: Dlrun, python: str, program: str, more: str = "", words: str = "") -> str:
    """A spec that runs a Python program."""
    (dlrun.place / "train.py").write_text(program)
    return f"command: [{json.dumps(python)}, train.py{words}]\n{more}"


SHOWS = """import json, os
print(json.dumps([os.environ.get("CUDA_VISIBLE_DEVICES"), sorted(os.sched_getaffinity(0))]))"""


@needs_gpu
@pytest.mark.parametrize("policy", ["all", "visible"])
def test_each_rank_has_a_gpu_of_its_own_and_cores_near_it(dlrun, policy):
    """With `all`, the default, a program chooses its GPU by LOCAL_RANK."""
    site = f"name: here\nextends: workstation\ngpu_binding: {{policy: {policy}}}\n"
    (dlrun.place / "site.yaml").write_text(site)
    job = dlrun.submit(spec(dlrun, sys.executable, SHOWS, "site: ./site.yaml\n"), "--wait")
    plan = json.loads(dlrun("plan", "spec.yaml", "--json").stdout)
    ranks, count = plan["binding"]["placement"]["ranks"], len(ask("index"))
    assert [one["gpus"] for one in ranks] == [[rank] for rank in range(count)]
    logs = [job / f"logs/rank-{rank}.log" for rank in range(count)]
    seen = [json.loads(log.read_text().splitlines()[-1]) for log in logs]
    visible = {"all": None, "visible": "CUDA_VISIBLE_DEVICES"}[policy]
    assert plan["binding"]["gpu_variable"] == visible
    assert [gpus for gpus, _ in seen] == [visible and str(rank) for rank in range(count)]
    assert [cpus for _, cpus in seen] == [one["mask"] for one in ranks]
    for (_, cpus), address in zip(seen, ask("pci.bus_id"), strict=True):
        near = Path(f"/sys/bus/pci/devices/{address[-12:].lower()}/local_cpulist").read_text()
        # Where this process may use none of them, other cores are as near.
        usable = set(parse_list(near.strip())) & os.sched_getaffinity(0)
        assert not usable or usable >= set(cpus)


HOLDS = """
import os, pathlib, time, torch

def lines():
    return sum(len(file.read_bytes().splitlines()) for file in recording.iterdir())

recording = pathlib.Path(os.environ["DLRUN_RUN_DIR"], "usage")
held = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
before, until = lines(), time.monotonic() + 60
while lines() < before + 2 and time.monotonic() < until:
    time.sleep(0.1)
"""
"""Holds 1 GiB until the job has been measured once more."""


@needs_gpu
@pytest.mark.slow
def test_the_peak_of_gpu_memory_is_recorded(dlrun, cuda):
    others = int(ask("memory.used")[0]) << 20
    job = dlrun.submit(spec(dlrun, cuda, HOLDS, "resources: {ranks_per_node: 1}\n"), "--wait")
    (run,) = json.loads(dlrun("usage", job, "--json").stdout)["usage"]
    assert len(run["use"]["gpus"]) == len(ask("index"))
    assert 1 << 30 <= run["use"]["gpus"][0]["memory"] < (3 << 30) + others


TOO_MUCH = (
    'import torch; torch.ones(torch.cuda.mem_get_info()[1] + (1 << 30), dtype=torch.uint8, device="cuda")'
)


def why(dlrun: Dlrun, text: str) -> str:
    """The cause that `dlrun why` reports of a job that fails."""
    job = dlrun.submit(text, "--wait", code=1)
    (found,) = json.loads(dlrun("why", job, "--json").stdout)["why"]
    return found["cause"]


@needs_gpu
@pytest.mark.slow
def test_more_memory_than_the_gpu_has(dlrun, cuda):
    assert why(dlrun, spec(dlrun, cuda, TOO_MUCH, "resources: {ranks_per_node: 1}\n")) == "gpu-memory"


# https://github.com/akash-network/support/issues/244
HARDWARE = (
    "NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No"
)


@pytest.mark.slow
def test_an_xid_of_the_hardware(dlrun):
    program = f"print({HARDWARE!r})\nraise RuntimeError('CUDA error: unspecified launch failure')\n"
    assert why(dlrun, spec(dlrun, sys.executable, program)) == "gpu-broken"


REDUCES = """
import os, torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
ones = torch.ones(1 << 20, device="cuda")
dist.all_reduce(ones)
print(f"sum {int(ones[0])}\\n", end="", flush=True)  # at once: NCCL's threads write to the same log
dist.destroy_process_group()
"""


@needs_gpu
@pytest.mark.slow
def test_the_transport_that_nccl_logs(dlrun, cuda):
    """A job on one node has no fabric check, so the check's program reads its logs as those of two nodes."""
    if len(ask("index")) < 2:
        pytest.skip("fewer than two GPUs")
    sockets = {"NCCL_NET": "Socket", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    variables = json.dumps(dict(VERBOSE["nccl"]) | sockets)
    more = f"resources: {{ranks_per_node: 2}}\nenvironment: {{variables: {variables}}}\n"
    job = dlrun.submit(spec(dlrun, cuda, REDUCES, more), "--wait")
    assert all("sum 2\n" in (job / f"logs/rank-{rank}.log").read_text() for rank in range(2))
    (dlrun.place / "hosts").write_text("a\nb\n")
    words = [sys.executable, transport_lines.__file__, "warn", "InfiniBand", "ib", "rank", "1", "2", ""]
    env = {"DLRUN_RUN_DIR": str(job), "DLRUN_HOSTS": str(dlrun.place / "hosts")}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "dlrun: fabric: NCCL uses TCP sockets on a, b",
        "dlrun: fabric: rank 0: NCCL uses TCP sockets, but this is InfiniBand",
    ]


@needs_gpu
@pytest.mark.parametrize("missing", [0, 1])
def test_a_node_is_checked_for_its_number_of_gpus(tmp_path, missing):
    count = len(ask("index"))
    wanted = {"memory": None, "space": None, "interfaces": [], "commands": [], "directory": str(tmp_path)}
    plan = {"node_checks": wanted | {"gpus": count + missing}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "nodes/here").mkdir(parents=True)
    words = [sys.executable, node_checks.__file__, "check", "here", "quick"]
    env = os.environ | {"DLRUN_JOB_DIR": str(tmp_path), "DLRUN_RUN_DIR": str(tmp_path)}
    subprocess.run(words, env=env, check=True, timeout=120)
    report = json.loads((tmp_path / "nodes/here/report.json").read_text())
    assert report["problems"] == [f"has {count} of {count + 1} GPUs"] * missing


FEEDS = """
import sys, time, torch
from torch.utils.data import DataLoader

def images(numbers):
    return torch.randn(len(numbers), 3, 64, 64)

model = torch.nn.Conv2d(3, 32, 3).to("cuda")
loader = DataLoader(range(1 << 20), batch_size=64, num_workers=int(sys.argv[1]), collate_fn=images)
begun, seen = time.monotonic(), 0
for batch in loader:
    model(batch.to("cuda")).mean().item()
    seen += len(batch)
    if time.monotonic() - begun > 0.5:
        print(f"throughput: {seen / (time.monotonic() - begun):.0f} samples/s", flush=True)
        begun, seen = time.monotonic(), 0
"""


@needs_gpu
@pytest.mark.slow
def test_loader_workers_are_tuned(dlrun, cuda):
    """Which number wins depends on the machine."""
    more = "name: feeds\nresources: {ranks_per_node: 1}\n"
    dlrun.spec(spec(dlrun, cuda, FEEDS, more, ', "{{ workers }}"'))
    words = "tune spec.yaml --only --try workers=1,2 --length 2s --repeat 1 --budget 0.1"
    dlrun(*words.split())
    shown = json.loads(dlrun("tune", "--show", "feeds-tuning", "--json").stdout)["tune"]
    assert shown["complete"]
    assert {"as planned", "workers=2"} <= {one["candidate"] for one in shown["trials"]}
    assert all(one["value"] > 0 for one in shown["trials"])
