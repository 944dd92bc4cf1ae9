"""What sacct and qstat counted, from their texts."""

from __future__ import annotations

from dlrun.schedulers.gridengine import accounting as gridengine
from dlrun.schedulers.pbs import accounting as pbs
from dlrun.schedulers.slurm import accounting as slurm
from tests.fakebin import CAPTURED


def test_sacct():
    text = "12|01:02.500|\n12.batch|00:00.500|4096K\n12.0|01:02.000|204800K\n"
    assert slurm.ask("12[3]")[-1] == "12_3"
    found = slurm.read(text)
    assert found is not None
    assert (found.cpu, found.memory) == (62.5, 204800 * 1024)
    assert slurm.read("") is None
    days = slurm.read("12|1-02:03:04|\n")
    assert days is not None
    assert (days.cpu, days.memory) == (93784.0, None)


def test_qstat():
    text = "Job Id: 12.pbs\n    resources_used.cput = 01:00:05\n    resources_used.mem = 2048kb\n    resources_used.ncpus = 4\n"
    found = pbs.read(text)
    assert found is not None
    assert (found.cpu, found.memory) == (3605.0, 2 << 20)
    assert pbs.read("Job Id: 12.pbs\n    job_state = Q\n") is None


def test_qacct():
    assert gridengine.ask("12") == ["qacct", "-j", "12"]
    assert gridengine.ask("12[3]") == ["qacct", "-j", "12", "-t", "4"]
    block = "====\njobnumber    12\nru_utime     0.004s\ncpu          {}s\nmem          0.000Bs\nmaxvmem      {}\n"
    found = gridengine.read(block.format("60.250", "3.500MB") + block.format("1.000", "2.000GB"))
    assert found is not None
    assert (found.source, found.cpu, found.memory) == ("qacct", 61.25, 2 << 30)
    assert gridengine.read("error: job id 12 not found\n") is None
    captured = gridengine.read((CAPTURED / "gridengine" / "qacct.txt").read_text())
    assert captured is not None
    assert captured.cpu
