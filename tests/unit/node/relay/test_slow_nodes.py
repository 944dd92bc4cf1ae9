"""A node that receives slowly holds nobody up, whatever else happens then."""

import asyncio
import os
import signal
import time
from types import SimpleNamespace

import pytest
from dlrun.node.relay import rates
from dlrun.node.relay.slow_links import SlowNodes, _Sample

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
async def flow(state, other):
    return rates.Flow(*[5e4 if {{state.index, other}} & set({slow}) else 1e8] * 2)
rates.flow = flow
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
def test_two_nodes_with_slow_links_go_to_the_end(nodes, source, slow):  # noqa: F811
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


COPY, GOOD = 2e6, 1.5e7  # bytes a second of the copy to a slow node, and of test data to a good one
FLOWS = {
    "the next one alone": ({2: [GOOD]}, {}),
    "the two after it, too": ({2: [COPY, COPY], 3: [1.1 * COPY, 0.0], 4: [GOOD]}, {2: COPY, 3: 1.1 * COPY}),
    "a lost packet stalled test data": ({2: [COPY, GOOD], 3: [GOOD]}, {}),
    "a program that did not answer": ({2: [0.0], 3: [GOOD]}, {}),
    "half as fast as a good one": ({2: [0.6 * GOOD], 3: [GOOD]}, {}),
}


@pytest.mark.parametrize("case", FLOWS)
def test_slow_nodes_one_behind_the_other_are_found_by_one_measurement(monkeypatch, case):
    flows, slow = FLOWS[case]

    async def flow(state, other):
        return rates.Flow(*[flows[other].pop(0)] * 2)

    monkeypatch.setattr(rates, "flow", flow)
    state = SimpleNamespace(following=lambda node: node + 1, demoted=[], upstream_path=[])
    most, found = asyncio.run(SlowNodes(state)._most_past(1, COPY))
    assert most >= 0.6 * GOOD
    assert found == slow
    assert not any(flows[other] for other in flows if other in slow), "each of them was measured twice"


def test_a_node_is_not_slow_for_how_often_another_was():
    state = SimpleNamespace(index=0, demoted=[], slow={})
    links = SlowNodes(state)
    for number, rates_found in enumerate([{1: COPY}, {1: COPY}, {1: COPY, 2: COPY}, {1: COPY}]):
        links._found.append(COPY)
        links._note(rates_found, GOOD, 1)
        expected = {1: number + 1, **({2: 1} if 2 in rates_found else {})}
        assert {node: one.times for node, one in state.slow.items()} == expected
    links._found.clear()
    links._found.append(COPY)
    links._note({1: COPY}, GOOD, 2)
    assert state.slow[1].times == 2, "measurements in a row"


def test_no_node_is_slow_if_none_is_faster(monkeypatch):
    async def flow(state, other):
        return rates.Flow(GOOD / 2, GOOD)

    monkeypatch.setattr(rates, "flow", flow)
    state = SimpleNamespace(following=lambda node: node + 1, demoted=[], upstream_path=[0])
    assert asyncio.run(SlowNodes(state)._most_past(2, GOOD)) == (GOOD, {})


LINKS = {
    "full, of a node that receives as much": ({}, False),
    "full, of the first node, which cannot know": ({"leading": True}, True),
    "full, of the first node, once a slow one has moved": ({"leading": True, "past": GOOD}, False),
    "half of what a slow node took from the others": ({"leading": True, "past": 2.1 * GOOD}, True),
    "half of what arrives": ({"best": 2.1 * GOOD}, True),
    "a little less than what arrives": ({"best": 1.6 * GOOD}, False),
    "a little less than what arrived for long": ({"best": 1.6 * GOOD, "since": 6.0}, True),
    "of a node that has data to send": ({"starving": 0.0}, True),
    "of a node that has everything": ({"starving": 0.0, "missing": 0}, False),
    "slow, but just measured": ({"best": 2.1 * GOOD, "measured": 0.5}, False),
}


@pytest.mark.parametrize("case", LINKS)
def test_only_a_link_that_may_be_slow_gets_test_data(case):
    given, worth = LINKS[case]
    plane = bytes([0] * given.get("missing", 1) + [1] * 3)
    past = [(1, (1e6, given["past"]))] if "past" in given else []
    state = SimpleNamespace(
        leading=given.get("leading", False),
        moves=lambda: past,
        report=lambda: SimpleNamespace(starving=given.get("starving", 1.0)),
        prepared=SimpleNamespace(task=SimpleNamespace(board=SimpleNamespace(plane=lambda _: plane))),
    )
    watched, now = SlowNodes(state), time.monotonic()
    watched._moves, watched._best = len(past), given.get("best", GOOD)
    watched._began = now - given.get("since", 1.0)
    watched._measured = now - given.get("measured", 60.0)
    assert watched._worth_measuring(GOOD) is worth


def test_the_time_of_the_next_node_counts_from_one_beginning(monkeypatch):
    links = SlowNodes(SimpleNamespace(downstream={}))
    monkeypatch.setattr(links, "_waits", lambda _: True)
    # The node reports its time since it started, then since the copy began: 2 MB/s.
    reports = [(0.3, 0.0), (0.2, 0.2), (0.2, 0.2), (0.4, 0.4), (0.4, 0.4), (0.6, 0.6), (0.6, 0.6), (0.8, 0.8)]
    for number, (there_time, seconds) in enumerate(reports):
        now = _Sample(number * 0.1, int(number * 2e5), 0, number * 0.1, int(seconds * COPY), there_time)
        monkeypatch.setattr(links, "_sample", lambda now=now: now)
        found = links._waiting_rate(1)
        if found is not None:
            break
    assert found == pytest.approx(COPY)
    assert links._arrived_since(links._samples[0]) == pytest.approx(COPY)


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
from dlrun.node.relay import rates
measured = []
async def flow(state, other):
    measured.append(other)
    open({gate!r} + ".measured", "w").write("x" * len(measured))
    return rates.Flow(*[1e12 if len(measured) == 1 else 0.0] * 2)
rates.flow = flow
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
