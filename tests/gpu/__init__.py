"""Tests on a machine with NVIDIA GPUs, skipped elsewhere.

DLRUN_TEST_CUDA names a Python whose PyTorch uses the GPUs; without one, this Python's is tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

PYTHON = os.environ.get("DLRUN_TEST_CUDA", sys.executable)

needs_gpu = pytest.mark.skipif(
    "CUDA_VISIBLE_DEVICES" in os.environ  # perhaps not all that nvidia-smi lists
    or shutil.which("nvidia-smi") is None
    or subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode != 0,
    reason="no NVIDIA GPU: `nvidia-smi -L` lists none, or CUDA_VISIBLE_DEVICES is set",
)


def ask(column: str) -> list[str]:
    """A column of `nvidia-smi --query-gpu`, for each GPU."""
    words = ["nvidia-smi", f"--query-gpu={column}", "--format=csv,noheader,nounits"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
