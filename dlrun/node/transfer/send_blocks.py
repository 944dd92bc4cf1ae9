"""Forward buffers to the next node while they fill, and resend blocks that a new next node has missed."""

import contextlib
import queue
import socket
import struct
import threading
import time
from collections import deque
from typing import Callable, List, Optional, Union

from ..blocks.buffer import BlockBuffer
from ..common.errors import NodeError
from ..network import wire

MAX_QUEUED = 1  # blocks queued in memory for a slow node (`detached`)


class Sender:
    """A worker's connection to one following node, with its own thread.

    missed: blocks to send first, each read with reread(number); count(counter, amount): adds to the progress board;
    broken(): called once if the connection fails before `close`. detached: the node is slow; the buffers of blocks that it
    has not received are released and the blocks read again later, so that no other node waits for it. held: bytes that the
    node has of the first of the missed blocks, which are not sent.
    """

    def __init__(
        self,
        peer: socket.socket,
        key: bytes,
        missed: List[int],
        reread: Callable[[int], BlockBuffer],
        count: Callable[[str, int], None],
        broken: Callable[[], None],
        detached: bool = False,
        held: int = 0,
    ) -> None:
        self._peer, self._key, self._missed, self._reread = peer, key, deque(missed), reread
        # Blocks that were sent as a whole, or will be read and sent: one that comes once more, after only a part of it came
        # from a previous node that was replaced, is not sent for a second time.
        self._whole = set(missed)
        self._count, self._broken = count, broken
        self._queue: queue.Queue[Optional[BlockBuffer]] = queue.Queue()
        self._open, self._detached, self._held = True, detached, held
        self._lock = threading.Lock()
        self._piece_size = PieceSize()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, buffer: BlockBuffer) -> None:
        """Queue a buffer; it is retained until it is sent."""
        with self._lock:
            if buffer.number in self._whole:
                return
            # A buffer that is queued here is not free for the next block: of a block for a slow node only the number is
            # kept, and the block is read again later.
            if self._detached and self._queue.qsize() >= MAX_QUEUED:
                self._miss(buffer.number)
            elif self._open:
                buffer.retain()
                self._queue.put(buffer)

    def detach(self) -> None:
        """Release the queued buffers, and retain none for this node from now on."""
        with self._lock:
            self._detached = True
            with contextlib.suppress(queue.Empty):
                while self._open:
                    buffer = self._queue.get_nowait()
                    if buffer is not None:
                        self._miss(buffer.number)
                        buffer.release()

    def _miss(self, number: int) -> None:
        """Read and send a block later."""
        if number not in self._whole:
            self._whole.add(number)
            self._missed.append(number)

    def close(self) -> None:
        """End the connection and release the queued buffers."""
        self._shut()
        # It may be gone already.
        with contextlib.suppress(OSError):
            # What is still in its buffer would take a part of the link from the next node: it is dropped.
            self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._peer.shutdown(socket.SHUT_RDWR)

    def _shut(self) -> bool:
        """Stop queueing; returns whether this was the first call."""
        with self._lock:
            was_open, self._open = self._open, False
            self._queue.put(None)
        return was_open

    def _run(self) -> None:
        try:
            buffer = self._next()
            while buffer is not None:
                self._send(buffer)
                buffer = self._next()
        except (OSError, NodeError):
            # `broken` reports it; the next node, or the one after it, requests the blocks that it lacks.
            pass
        ended_here = self._shut()
        while not self._queue.empty():
            left = self._queue.get()
            if left is not None:
                left.release()
        self._peer.close()
        if ended_here:
            self._broken()

    def _next(self) -> Optional[BlockBuffer]:
        """The next buffer: missed blocks first, for a slow node queued ones first; None at the end."""
        with self._lock:
            queued_first = self._detached and not self._queue.empty() and not self._held
            number = self._missed.popleft() if self._missed and self._open and not queued_first else None
        return self._queue.get() if number is None else self._reread(number)

    def _send(self, buffer: BlockBuffer) -> None:
        try:
            head = wire.Head(buffer.number, buffer.length, buffer.digests).pack(self._key)
            parts: List[Union[bytes, memoryview]] = [head]
            sent, self._held = self._held, 0
            while sent < buffer.length:
                filled = buffer.wait(sent)
                if filled < 0:
                    wire.send_all(self._peer, [*parts, wire.SEGMENT.pack(wire.ABORT)])
                    return
                if filled == buffer.length:
                    # From here on it cannot fail.
                    self._whole.add(buffer.number)
                amount = min(filled - sent, self._piece_size.size)
                began = time.perf_counter()
                wire.send_all(
                    self._peer, [*parts, wire.SEGMENT.pack(amount), buffer.view[sent : sent + amount]]
                )
                elapsed = time.perf_counter() - began
                self._piece_size.adjust(amount, elapsed)
                self._count("held", int(elapsed * 1e9))
                self._count("sent", amount)
                parts, sent = [], sent + amount
            # A block of empty files.
            if parts:
                wire.send_all(self._peer, parts)
        finally:
            buffer.release()


# The number of bytes received before they are forwarded: few on a slow link, many on a fast one.
#
# If a piece takes TARGET_SECONDS, the last of N nodes starts after N times that. Larger pieces need fewer system calls, which
# matters on links that transfer 1 MiB in less time.

MIN, MAX = 64 << 10, 1 << 20  # bytes of a piece
TARGET_SECONDS = 0.005  # seconds that one piece should take
# Multiples of TARGET_SECONDS below which the size is doubled, and above which it is halved.
DOUBLE_BELOW, HALVE_ABOVE = (0.7, 2.0)


class PieceSize:
    """`size` is the number of bytes of the next piece, adjusted by the times of the previous ones."""

    def __init__(self) -> None:
        self.size = MIN

    def adjust(self, amount: int, elapsed: float) -> None:
        """Adjust the size after a piece of `amount` bytes took `elapsed` seconds."""
        if elapsed < TARGET_SECONDS * DOUBLE_BELOW and amount >= self.size:
            self.size = min(MAX, self.size * 2)
        elif elapsed > TARGET_SECONDS * HALVE_ABOVE:
            self.size = max(MIN, self.size // 2)
