"""A node that receives slowly holds nobody up, whatever else happens then."""

import os
import signal

import pytest
from dlrun.node.relay.rates import _common

from tests.examples import cases
from tests.unit.node.relay.test_chain import nodes, until  # noqa: F401 - a fixture
from tests.unit.node.trees import data_size, snapshot, write

SLOW = """
import os, time
from dlrun.node.network import wire
from dlrun.node.transfer import worker
worker.WINDOW = 4
real = wire.fill
def fill(peer, view):
    if not os.path.exists({gate!r}):
        time.sleep(0.2)
    return real(peer, view)
wire.fill = fill
"""  # a piece takes a fifth of a second before the gate is open
RATES = """
from dlrun.node.relay import rates
async def each(state, others):
    return [1e6 if {{state.index, other}} & set({slow}) else 1e8 for other in others]
rates._each = each
"""  # what nodes find when they measure their links
NARROW = """
from dlrun.node.transfer import worker
worker.WINDOW = 4
"""  # what is under way through a node is much less than the data
WIDE = """
from dlrun.node.transfer import worker
worker.WINDOW = 200
"""  # all of the data is under way at once: the first node has read the end of it before any node is found slow
FIRST = {"all data in the buffers of the first node": WIDE, "little data in them": NARROW}


@pytest.fixture
def source(tmp_path):
    write(os.fsencode(tmp_path / "source" / "large"), os.urandom(80 << 20))
    for number in range(50):
        write(os.fsencode(tmp_path / "source" / "small" / f"f{number}"), os.urandom(number * 100))
    return tmp_path / "source"


def begin(group, source, *slow, first=NARROW, more=""):
    """Start all nodes, some of them slow."""
    for node in range(group.count):
        prelude = more + (group.held(SLOW) if node in slow else NARROW if node else first)
        group.begin(node, source, "--workers", "1", "--dead-after", "10s", prelude=prelude)


def named(done):
    """The hosts that went to the end of the chain, in the report of the first node."""
    return {one["host"] for one in done.get("slow", ()) if "rate" in one}


@pytest.mark.slow
@pytest.mark.parametrize("first", cases(FIRST, quick=1))
@pytest.mark.parametrize("slow", cases([1, 2, 3], quick=1), ids="node {}".format)
def test_the_others_are_ready_before_a_node_that_is_slow(nodes, source, slow, first):  # noqa: F811
    group = nodes(4)
    begin(group, source, slow, first=FIRST[first])
    until(lambda: all(group.published(node) for node in range(4) if node != slow))
    assert not group.published(slow)
    group.gate.touch()
    done = [group.end(node).done() for node in range(4)]
    assert named(done[0]) == {f"127.0.0.{slow + 1}"}
    assert [one["read"] for one in done] == [data_size(source), 0, 0, 0], "the source is read once"
    for node in range(4):
        assert snapshot(group.data(node)) == snapshot(source)


PAIRS = {"one behind the other": (1, 2), "apart": (1, 3), "the last two": (3, 4)}


@pytest.mark.slow
@pytest.mark.parametrize("slow", cases(PAIRS, quick=1))
def test_the_others_are_ready_before_two_nodes_that_are_slow(nodes, source, slow):  # noqa: F811
    slow, group = PAIRS[slow], nodes(5)
    begin(group, source, *slow)
    until(lambda: all(group.published(node) for node in range(5) if node not in slow))
    assert not any(group.published(node) for node in slow)
    group.gate.touch()
    done = [group.end(node).done() for node in range(5)]
    assert named(done[0]) & {f"127.0.0.{node + 1}" for node in slow}, (
        "of the last two, one may hold up nobody"
    )
    assert [one["read"] for one in done] == [data_size(source), 0, 0, 0, 0], "the source is read once"
    for node in range(5):
        assert snapshot(group.data(node)) == snapshot(source)


TOGETHER = {"apart": (1, 4), "one behind the other": (2, 3), "the last two": (4, 5)}


@pytest.mark.slow
@pytest.mark.parametrize("slow", cases(TOGETHER, quick=1))
def test_two_nodes_with_slow_links_go_to_the_end_together(nodes, source, slow):  # noqa: F811
    slow, group = TOGETHER[slow], nodes(6)
    begin(group, source, *slow, more=RATES.format(slow=slow))
    until(lambda: all(group.published(node) for node in range(6) if node not in slow))
    assert not any(group.published(node) for node in slow)
    group.gate.touch()
    ended = [group.end(node) for node in range(6)]
    done = [one.done() for one in ended]
    moved = [one["node"] for one in ended[0].events() if one["event"] == "slow"]
    assert sorted(moved[:2]) == sorted(slow)
    assert [one["read"] for one in done] == [data_size(source), 0, 0, 0, 0, 0], "the source is read once"
    for node in range(6):
        assert snapshot(group.data(node)) == snapshot(source)


GOOD = 1e8  # bytes a second of a good link
LINKS = [(k, (k + step) % 8) for k in range(8) for step in (1, 2)]


@pytest.mark.parametrize("slow", [(a, b) for a in range(1, 8) for b in range(a + 1, 8)], ids=str)
def test_the_nodes_that_make_links_slow_are_found(slow):
    found = {link: 2e6 if set(link) & set(slow) else GOOD for link in LINKS}
    assert sorted(_common(found, GOOD / 2, [slow[0]])) == sorted(slow)
    assert sorted(_common({**found, (slow[0], 0): 0.0}, GOOD / 2, [slow[0]])) == sorted(slow)


def test_a_node_whose_program_waited_is_not_slow():
    found = {link: 0.0 if 3 in link else GOOD for link in LINKS}
    assert _common(found, GOOD / 2, [5]) == []
    assert _common(found, GOOD / 2, [3]) == [3]
    assert _common(dict.fromkeys(LINKS, GOOD), GOOD / 2, [3]) == []


VICTIMS = {"head": 0, "node before it": 1, "slow node": 2, "node that sends to it": 4}


@pytest.mark.slow
@pytest.mark.parametrize("victim", cases(VICTIMS, quick=1))
def test_a_node_dies_after_a_slow_one_went_to_the_end(nodes, source, victim):  # noqa: F811
    victim = VICTIMS[victim]
    group = nodes(5)
    begin(group, source, 2)
    until(lambda: '"slow"' in (group.root / "out0").read_text())
    os.killpg(group.programs[victim].pid, signal.SIGKILL)
    group.programs[victim].wait()
    group.gate.touch()
    for node in set(range(5)) - {victim}:
        group.end(node).done()
        assert snapshot(group.data(node)) == snapshot(source)
    again = group.stage(source)
    assert all(snapshot(group.data(node)) == snapshot(source) for node in range(5))
    assert sum(one.done()["copied"] for one in again) <= data_size(source), "what the victim had is kept"


DIES = """
import signal
from dlrun.node.relay import upstream
def dies(self):
    os.kill(os.getpid(), signal.SIGKILL)
upstream.Upstream.disconnect_for_move = dies
"""  # it is killed the moment that it has to move
HANDS_OVER = """
import os, signal
from dlrun.node.relay import downstream
async def dies(self):
    os.kill(os.getpid(), signal.SIGKILL)
downstream.Downstream.hand_over = dies
"""  # it is killed as it passes a slow node on
DYING = {"slow node": (2, SLOW + DIES), "node before it": (1, NARROW + HANDS_OVER)}


@pytest.mark.slow
@pytest.mark.parametrize("victim", cases(DYING, quick=1))
def test_a_node_dies_while_a_slow_one_goes_to_the_end(nodes, source, victim):  # noqa: F811
    (victim, prelude), group = DYING[victim], nodes(5)
    for node in range(5):
        mine = prelude if node == victim else SLOW if node == 2 else NARROW
        group.begin(
            node,
            source,
            "--workers",
            "1",
            "--dead-after",
            "10s",
            prelude=group.held(mine) if "{gate" in mine else mine,
        )
    group.programs[victim].wait(timeout=120)
    assert group.programs[victim].returncode == -signal.SIGKILL
    group.gate.touch()
    done = {node: group.end(node).done() for node in set(range(5)) - {victim}}
    assert f"127.0.0.{victim + 1}" in done[0]["lost"]
    for node in done:
        assert snapshot(group.data(node)) == snapshot(source)


@pytest.mark.slow
def test_a_chain_of_equal_nodes_stays_as_it_is(nodes, source):  # noqa: F811
    group = nodes(4)
    for node in range(4):
        group.begin(node, source, "--workers", "1", "--rate", "16M", prelude=NARROW)
    done = [group.end(node).done() for node in range(4)]
    assert named(done[0]) == set(), "no node went to the end"


BURST = """
from dlrun.node.relay.leader import SlowNodes
measured = []
async def rate(self, other):
    measured.append(other)
    open({gate!r} + ".measured", "w").write("x" * len(measured))
    return 1e12 if len(measured) == 1 else 0.0
SlowNodes._rate_with = rate
"""  # the first measurement falls into a burst


@pytest.mark.slow
def test_one_burst_accuses_nobody(nodes, source):  # noqa: F811
    group = nodes(3)
    for node, prelude in enumerate([BURST, SLOW, NARROW]):
        group.begin(node, source, "--workers", "1", prelude=group.held(prelude))
    measured = group.root / "gate.measured"
    until(
        lambda: (
            (measured.exists() and len(measured.read_text()) > 1)
            or '"slow"' in (group.root / "out0").read_text()
        )
    )
    group.gate.touch()
    done = [group.end(node).done() for node in range(3)]
    assert named(done[0]) == set(), "no node went to the end"
