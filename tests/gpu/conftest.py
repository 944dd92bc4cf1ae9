"""dlrun as in `tests/cli`, and a Python with CUDA."""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from tests.cli.conftest import dlrun, preloaded
from tests.gpu import PYTHON

__all__ = ["cuda", "dlrun", "preloaded"]


@cache
def has_cuda() -> bool:
    """Whether PyTorch finds GPUs."""
    program = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return not subprocess.run([PYTHON, "-c", program], capture_output=True, check=False).returncode


@pytest.fixture
def cuda(tmp_path_factory) -> Iterator[str]:
    """A Python with CUDA, for one test at a time: tests that run side by side would see each other's memory."""
    if not has_cuda():
        pytest.skip(f"`torch.cuda.is_available()` is false in {PYTHON} (DLRUN_TEST_CUDA)")
    with (tmp_path_factory.getbasetemp().parent / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield PYTHON
