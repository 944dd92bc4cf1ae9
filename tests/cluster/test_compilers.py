"""Real compilers on a real Slurm of 3 nodes × 2 ranks with a /tmp each: what the first job compiles, no other compiles again."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterSpec, NodeType, why_not
from tests.cluster.jobs import PYTHON, User
from tests.cluster.test_caches import SITE, empty
from tests.frameworks.install import InstallError, environment

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

RESOURCES = {"nodes": 3, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "9m"}
HEAD = """
import os, sys, time
place = os.environ[sys.argv[1]]
def is_entry(name):
    return not name.startswith(("tmp", "lock")) and not name.endswith(".lock")  # locks are not kept: each job makes its own
def entries():
    return {os.path.join(at, name) for at, _, names in os.walk(place) for name in names if is_entry(name)}
before, began = entries(), time.monotonic()
"""
END = """
print("compiled" if not before else "added" if entries() - before else "found", f"{time.monotonic() - began:.2f} s", flush=True)
"""
PROGRAMS = {
    "TORCHINDUCTOR_CACHE_DIR": """
import torch
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)))
model(torch.ones(4, 64)).sum().backward()
""",
    "TORCH_EXTENSIONS_DIR": """
from torch.utils.cpp_extension import load_inline
made = load_inline("step", "torch::Tensor step(torch::Tensor x) { return x + 1; }", functions=["step"])
import torch
assert made.step(torch.ones(1)).item() == 2
""",
    "NUMBA_CACHE_DIR": """
from numba import njit
@njit(cache=True)
def step(n):
    total = 0.0
    for i in range(n):
        total += i * 0.5
    return total
assert step(10) == 22.5
""",
    "JAX_COMPILATION_CACHE_DIR": """
import jax, jax.numpy as jnp
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.distributed.initialize()
assert jax.process_count() == 6
assert float(jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((64, 64)))) == 4096
""",
    "TRITON_CACHE_DIR": """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)
types = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
made = triton.compile(ASTSource(fn=add, signature=types, constexprs={"BLOCK": 128}), target=GPUTarget("cuda", 80, 32))
assert made.asm["cubin"]
""",
}
"""By the variable of the cache: a first step. Triton compiles for a GPU that is not there."""


@pytest.fixture(scope="module")
def cluster():
    spec = ClusterSpec(node_types=(NodeType(count=3),), sshd=True)
    with Cluster(spec, name=f"compilers-{os.getpid()}") as running:
        yield running


def virtual_environment(variable: str) -> Path | None:
    """One that has the tool; None for that of the tests."""
    if variable.startswith("TORCH"):
        if importlib.util.find_spec("torch") is None:
            pytest.skip("PyTorch is not installed")
        return None
    try:
        return environment("compilers")
    except InstallError as fault:
        pytest.skip(str(fault))


@pytest.mark.parametrize("variable", PROGRAMS)
def test_the_second_job_compiles_nothing(cluster, variable):
    user = User(cluster, SITE)
    user.write("step.py", HEAD + PROGRAMS[variable] + END)
    venv = virtual_environment(variable)
    spec = {
        "command": ["python" if venv else str(PYTHON / "python"), "step.py", variable],
        "framework": "jax" if variable.startswith("JAX") else "torch",
        "resources": RESOURCES,
        "caches": "auto",
        # Which files below HOME ranks write is seen by their times; bytecode of the libraries is not theirs to keep.
        "environment": {
            **({"venv": str(venv)} if venv else {}),
            "variables": {"PYTHONDONTWRITEBYTECODE": "1", "JAX_PLATFORMS": "cpu"},
        },
    }
    home = cluster.home(user.name)
    before = {path for path in home.rglob("*") if path.is_file()}
    said = []
    for _ in range(2):
        empty(user)
        job = user.submit(spec)
        (only,) = user.ended(job, within=500)
        assert only["state"] == "completed", user.log(job) + user.log(job, "rank-0")
        said.append([user.log(job, f"rank-{rank}") for rank in range(6)])
    first, second = (
        [re.findall(r"^(compiled|added|found) (.*) s$", log, re.MULTILINE)[-1] for log in logs]
        for logs in said
    )
    assert "compiled" in [word for word, _ in first], first
    assert [word for word, _ in second] == ["found"] * 6, (second, user.log(job))
    print(variable, "seconds of the first step, cold:", first, "second job:", second)
    after = {path for path in home.rglob("*") if path.is_file()}
    assert not {path for path in after - before if "dlrun" not in str(path)}
