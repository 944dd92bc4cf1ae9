"""Sending to a node: each block once, and what is left of a connection that ends."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest
from dlrun.node.blocks.buffer import BlockBuffer, BufferPool
from dlrun.node.blocks.progress_board import SEEN, TAKEN, ProgressBoard
from dlrun.node.network import wire
from dlrun.node.transfer import worker
from dlrun.node.transfer.send_blocks import Sender

SIZE = 16 << 20  # bytes: more than the buffers of a connection


class Buffer:
    """A block that has been received as a whole."""

    number, length, digests, view = 0, SIZE, b"", memoryview(bytes(SIZE))

    def wait(self, _):
        return SIZE

    def retain(self):
        pass

    release = retain


def drain(receiver):
    """Receive to the end of the connection."""
    while receiver.recv(1 << 20):
        pass


def test_a_connection_that_is_closed_takes_nothing_more_from_the_link():
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        with server.accept()[0] as receiver:
            counts = []
            sender = Sender(peer, b"", [], None, lambda *count: counts.append(count), lambda: None)
            sender.put(Buffer())
            end = time.monotonic() + 60
            while len(counts) < 2 and time.monotonic() < end:
                time.sleep(0.01)
            sender.close()
            while peer.fileno() >= 0 and time.monotonic() < end:
                time.sleep(0.01)
            with pytest.raises(ConnectionResetError):
                drain(receiver)


SMALL = 1000  # bytes of a block


def block(number, *, failed=False):
    """A block of which all has arrived, or only the first half."""
    made = BlockBuffer(BufferPool(9), number, SMALL)
    made.fill(SMALL // 2 if failed else SMALL)
    if failed:
        made.fail()
    return made


def frame(peer):
    """The number of the block that arrives, and whether all of it does."""
    head, done = wire.receive_head(peer, b""), 0
    while done < head.length:
        size = wire.SEGMENT.unpack(wire.exactly(peer, wire.SEGMENT.size))[0]
        if size == wire.ABORT:
            return head.number, False
        wire.exactly(peer, size)
        done += size
    return head.number, True


ARRIVALS = {
    "a missed block arrives before it has been read": [block(0), "read", (0, True)],
    "a missed block arrives after it was sent": ["read", (0, True), block(0)],
    "a block arrives after it was sent": ["read", (0, True), block(1), (1, True), block(1)],
    "a block arrives after a part of it was sent": [
        "read",
        (0, True),
        block(1, failed=True),
        (1, False),
        block(1),
        (1, True),
    ],
}


@pytest.mark.parametrize("case", ARRIVALS)
def test_a_block_is_sent_as_a_whole_only_once(case):
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    read = threading.Event()

    def reread(number):
        assert read.wait(60)
        return block(number)

    with theirs:
        sender = Sender(ours, b"", [0], reread, lambda *_: None, lambda: None)
        for step in [*ARRIVALS[case], block(9), (9, True)]:
            if step == "read":
                read.set()
            elif isinstance(step, tuple):
                assert frame(theirs) == step
            else:
                sender.put(step)
        sender.close()


def test_only_the_rest_of_a_block_is_sent_to_a_node_that_has_a_part():
    ours, theirs = socket.socketpair()
    theirs.settimeout(60)
    with theirs:
        # `detached`: blocks that arrive here go first to a slow node, but not before the rest of one.
        sender = Sender(
            ours,
            b"",
            [3],
            lambda number: block(number),
            lambda *_: None,
            lambda: None,
            detached=True,
            held=400,
        )
        assert wire.receive_head(theirs, b"").number == 3
        assert wire.SEGMENT.unpack(wire.exactly(theirs, wire.SEGMENT.size)) == (SMALL - 400,)
        wire.exactly(theirs, SMALL - 400)
        sender.put(block(4))
        assert frame(theirs) == (4, True)
        sender.close()


PARTS = {  # what the node has of a block -> (missed blocks, bytes that are not sent)
    "no part": ((0, 0), ([0, 1, 3], 0)),
    "a part of a block that is here": ((3, 500), ([3, 0, 1], 500)),
    "a part of a block that is arriving here": ((1, 500), ([0, 1, 3], 0)),
    "a part of a block that is not here": ((2, 500), ([0, 1, 3], 0)),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_new_next_node_gets_each_block_once_and_the_rest_of_a_part_first(monkeypatch, case):
    part, expected = PARTS[case]
    board, missed = ProgressBoard(4, 1), []
    monkeypatch.setattr(worker, "prepare", lambda _: None)  # for TCP
    monkeypatch.setattr(worker, "Sender", lambda *_, **given: missed.append((given["missed"], given["held"])))
    node = worker.Worker.__new__(worker.Worker)
    node.task, node.lock, node.key = SimpleNamespace(blocks=range(4), board=board), threading.Lock(), b""
    node.senders, node.forwardable, node.connecting, node.count = {}, {}, {}, lambda *_: None
    for number in (0, 1, 2, 0, 1, 3):
        node.pass_on(block(number))
    board.mark(0, SEEN)
    board.mark(1, TAKEN)
    board.mark(3, SEEN)
    # Of block 2 only a part arrived: it is passed on when it arrives as a whole.
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(4) + wire.PART.pack(*part))
        node.connecting[7] = ours
        node.send_to(7, 1, ours, detached=False)
        if part[1]:
            assert wire.SEGMENT.unpack(theirs.recv(100)) == (expected[1],)
    assert missed == [expected]
