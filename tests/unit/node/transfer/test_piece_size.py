"""What is passed on before all of it has come."""

import queue
import socket
import time
from types import SimpleNamespace

from dlrun.node.blocks.blocks import Block
from dlrun.node.blocks.buffer import BufferPool
from dlrun.node.blocks.progress_board import ProgressBoard
from dlrun.node.network import wire
from dlrun.node.transfer.receive_blocks import Receiver
from dlrun.node.transfer.send_blocks import MAX, MIN, TARGET_SECONDS, PieceSize


def test_a_piece_grows_on_a_fast_link_and_shrinks_on_a_slow_one():
    piece = PieceSize()
    for _ in range(10):
        piece.adjust(piece.size, TARGET_SECONDS / 10)
    assert piece.size == MAX
    piece.adjust(MIN, TARGET_SECONDS / 10)
    piece.adjust(piece.size, TARGET_SECONDS)
    assert piece.size == MAX, "neither a short one nor one in good time says anything"
    for _ in range(10):
        piece.adjust(piece.size, TARGET_SECONDS * 10)
    assert piece.size == MIN


def test_a_size_is_found_for_every_link_and_kept():
    for rate, size in ((12.5e6, 64), (25e6, 128), (50e6, 256), (125e6, 512), (1.25e9, 1024)):
        piece, sizes = PieceSize(), []
        for _ in range(20):
            piece.adjust(piece.size, piece.size / rate)
            sizes.append(piece.size >> 10)
        assert sizes[10:] == [size] * 10
        assert size in (MIN >> 10, MAX >> 10) or TARGET_SECONDS / 2 < (size << 10) / rate < 2 * TARGET_SECONDS


def test_what_arrives_is_passed_on_before_its_segment_is_complete():
    """A chain starts in the time of N pieces, not of N segments."""
    ours, theirs = socket.socketpair()
    key, length = bytes(32), 1 << 20
    task = SimpleNamespace(
        board=ProgressBoard(1, 1), blocks=[Block(0, 1, 0, length)], digests_length=lambda _: 0
    )
    arriving = queue.Queue()

    def take(buffer):
        buffer.retain()
        arriving.put(buffer)

    def nothing(*_):
        pass

    receiver = Receiver(theirs, key, task, BufferPool(2), lambda _: True, take, nothing, nothing, nothing)
    ours.sendall(wire.Head(0, length, b"").pack(key) + wire.SEGMENT.pack(length) + bytes(MIN))
    buffer = arriving.get(timeout=60)
    until(lambda: buffer.filled == MIN)
    ours.sendall(bytes(length - MIN))
    until(lambda: buffer.filled == length)
    receiver.close()
    ours.close()


def test_a_slow_link_counts_as_waiting_for_the_node_before():
    """Else the report would name nobody where one link has a quarter of the others' rate."""
    ours, theirs = socket.socketpair()
    key, length = bytes(32), 1 << 20
    task = SimpleNamespace(
        board=ProgressBoard(1, 1), blocks=[Block(0, 1, 0, length)], digests_length=lambda _: 0
    )
    waited, arrived = [0], queue.Queue()

    def count(counter, amount):
        waited[0] += amount * (counter == "starved")

    def nothing(*_):
        pass

    receiver = Receiver(
        theirs, key, task, BufferPool(2), lambda _: True, nothing, arrived.put, nothing, count
    )
    ours.sendall(wire.Head(0, length, b"").pack(key) + wire.SEGMENT.pack(length) + bytes(length - 10))
    time.sleep(3)  # it begins to wait at some moment of these
    ours.sendall(bytes(10))
    arrived.get(timeout=60)
    assert waited[0] > 0.25e9
    receiver.close()
    ours.close()


def until(so):
    """Wait until something is so."""
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end
        time.sleep(0.005)
