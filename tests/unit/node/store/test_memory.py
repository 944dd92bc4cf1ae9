"""A tmpfs holds what memory is free, within the limits of the job."""

import os

import pytest
from dlrun.node.common import memory
from dlrun.node.common.errors import NoSpace
from dlrun.node.common.system import file_system
from dlrun.node.store import space

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw,size=12345k
31 22 0:27 / /local rw,nosuid - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("device", "is_memory"), [((8, 1), False), ((0, 26), True), ((0, 27), False), ((9, 9), False)]
)
def test_what_is_memory(tmp_path, device, is_memory):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    found = file_system(os.makedev(*device), str(tmp_path / "mountinfo"))
    assert (found in memory.KINDS) is is_memory


def write(place, content):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


@pytest.fixture
def machine(tmp_path):
    write(tmp_path / "proc/meminfo", "MemTotal: 64 kB\nMemAvailable:   40000000 kB\n")
    write(tmp_path / "proc/self/cgroup", "0::/slurm/job_7/step_0\n")
    return tmp_path


def free(machine):
    return memory.free(str(machine / "proc"), str(machine / "groups"))


def test_without_limits_it_is_what_the_node_has(machine):
    assert free(machine) == 40_000_000 * 1024


def test_the_jobs_own_limit_counts_wherever_it_is_set(machine):
    job = machine / "groups/slurm/job_7"
    write(job / "memory.max", "10000\n")
    write(job / "memory.current", "7000\n")
    write(job / "memory.stat", "anon 5000\ninactive_file 1500\nactive_file 500\n")
    write(job / "step_0/memory.max", "max\n")
    write(job / "step_0/memory.current", "7000\n")
    assert free(machine) == 5000, "what the kernel can take back is free"


def test_version_1_of_control_groups_is_read_too(machine):
    write(machine / "proc/self/cgroup", "9:cpu,cpuacct:/x\n5:memory:/slurm/job_7\n")
    job = machine / "groups/memory/slurm/job_7"
    write(job / "memory.limit_in_bytes", "10000\n")
    write(job / "memory.usage_in_bytes", "7000\n")
    write(job / "memory.stat", "total_inactive_file 100\n")
    assert free(machine) == 3100
    write(job / "memory.limit_in_bytes", "9223372036854771712\n")
    assert free(machine) == 40_000_000 * 1024


def test_nothing_known_is_no_limit(tmp_path):
    assert memory.free(str(tmp_path), str(tmp_path)) is None


def test_a_set_that_fits_the_tmpfs_but_not_the_memory_is_refused(tmp_path, monkeypatch):
    place = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(space, "in_memory", lambda _: True)
    monkeypatch.setattr(memory, "free", lambda: 10_000)
    assert space.free(place) == 9_000
    with pytest.raises(NoSpace) as raised:
        space.require(place, 20_000, 0, b"/dev/shm")
    assert "needs 20.0 kB and has 9.00 kB of memory free" in raised.value.message
    monkeypatch.setattr(space, "in_memory", lambda _: False)
    space.require(place, 20_000, 0, b"/dev/shm")
    os.close(place)


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="there is no /dev/shm")
def test_this_machines_dev_shm_is_seen_as_memory():
    place = os.open("/dev/shm", os.O_RDONLY)
    assert space.in_memory(place)
    os.close(place)
