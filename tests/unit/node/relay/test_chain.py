"""A data set on several nodes, each a process with an address of its own: one reader, every node complete."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from tests.examples import cases
from tests.ports import free_port
from tests.unit.node.programs import (
    HELD_DISK,
    HELD_READER,
    Result,
    command,
    environment,
    prepared,
    run,
    staging,
)
from tests.unit.node.trees import data_size, odd, snapshot, write

ADDRESSES = [f"127.0.0.{node + 1}" for node in range(8)]


def until(so):
    """Wait until something is so."""
    end = time.monotonic() + 120
    while not so():
        assert time.monotonic() < end
        time.sleep(0.005)


class Nodes:
    """Some nodes of one job, with a staging directory each."""

    def __init__(self, root, count, secret=b"0123456789abcdef0123456789abcdef"):
        self.root, self.count = root, count
        self.port = free_port(*ADDRESSES)
        (root / "hosts").write_text("".join(f"127.0.0.{k + 1}\n" for k in range(count)))
        (root / "secret").write_bytes(secret)
        os.chmod(root / "secret", 0o600)
        self.programs = {}

    def data(self, node):
        return self.root / f"node{node}" / "set" / "data"

    def published(self, node):
        return (self.root / f"node{node}" / "set").exists()

    def arguments(self, node, source, *more):
        return (
            "stage", "--source", source, "--to", self.root / f"node{node}", "--name", "set", "--hosts", self.root / "hosts",
            "--index", node, "--port", self.port, "--secret", self.root / "secret", "--json", "--dead-after", "30s",
            "--workers", "2", "--join-timeout", "60s", *more,
        )  # fmt: skip

    def begin(self, node, source, *more, prelude=None):
        """Start one node's program; `prelude` is Python that runs before it in its process."""
        words = prepared(command(*self.arguments(node, source, *more)), prelude)
        with open(self.root / f"out{node}", "w") as out, open(self.root / f"err{node}", "w") as err:
            self.programs[node] = subprocess.Popen(
                words, stdout=out, stderr=err, env=environment(), start_new_session=True
            )

    def begin_all(self, source, *more):
        for node in range(self.count):
            self.begin(node, source, *more)

    @property
    def gate(self):
        """The file whose making opens the gate."""
        return self.root / "gate"

    def held(self, prelude):
        """A prelude that waits for this group's gate."""
        return prelude.format(gate=str(self.gate))

    def begin_held(self, source, *more):
        """Start all nodes; the first reads a few blocks, and the rest once the gate is open."""
        for node in range(self.count):
            self.begin(node, source, *more, prelude=self.held(HELD_READER) if node == 0 else None)

    def end(self, node):
        """Wait for one node's program."""
        status = self.programs[node].wait(timeout=120)
        found = Result(status, (self.root / f"out{node}").read_text(), (self.root / f"err{node}").read_text())
        assert "Traceback" not in found.err, found.err
        return found

    def stage(self, source, *more):
        """Run all nodes to the end; what each said."""
        self.begin_all(source, *more)
        return [self.end(node) for node in range(self.count)]

    def journal(self, node):
        """The bytes of a node's journals: how far its copy is."""
        part = self.root / f"node{node}" / ".dlrun" / "part.set"
        total = 0
        for path in part.glob("journal.*"):
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
        return total

    def until_copying(self, node):
        """Wait until a node has blocks on its disk."""
        until(lambda: self.journal(node))

    def until_listening(self, node):
        """Wait until a node's program can be called."""

        def answers():
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((f"127.0.0.{node + 1}", self.port), 60).close()
                return True
            return False

        until(answers)

    def stop(self):
        for program in self.programs.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


@pytest.fixture
def nodes(tmp_path):
    made = []

    def make(count, **more):
        made.append(Nodes(tmp_path, count, **more))
        return made[-1]

    yield make
    for group in made:
        group.stop()


@pytest.fixture
def source(tmp_path):
    for number in range(200):
        write(os.fsencode(tmp_path / "source" / f"d{number % 7}" / f"f{number}"), os.urandom(number * 100))
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(10 << 20))
    return tmp_path / "source"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_every_node_has_exactly_the_source_and_it_is_read_once(tmp_path, nodes, shape):
    before = odd(tmp_path / "source")
    group = nodes(5)
    found = group.stage(tmp_path / "source", "--shape", shape)
    read = [result.done()["read"] for result in found]
    for node in range(5):
        assert snapshot(group.data(node)) == before
    assert read[1:] == [0] * 4
    assert read[0] == data_size(tmp_path / "source")
    assert found[0].done()["nodes"] == 5
    assert found[0].done()["shape"] == shape


@pytest.mark.slow
@pytest.mark.each_python
def test_progress_names_the_node_that_has_least(nodes, source):
    group = nodes(3)
    group.begin_held(source, "--interval", "0.1s")
    out = group.root / "out0"
    until(lambda: '"progress"' in out.read_text())
    group.gate.touch()
    for node in range(3):
        group.end(node).done()
    last = [json.loads(line)["last"] for line in out.read_text().splitlines() if '"progress"' in line]
    assert {one["host"] for one in last} <= {"127.0.0.1", "127.0.0.2", "127.0.0.3"}
    assert all(0 <= one["bytes_done"] <= data_size(source) for one in last)


@pytest.mark.slow
@pytest.mark.each_python
def test_warm_nodes_copy_nothing(nodes, source):
    group = nodes(3)
    group.stage(source)
    found = group.stage(source)
    assert [(result.done()["how"], result.done()["read"]) for result in found] == [("warm", 0)] * 3


@pytest.mark.slow
def test_a_node_that_lost_its_copy_gets_it_from_the_others(nodes, source):
    group = nodes(3)
    group.stage(source)
    subprocess.run(["rm", "-rf", str(group.root / "node2")], check=True)
    found = group.stage(source)
    assert [result.done()["how"] for result in found] == ["warm", "warm", "copied"]
    assert [result.done()["read"] for result in found] == [0, 0, 0], "the first node reads its own copy"
    assert snapshot(group.data(2)) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("victim", cases([0, 1, 2, 3], quick=1), ids="node {}".format)
def test_the_chain_heals_around_a_node_that_dies(nodes, source, victim):
    group = nodes(4)
    group.begin_held(source)
    group.until_copying(victim)
    os.killpg(group.programs[victim].pid, signal.SIGKILL)
    group.programs[victim].wait()
    group.gate.touch()
    rest = [node for node in range(4) if node != victim]
    found = {node: group.end(node) for node in rest}
    for node in rest:
        found[node].done()
        assert snapshot(group.data(node)) == snapshot(source)
    assert not group.published(victim)
    if victim:
        assert list(found[0].done()["lost"]) == [f"127.0.0.{victim + 1}"], "the job is told"
        assert found[0].done()["read"] == data_size(source), "nothing is read twice"
    again = group.stage(source)
    assert [result.done()["how"] for result in again] == [
        "copied" if node == victim else "warm" for node in range(4)
    ]
    assert again[victim].done()["copied"] < data_size(source), "what it had is kept"
    assert snapshot(group.data(victim)) == snapshot(source)


@pytest.mark.slow
def test_two_nodes_die_one_after_the_other(nodes, source):
    group = nodes(5)
    group.begin_held(source)
    group.until_copying(4)
    os.killpg(group.programs[2].pid, signal.SIGKILL)
    until(lambda: '"lost"' in (group.root / "out1").read_text())
    os.killpg(group.programs[0].pid, signal.SIGKILL)
    for node in (1, 3, 4):
        group.end(node).done()
        assert snapshot(group.data(node)) == snapshot(source)


@pytest.mark.slow
def test_a_node_that_hangs_is_left_behind_and_helps_itself_when_it_wakes(nodes, source):
    group = nodes(3)
    group.begin_held(source, "--dead-after", "10s")
    group.until_copying(2)
    os.killpg(group.programs[1].pid, signal.SIGSTOP)
    group.gate.touch()
    for node in (0, 2):
        group.end(node).done()
        assert snapshot(group.data(node)) == snapshot(source)
    assert "127.0.0.2" in group.end(0).done()["lost"]
    assert not group.published(1)
    os.killpg(group.programs[1].pid, signal.SIGCONT)
    group.end(1).done()
    assert snapshot(group.data(1)) == snapshot(source)


@pytest.mark.slow
def test_a_node_that_never_starts_is_told(nodes, source):
    group = nodes(3)
    group.begin(2, source)
    group.until_listening(2)
    group.begin(0, source, "--join-timeout", "20s")
    assert list(group.end(0).done()["lost"]) == ["127.0.0.2"]
    group.end(2).done()
    assert snapshot(group.data(2)) == snapshot(source)


@pytest.mark.slow
def test_a_stranger_learns_nothing_and_changes_nothing(tmp_path, nodes, source):
    """Only those who know the job's secret are heard."""
    group = nodes(2)
    (tmp_path / "wrong").write_text("f" * 32)
    os.chmod(tmp_path / "wrong", 0o600)
    group.begin(1, source, "--join-timeout", "10m")
    group.until_listening(1)
    group.begin(0, source, "--secret", tmp_path / "wrong", "--join-timeout", "20s")
    assert "does not know the job's secret" in json.dumps(group.end(0).done()["lost"])
    assert not group.published(1)
    end = time.monotonic() + 60
    while True:  # noise instead of a proof
        with (
            contextlib.suppress(ConnectionError),
            socket.create_connection(("127.0.0.2", group.port), 60) as noise,
        ):
            noise.sendall(os.urandom(24))
            assert noise.recv(4096) == b""
            break
        assert time.monotonic() < end
    group.begin(0, source)
    assert group.end(0).done()["nodes"] == 2
    group.end(1).done()
    assert snapshot(group.data(1)) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_the_secret_is_on_no_command_line_and_in_no_output(nodes, source):
    group = nodes(2)
    group.begin_held(source)
    group.until_copying(1)
    for program in group.programs.values():
        with open(f"/proc/{program.pid}/cmdline", "rb") as file:
            assert b"0123456789abcdef0123456789abcdef" not in file.read()
    group.gate.touch()
    for node in range(2):
        found = group.end(node)
        assert "0123456789abcdef" not in found.out + found.err


@pytest.mark.slow
@pytest.mark.each_python
def test_a_node_without_room_stops_all_before_the_first_byte(nodes, source):
    group = nodes(3)
    small = (
        "import os\n"
        "class Full: f_bavail, f_frsize, f_blocks, f_files = 10, 4096, 1000, 0\n"
        "os.fstatvfs = lambda descriptor: Full"
    )
    group.begin(0, source)
    group.begin(1, source)
    group.begin(2, source, prelude=small)
    for node in range(3):
        found = group.end(node)
        assert found.status == 1
        assert "needs 12.9 MB and has 0 B " in found.err
        assert not group.published(node)


@pytest.mark.slow
@pytest.mark.each_python
def test_what_does_not_fit_one_node_is_read_in_place_by_all(nodes, source):
    group = nodes(3)
    small = (
        "import os\n"
        "class Full: f_bavail, f_frsize, f_blocks, f_files = 10, 4096, 1000, 0\n"
        "os.fstatvfs = lambda descriptor: Full"
    )
    for node in range(3):
        group.begin(
            node, source, "--else-in-place", group.root / f"why{node}", prelude=small if node == 2 else None
        )
    for node in range(3):
        found = group.end(node)
        assert found.status == 0, found.err
        assert found.events()[-1]["event"] == "in place"
        assert "needs 12.9 MB and has 0 B " in (group.root / f"why{node}").read_text()
        assert not group.published(node)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_disk_that_fails_midway_takes_only_its_node_out(nodes, source):
    group = nodes(3)
    failing = (
        "import os; real, left = os.write, [40]\n"
        "def write(descriptor, data):\n"
        "    if len(data) > 1000:\n"
        "        left[0] -= 1\n"
        "        if left[0] < 0: raise OSError(28, 'No space left on device')\n"
        "    return real(descriptor, data)\n"
        "os.write = write"
    )
    group.begin(0, source)
    group.begin(1, source, prelude=failing)
    group.begin(2, source)
    assert "the disk filled up" in group.end(1).err
    assert group.programs[1].returncode == 1
    assert not group.published(1)
    assert "the disk filled up" in group.end(0).done()["lost"]["127.0.0.2"]
    group.end(2).done()
    assert snapshot(group.data(2)) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_slow_node_is_found_and_named(nodes, source):
    """The third node's disk takes nothing until the others have waited for it far longer than they worked."""
    group = nodes(4)
    began = time.monotonic()
    for node in range(4):
        group.begin(node, source, prelude=group.held(HELD_DISK) if node == 2 else None)
    for node in (0, 1):  # the last one may have come when there was nothing but that disk to send it from
        until(lambda node=node: group.published(node))
    time.sleep(2 * (time.monotonic() - began))
    group.gate.touch()
    found = group.end(0).done()
    assert [(one["host"], one["why"]) for one in found["slow"]] == [("127.0.0.3", "its disk")]
    for node in range(1, 4):
        group.end(node).done()


SENDS_NOTHING = """
import time
from dlrun.node.transfer.send_blocks import Sender
def send(self, buffer):
    time.sleep(600)
Sender._send = send
"""


@pytest.mark.slow
def test_the_first_node_dies_after_it_has_read_everything_and_sent_nothing(nodes, source):
    """It has said what the whole is; who leads then must still read what has not come."""
    group = nodes(3)
    for node in range(3):
        group.begin(node, source, prelude=SENDS_NOTHING if node == 0 else None)
    until(lambda: group.published(0))
    time.sleep(0.5)  # the last announcement is on its way
    os.killpg(group.programs[0].pid, signal.SIGKILL)
    for node in (1, 2):
        group.end(node).done()
        assert snapshot(group.data(node)) == snapshot(source)


def test_damage_on_the_way_is_noticed_and_mended(nodes, source):
    """A node that flips a bit of what it passes on: the next one notices by the hash and gets the block again."""
    group = nodes(3)
    flip = (
        "from dlrun.node.blocks import buffer\n"
        "real, done = buffer.BlockBuffer.fill, []\n"
        "def fill(self, upto):\n"
        "    if not done and upto > 1000 and self.number > 3:\n"
        "        done.append(1); self.view[500] ^= 4\n"
        "    real(self, upto)\n"
        "buffer.BlockBuffer.fill = fill"
    )
    for node in range(3):
        group.begin(node, source, prelude=flip if node == 1 else None)
    for node in range(3):
        group.end(node).done()
        assert snapshot(group.data(node)) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_source_that_changes_is_published_nowhere(nodes, source):
    group = nodes(3)
    many = [source / f"zz{number}" for number in range(12)]  # more than what is read before the gate
    for path in many:
        write(os.fsencode(path), os.urandom(3 << 19))
    group.begin_held(source)
    group.until_copying(2)
    for path in many:
        write(os.fsencode(path), b"short")
    group.gate.touch()
    for node in range(3):
        found = group.end(node)
        assert found.status == 1
        assert re.search("the source changed while it was copied: `zz[0-9]+` shrank", found.err)
        assert not group.published(node)


def test_a_missing_source_is_told_by_every_node(tmp_path, nodes):
    group = nodes(2)
    for found in group.stage(tmp_path / "none"):
        assert found.status == 1
        assert "does not exist" in found.err


@pytest.mark.slow
def test_two_jobs_on_overlapping_nodes_copy_once_each(tmp_path, nodes, source):
    """The second job passes data on where the first one copies, and neither waits for the other in a circle."""
    first = nodes(3)
    for node in range(3):
        first.begin(node, source, prelude=first.held(HELD_DISK))
    for node in range(3):
        until((tmp_path / f"node{node}" / ".dlrun" / "part.set" / "manifest").exists)
    second = Nodes.__new__(Nodes)
    second.root, second.count, second.port, second.programs = (
        tmp_path / "second",
        3,
        free_port(*ADDRESSES),
        {},
    )
    second.root.mkdir()
    (second.root / "hosts").write_text("127.0.0.3\n127.0.0.2\n127.0.0.1\n")
    (second.root / "secret").write_bytes((tmp_path / "secret").read_bytes())
    os.chmod(second.root / "secret", 0o600)
    for node in range(3):
        second.begin(node, source, "--to", tmp_path / f"node{2 - node}")
    try:
        for node in range(3):
            until(lambda node=node: '"waiting"' in (second.root / f"out{node}").read_text())
        first.gate.touch()
        for node in range(3):
            assert second.end(node).done()["how"] == "warm"
            assert first.end(node).done()["how"] == "copied"
            assert snapshot(first.data(node)) == snapshot(source)
    finally:
        second.stop()


WRONG = """
import time
real = time.time
time.time = lambda: real() + {hours} * 3600
"""


@pytest.mark.slow
def test_nodes_whose_clocks_are_hours_apart(nodes, source):
    """They stage, and find it there again; what one of them does last is the last there."""
    group = nodes(3)
    for _ in range(2):
        for node, hours in enumerate((0, 7, -9)):
            prelude = WRONG.format(hours=hours)
            group.begin(node, source, "--job", "5", "--lasting", "1h", prelude=prelude)
        found = [group.end(node).done() for node in range(3)]
    assert [one["how"] for one in found] == ["warm"] * 3
    for node in range(3):
        assert snapshot(group.data(node)) == snapshot(source)
        assert run("clean", "--to", group.root / f"node{node}", "--all").out == ""


@pytest.mark.slow
def test_several_readers_are_several_chains(nodes, source):
    group = nodes(5)
    found = group.stage(source, "--readers", "2")
    assert [result.done()["read"] > 0 for result in found] == [True, False, True, False, False]
    for node in range(5):
        assert snapshot(group.data(node)) == snapshot(source)


@pytest.mark.slow
@pytest.mark.each_python
def test_wrong_arguments_are_told(tmp_path, nodes, source):
    group = nodes(2)
    assert (
        "--hosts needs --port and --secret"
        in run(
            *staging(source, tmp_path / "n", "s"),
            "--hosts",
            group.root / "hosts",
        ).err
    )
    group.begin(0, source, "--index", "7")
    assert "--index 7 is not one of the 2 hosts" in group.end(0).err
    (group.root / "hosts").write_text("127.0.0.1\n127.0.0.1\n")
    group.begin(0, source)
    assert "names a host twice" in group.end(0).err
