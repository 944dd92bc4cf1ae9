"""Tests on a machine with NVIDIA GPUs, skipped elsewhere.

DLRUN_TEST_CUDA names a Python whose PyTorch uses the GPUs; without one, this Python's is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PYTHON = os.environ.get("DLRUN_TEST_CUDA", sys.executable)

WITH_GPU = [
    pytest.mark.skipif(
        "CUDA_VISIBLE_DEVICES" in os.environ,
        reason="CUDA_VISIBLE_DEVICES is set: perhaps not all GPUs that nvidia-smi lists",
    ),
    pytest.mark.needs("nvidia-smi"),
]


def needs_gpu(test):
    """A test that is skipped without an NVIDIA GPU."""
    for mark in WITH_GPU:
        test = mark(test)
    return test


def ask(column: str) -> list[str]:
    """A column of `nvidia-smi --query-gpu`, for each GPU."""
    words = ["nvidia-smi", f"--query-gpu={column}", "--format=csv,noheader,nounits"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
