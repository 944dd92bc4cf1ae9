"""What is copied goes to the disk while the copying goes on, unless others' data would be waited for."""

import os
import threading

import pytest
from dlrun.node.transfer import local


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """A directory on a disk, the calls that were made for it, and what waits to be written."""
    calls, waits = threading.Semaphore(0), {"bytes": 0}
    monkeypatch.setattr(local, "PERIOD", 0.001)
    monkeypatch.setattr(local, "on_block_device", lambda _: True)
    monkeypatch.setattr(local, "sync_file_system", lambda _: calls.release())
    monkeypatch.setattr(local, "dirty_bytes", lambda: looks.release() or waits["bytes"])
    looks = threading.Semaphore(0)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor, calls, waits, looks
    os.close(descriptor)


def test_what_was_written_is_sent_to_the_disk_once(disk):
    descriptor, calls, _, _ = disk
    written = local.MIN_BYTES
    with local.flushed(descriptor, lambda: written):
        assert calls.acquire(timeout=60)
        assert not calls.acquire(timeout=0.05), "nothing was written since"
        written += local.MIN_BYTES
        assert calls.acquire(timeout=60)


def test_others_data_is_not_waited_for(disk):
    descriptor, calls, waits, looks = disk
    waits["bytes"] = 10 * local.MIN_BYTES
    with local.flushed(descriptor, lambda: local.MIN_BYTES):
        for _ in range(3):
            assert looks.acquire(timeout=60)
        assert not calls.acquire(blocking=False)
        waits["bytes"] = local.MIN_BYTES
        assert calls.acquire(timeout=60)


def test_only_a_disk_of_this_node_is_asked(monkeypatch, disk):
    descriptor = disk[0]
    monkeypatch.setattr(local, "on_block_device", lambda _: False)
    before = set(threading.enumerate())  # of which those of earlier tests may end at any moment
    with local.flushed(descriptor, lambda: local.MIN_BYTES):
        assert set(threading.enumerate()) <= before


def test_the_kernel_says_what_waits():
    assert local.dirty_bytes() >= 0
    assert local.flushed is local.flushed, "a copy on one node uses it"
