"""Counters of the node from a tree of the kernel's files."""

from __future__ import annotations

import pytest
from dlrun.node.usage import machine


@pytest.fixture
def nic(tmp_path, monkeypatch):
    """A Slingshot NIC whose files hold these texts."""
    monkeypatch.setattr(machine, "_CXI", str(tmp_path))

    def with_files(**files):
        for name, text in files.items():
            path = tmp_path / "cxi0/device" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return with_files


def test_a_slingshot_nic_has_bytes_and_the_speed_of_its_interface(nic):
    nic(
        telemetry__hni_sts_rx_ok_octets="90049@1675489372.701036980\n", telemetry__hni_sts_tx_ok_octets="12@1675489372.7\n",
        net__hsn0__speed="200000\n",
    )  # fmt: skip
    look = machine.Machine()
    assert look.network()["cxi0:1"] == [90049, 12, 200000]
    assert not any("cxi0" in one for one in look.missing)


def test_counters_that_cannot_be_read_are_named(nic):
    nic(net__hsn0__speed="-1\n")
    look = machine.Machine()
    assert "cxi0:1" not in look.network()
    assert "network: cxi0's counters cannot be read" in look.missing
