"""The sampler's numbers of NVIDIA GPUs against those of `nvidia-smi`; skipped where there is none."""

from __future__ import annotations

import pytest

from dlrun.node.usage import gpus, smi
from dlrun.node.usage.nvml import Nvml
from tests.gpu import WITH_GPU

pytestmark = WITH_GPU


def test_both_ways_find_the_same_gpus():
    library, text = Nvml().describe(), smi.open_smi().describe()
    assert [one["uuid"] for one in library] == [one["uuid"] for one in text]
    assert [one["name"] for one in library] == [one["name"] for one in text]
    for one, other in zip(library, text, strict=True):
        assert one["memory"] == pytest.approx(other["memory"], rel=0.01)
        assert one["clock"] == other["clock"]


def test_both_ways_read_the_same_numbers():
    library, text = Nvml().rows(), smi.open_smi().rows()
    for row, other in zip(library, text, strict=True):
        one, two = (dict(zip(gpus.COLUMNS, numbers, strict=True)) for numbers in (row, other))
        assert one["memory"] == pytest.approx(two["memory"], abs=1 << 30)
        assert one["temperature"] == pytest.approx(two["temperature"], abs=10)


def test_the_sampler_finds_them():
    found = gpus.Gpus()
    assert found.described
    assert not found.missing
    assert len(found.rows()) == len(found.described) == len(found.processes())
