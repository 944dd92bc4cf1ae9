"""Every port that a dlrun job opens, while strangers connect to it by the hundred: the job ends as if they were not."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from tests.examples import cases
from tests.ports import free_port
from tests.unit.node.programs import ROOT, environment
from tests.unit.node.relay.test_chain import nodes, source, until  # noqa: F401 - fixtures
from tests.unit.node.strangers import NOISE, Strangers
from tests.unit.node.trees import snapshot

FEW_DESCRIPTORS = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("victim", cases([0, 1], quick=1))
def test_staging_goes_on_among_strangers(nodes, source, victim):  # noqa: F811
    """With fewer descriptors than they have connections, before any node is there and until all is copied."""
    group = nodes(3)
    group.begin(victim, source, "--join-timeout", "10m", prelude=FEW_DESCRIPTORS)
    group.until_listening(victim)
    with Strangers(f"127.0.0.{victim + 1}", group.port) as strangers:
        end = time.monotonic() + 300
        while strangers.begun < 400:
            assert group.programs[victim].poll() is None, "a stranger ended the staging"
            assert time.monotonic() < end
            time.sleep(0.01)
        for node in {0, 1, 2} - {victim}:
            group.begin(node, source, "--join-timeout", "10m")
        found = [group.end(node) for node in range(3)]
    assert found[0].done()["nodes"] == 3
    for node in range(3):
        assert snapshot(group.data(node)) == snapshot(source)


DROPPED_CALLS = """
from dlrun.node.relay.downstream import Downstream
real, left = Downstream._call, [3]
async def call(self, role="control", *arguments):
    if role == "worker" and left[0]:
        left[0] -= 1
        raise ConnectionResetError("Connection reset by peer")
    return await real(self, role, *arguments)
Downstream._call = call
"""  # the first calls for data are dropped: the listener made room for strangers of the same address


@pytest.mark.slow
@pytest.mark.each_python
def test_a_call_for_data_that_is_dropped_is_made_again(nodes, source):  # noqa: F811
    """It ends neither the conversation of the two nodes nor the first one's part: one reads, for both."""
    group = nodes(2)
    group.begin(1, source)
    group.until_listening(1)
    group.begin(0, source, prelude=DROPPED_CALLS)
    first, second = (group.end(node).done() for node in range(2))
    assert (first["nodes"], first["lost"], second["read"]) == (2, {}, 0)
    assert snapshot(group.data(1)) == snapshot(source)


CUT_ONCE = """
import asyncio
from dlrun.node.relay.downstream import Downstream
real, cut = Downstream._beat, []
async def beat(self, link):
    await real_beat_once(self, link)
    if not cut:
        cut.append(1)
        raise ConnectionResetError("Connection reset by peer")
    await real(self, link)
async def real_beat_once(self, link):
    await link.send({"do": "beat", "path": self.state.path()})
    await asyncio.sleep(0.2)
Downstream._beat = beat
"""  # the connection on which they agree breaks once, a moment after the nodes have met


@pytest.mark.slow
@pytest.mark.each_python
def test_a_connection_that_breaks_is_no_dead_node(nodes, source):  # noqa: F811
    """The first node calls again at once; nobody reads the source for it."""
    group = nodes(2)
    group.begin(1, source)
    group.until_listening(1)
    group.begin(0, source, prelude=CUT_ONCE)
    first, second = (group.end(node).done() for node in range(2))
    assert (first["nodes"], first["lost"], second["read"]) == (2, {}, 0)
    assert snapshot(group.data(1)) == snapshot(source)


LAST_WORD_LOST = """
from dlrun.node.relay import downstream
real, lost = downstream.unpack_status, []
def unpack(message):
    if message["phase"] == downstream.DONE and not lost:
        lost.append(1)
        raise ConnectionResetError("Connection reset by peer")
    return real(message)
downstream.unpack_status = unpack
"""  # the connection breaks as the second node reports that it is done


@pytest.mark.slow
@pytest.mark.each_python
def test_a_connection_that_breaks_at_the_end_is_no_dead_node(nodes, source):  # noqa: F811
    """Who is done stays until the node before it has heard so."""
    group = nodes(2)
    group.begin(0, source, prelude=LAST_WORD_LOST)
    group.begin(1, source)
    first, second = (group.end(node).done() for node in range(2))
    assert (first["nodes"], first["lost"], second["read"]) == (2, {}, 0)
    assert snapshot(group.data(1)) == snapshot(source)


def until_met(strangers, count):
    end = time.monotonic() + 120
    while strangers.met < count:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
def test_a_slow_caller_has_one_deadline(nodes, source):  # noqa: F811
    """A byte every two seconds is no proof, however long it goes on."""
    group = nodes(2)
    group.begin(1, source, "--join-timeout", "10m")
    group.until_listening(1)
    with socket.create_connection(("127.0.0.2", group.port), 60) as slow, pytest.raises(OSError):  # noqa: PT012
        for _ in range(20):  # less than what is compared: it ends somewhere before, as five seconds are over
            slow.sendall(b"d")
            time.sleep(2)
            slow.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if not slow.recv(100):
                    raise ConnectionResetError
            slow.setblocking(True)
    group.stop()


def check(run_dir, rank, world, port, *, few=False):
    """One rank of `dlrun verify`, with a job of its own variables."""
    own = {"DLRUN_RUN_DIR": str(run_dir), "DLRUN_RUN_ID": "7.0", "DLRUN_RANK": str(rank), "DLRUN_LOCAL_RANK": "0",
           "DLRUN_WORLD_SIZE": str(world), "DLRUN_MASTER_ADDR": "127.0.0.1", "DLRUN_MASTER_PORT": str(port),
           "DLRUN_HOST": f"n{rank}"}  # fmt: skip
    begin = (FEW_DESCRIPTORS + "\n") * few
    begin += (
        "import sys; from dlrun.node.__main__ import main; sys.exit(main(['check-rank', '--over', 'lo']))"
    )
    clean = {k: v for k, v in environment().items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.Popen(
        [sys.executable, "-c", begin], env=clean | own, cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def report(program):
    out, err = program.communicate(timeout=120)
    assert "Traceback" not in err, err
    assert program.returncode == 0
    return json.loads(out.removeprefix("dlrun-check "))


@pytest.fixture
def port():
    return free_port()


def listening(where, port):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((where, port), 60).close()
            return
        time.sleep(0.01)
    pytest.fail("nobody listens")


@pytest.mark.parametrize("noise", cases(NOISE, quick=2))
def test_verify_is_not_misled_by_one_stranger(tmp_path, port, noise):
    """A rank 0 that took a stranger for a rank would lack the rank, or add up what nobody has."""
    first = check(tmp_path, 0, 3, port)
    listening("127.0.0.1", port)
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), 60) as stranger:
            stranger.sendall(NOISE[noise])
    others = [check(tmp_path, rank, 3, port) for rank in (1, 2)]
    assert [report(one).get("sum") for one in (first, *others)] == [6, 6, 6]


@pytest.mark.slow
def test_verify_among_strangers(tmp_path, port):
    first = check(tmp_path, 0, 3, port, few=True)
    listening("127.0.0.1", port)
    with Strangers("127.0.0.1", port) as strangers:
        until_met(strangers, 600)
        others = [check(tmp_path, rank, 3, port) for rank in (1, 2)]
        found = [report(one) for one in (first, *others)]
    assert [one.get("sum") for one in found] == [6, 6, 6]
    assert all("round_trip" in one for one in found[1:]), found


def test_secret_of_verify_is_for_the_user_alone(tmp_path, port):
    os.umask(0o022)
    first = check(tmp_path, 0, 2, port)
    until((tmp_path / "check-port").exists)  # it listens a moment before it says where
    assert (tmp_path / "check-port").stat().st_mode & 0o077 == 0
    report(check(tmp_path, 1, 2, port))
    report(first)


def test_clock_is_told_whatever_strangers_do():
    """The nodes' check of one another: a connection that is reset, or no descriptor for the next one, ends nothing."""
    from dlrun.node.checks import node_checks

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=node_checks.serve_time, args=(server,), daemon=True)
        thread.start()
        with Strangers("127.0.0.1", server.getsockname()[1], idle=50) as strangers:
            until_met(strangers, 300)
            for _ in range(20):
                found = node_checks.clock_offset("127.0.0.1", server.getsockname()[1])
                assert found is not None
                assert abs(found) < 60
        assert thread.is_alive()


@pytest.mark.parametrize(
    "said", [b"", b"x" * 32, b"nan".rjust(32), b"-inf".rjust(32), b"1e999".rjust(32), b"1"]
)
def test_clock_that_makes_no_sense(said):
    from dlrun.node.checks import node_checks

    with socket.create_server(("127.0.0.1", 0)) as server:

        def lie():
            connection, _ = server.accept()
            with connection:
                connection.sendall(said)

        thread = threading.Thread(target=lie)
        thread.start()
        assert node_checks.clock_offset("127.0.0.1", server.getsockname()[1]) is None
        thread.join()
