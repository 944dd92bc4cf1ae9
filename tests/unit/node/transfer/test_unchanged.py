"""What a run does that finds its data set unchanged: as little as possible, since every job begins with it."""

import json
import os
import subprocess
import sys

import pytest

from tests.unit.node.programs import run, staging
from tests.unit.node.trees import write

COUNTED = """
import collections, json, sys
from dlrun.node import __main__
from dlrun.node.source import manifest
calls = collections.Counter()
def counted(name, real):
    def call(*given, **named):
        calls[name] += 1
        return real(*given, **named)
    return call
manifest.unpack = counted("unpack", manifest.unpack)
manifest.Manifest.id = counted("id", manifest.Manifest.id)
status = __main__.main(sys.argv[1:])
print(json.dumps([status, calls, sorted(sys.modules)]))
"""
OF_A_COPY = {
    "source.survey", "source.walk", "store.build", "store.layout", "store.resume", "store.versions", "store.room",
    "transfer.archive_source", "transfer.local", "transfer.plan_delta", "transfer.read_blocks", "transfer.remote_source",
}  # fmt: skip


@pytest.fixture
def words(tmp_path):
    for number in range(70):
        write(
            os.fsencode(tmp_path / "source" / f"d{number % 3}" / f"f{number}"), b"data", mtime=10**18 + number
        )
    words = (*staging(tmp_path / "source", tmp_path / "node"), "--json")
    assert run(*words).done()["how"] == "copied"
    return words


def counted(words):
    """The last event of a run in one process, its calls, and the modules that it has loaded."""
    given = [sys.executable, "-c", COUNTED, *map(str, words)]
    done = subprocess.run(given, check=True, capture_output=True, text=True).stdout.splitlines()
    status, calls, modules = json.loads(done[-1])
    assert status == 0
    return json.loads(done[-2]), calls, modules


def test_an_unchanged_set_is_recognised_by_one_reading_of_its_manifest(words):
    event, calls, _ = counted(words)
    assert (event["how"], event["checked"]) == ("warm", {"source": 70, "copy": 70})
    assert calls == {"unpack": 1}


def test_an_unchanged_set_needs_no_module_of_a_copy(words):
    event, _, modules = counted(words)
    assert event["how"] == "warm"
    assert {name for name in OF_A_COPY if f"dlrun.node.{name}" in modules} == set()
    if event["hash"] == "xxh3":
        assert "hashlib" not in modules


def test_a_changed_set_is_copied_after_one_reading_of_its_manifest(tmp_path, words):
    write(os.fsencode(tmp_path / "source" / "d1" / "f1"), b"more data")
    event, calls, _ = counted(words)
    assert (event["how"], event["copied"] > 0) == ("copied", True)
    assert calls["unpack"] == 1
    assert (tmp_path / "node" / "set" / "data" / "d1" / "f1").read_bytes() == b"more data"


def test_a_changed_set_and_a_changed_copy_are_copied(tmp_path, words):
    write(os.fsencode(tmp_path / "source" / "d1" / "f1"), b"more data")
    assert counted(words)[0]["copied"] > 0
    path = tmp_path / "node" / "set" / "data" / "d2" / "f2"
    path.chmod(0o644)
    path.write_bytes(b"written over")
    event, _, _ = counted(words)
    assert (event["how"], event["copied"] > 0) == ("copied", True)
    assert path.read_bytes() == b"data"
    assert counted(words)[0]["how"] == "warm"
