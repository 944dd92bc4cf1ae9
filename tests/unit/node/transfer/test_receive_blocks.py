"""Receiving from a new previous node the rest of a block of which a part had come before."""

import contextlib
import os
import socket
import threading
from types import SimpleNamespace

import pytest
from dlrun.node.blocks.buffer import BufferPool
from dlrun.node.blocks.progress_board import SEEN, TAKEN, ProgressBoard
from dlrun.node.network import wire
from dlrun.node.transfer.receive_blocks import Receiver

KEY, DIGESTS = b"key", b"hash" * 8
DATA = os.urandom(200_000)
HERE = 100_000  # bytes that came over the first connection


class Node:
    """What receivers of one worker have in common, and what they call."""

    def __init__(self):
        self.board, self.pool = ProgressBoard(2, 1), BufferPool(2)
        self.passed_on, self.whole, self.lost = [], [], threading.Event()
        self.task = SimpleNamespace(
            board=self.board,
            blocks=[SimpleNamespace(length=len(DATA))] * 2,
            digests_length=lambda _: len(DIGESTS),
        )

    def connect(self, part=None):
        """(receiver, the sender's end)."""
        ours, theirs = socket.socketpair()
        self.lost.clear()
        receiver = Receiver(
            ours,
            KEY,
            self.task,
            self.pool,
            self.claim,
            self.passed_on.append,
            lambda buffer: self.whole.append((buffer.number, bytes(buffer.view[: buffer.length]))),
            self.lost.set,
            lambda *_: None,
            part,
        )
        return receiver, theirs

    def claim(self, number):
        if self.board.has(number, SEEN) or self.board.has(number, TAKEN):
            return False
        self.board.mark(number, TAKEN)
        return True

    def interrupted(self):
        """The part that is left of a connection that ends in the middle of block 0."""
        receiver, peer = self.connect()
        with peer:
            peer.sendall(frame(0, DATA)[: -len(DATA) + HERE])
        assert self.lost.wait(60)
        receiver.close()
        return receiver.take_part()


def reply(held):
    """The reply of a sender to a part of a block: how many bytes it does not send of it."""
    return wire.SEGMENT.pack(held)


def frame(number, data, digests=DIGESTS):
    """A block, or the rest of one."""
    return wire.Head(number, len(DATA), digests).pack(KEY) + wire.SEGMENT.pack(len(data)) + data


def test_the_rest_of_a_block_comes_from_the_next_sender():
    node = Node()
    part = node.interrupted()
    assert 0 < part.filled <= HERE
    assert node.board.has(0, TAKEN)
    _, peer = node.connect(part)
    with peer:
        peer.sendall(reply(part.filled) + frame(0, DATA[part.filled :]) + frame(1, DATA))
    assert node.lost.wait(60)
    assert node.whole == [(0, DATA), (1, DATA)]
    assert [one.number for one in node.passed_on] == [0, 1], "the following nodes get the same buffer filled"
    assert not node.passed_on[0].failed


REFUSALS = {
    "the next sender does not send the rest": reply(0) + frame(1, DATA) + frame(0, DATA),
    "it sends another block": reply(HERE) + frame(1, DATA),
    "it sends a block with other hashes": reply(HERE) + frame(0, DATA[HERE:], b"fake" * 8),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_part_is_given_up_unless_its_rest_comes_next(case):
    node = Node()
    part = node.interrupted()
    _, peer = node.connect(part)
    with peer, contextlib.suppress(BrokenPipeError):  # the receiver may close before it has read all
        peer.sendall(REFUSALS[case])
    assert node.lost.wait(60)
    assert part.failed, "the following nodes drop it, too"
    if case.startswith("the next"):
        assert node.whole == [(1, DATA), (0, DATA)]
    else:
        assert not node.whole
        assert not node.board.has(0, TAKEN), "it can be received anew"


def test_a_part_outlives_a_second_break():
    node = Node()
    part = node.interrupted()
    receiver, peer = node.connect(part)
    peer.close()
    assert node.lost.wait(60)
    receiver.close()
    assert receiver.take_part() is part
    assert not part.failed


def test_a_part_is_given_up_when_this_node_stops_receiving():
    node = Node()
    part = node.interrupted()
    receiver, peer = node.connect(part)
    receiver.close()
    receiver.drop_part()
    peer.close()
    assert part.failed
    assert not node.board.has(0, TAKEN)


DAMAGE = {
    "a segment of an invalid length": frame(0, DATA)[: -len(DATA) - 4] + wire.SEGMENT.pack(len(DATA) + 1),
    "an aborted block": frame(0, DATA)[: -len(DATA) - 4]
    + wire.SEGMENT.pack(10)
    + bytes(10)
    + reply(wire.ABORT),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_no_part_is_left_of_a_block_that_is_damaged_or_aborted(case):
    node = Node()
    receiver, peer = node.connect()
    with peer:
        peer.sendall(DAMAGE[case])
    assert node.lost.wait(60)
    receiver.close()
    assert receiver.take_part() is None
    assert not node.board.has(0, TAKEN)
