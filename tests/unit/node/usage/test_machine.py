"""Counters of the node from a tree of the kernel's files."""

from __future__ import annotations

import pytest
from dlrun.node.usage import machine, procfs


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


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """The kernel's files below a directory; what is not there is missing."""
    read, names = procfs.read, procfs.names
    monkeypatch.setattr(procfs, "read", lambda path: read(f"{tmp_path}{path}"))
    monkeypatch.setattr(procfs, "names", lambda path: names(f"{tmp_path}{path}"))

    def with_files(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return machine.Machine()

    return with_files


def test_a_port_counts_in_words_of_four_bytes(kernel):
    port = "sys__class__infiniband__mlx5_0__ports__1__"
    counts = {port + "counters__port_rcv_data": "25\n", port + "counters__port_xmit_data": "100\n"}
    look = kernel(**counts, **{port + "rate": "200 Gb/sec (4X HDR)\n"})
    assert look.network() == {"mlx5_0:1": [100, 400, 200000]}


def test_a_port_whose_counters_are_hidden_is_named(kernel):
    look = kernel(sys__class__infiniband__mlx5_0__ports__1__rate="200 Gb/sec\n")
    assert look.network() == {}
    assert look.missing == {"network: mlx5_0's counters cannot be read"}


MOUNTS = """\
device rootfs mounted on / with fstype rootfs
device home:/export mounted on /home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tevents:\t1 2 3
\tbytes:\t11 12 13 14 15000 16000 17 18
device tmpfs mounted on /dev/shm with fstype tmpfs
device idle:/x mounted on /idle with fstype nfs statvers=1.1
\tbytes:\t0 0 0 0 0 0 0 0
"""


def test_bytes_by_shared_file_system(kernel):
    """NFS counts what went to and came from the server, not what the page cache answered; unused ones are left out."""
    look = kernel(
        proc__self__mountstats=MOUNTS,
        **{
            "proc__fs__lustre__llite__scratch-ffff8800__stats": "snapshot_time 1.2 secs.nsecs\n"
            "read_bytes 12 samples [bytes] 1 4096 49152\nwrite_bytes 3 samples [bytes] 1 1024 3072\n"
        },
    )
    assert look.file_systems() == {"/home": [15000, 16000], "lustre:scratch": [49152, 3072]}


def test_disks_and_pages_of_other_nodes(kernel):
    look = kernel(
        proc__diskstats="   8 0 sda 10 0 100 0 20 0 200 0 0 4000 0\n   8 1 sda1 10 0 100 0 20 0 200 0 0 9000 0\n",
        proc__stat="cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n",
        sys__devices__system__node__node0__numastat="numa_hit 5\nother_node 7\n",
        sys__devices__system__node__node1__numastat="numa_hit 5\nother_node 4\n",
    )
    look._disks = ["sda"]
    row = dict(zip(machine.COLUMNS, look.row(), strict=True))
    assert (row["disk_read"], row["disk_written"], row["disk_busy"]) == (51200, 102400, 4.0)
    assert (row["elsewhere"], row["cpu"], row["memory"]) == (11, 2.0, None)


def test_cores_that_are_busy_are_those_with_a_tenth_of_idle_time_at_most(kernel, tmp_path):
    look = kernel(proc__stat="cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\nintr 1\n")
    assert look.busy_cores() == set()
    (tmp_path / "proc/stat").write_text(
        "cpu  0 0 0 0 0 0 0 0\ncpu0 95 0 0 5 0 0 0 0\ncpu1 80 0 0 10 10 0 0 0\n"
    )
    assert look.busy_cores() == {0}
