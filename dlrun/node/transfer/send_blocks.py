"""Pass buffers on to the next node as they fill, and send again what a new next node has missed."""

import contextlib
import queue
import socket
import threading
import time
from collections import deque
from typing import Callable, List, Optional, Union

from ..blocks.buffer import BlockBuffer
from ..common.errors import NodeError
from ..network import wire
from .stride import Stride

AHEAD = 1  # blocks that wait in memory for a node set apart


class Sender:
    """One worker's connection to one node after this one, with a thread of its own.

    `missed` are blocks to send first, each made by `again`; `count` takes a counter's name and an amount;
    `broken` is called once if the connection fails before `close`. `apart`: a node that is slow; what it has not taken yet
    is released and made again later, so that no other node waits for it.
    """

    def __init__(
        self,
        peer: socket.socket,
        key: bytes,
        missed: List[int],
        again: Callable[[int], BlockBuffer],
        count: Callable[[str, int], None],
        broken: Callable[[], None],
        apart: bool = False,
    ) -> None:
        self._peer, self._key, self._missed, self._again = peer, key, deque(missed), again
        self._count, self._broken = count, broken
        self._queue: queue.Queue[Optional[BlockBuffer]] = queue.Queue()
        self._open, self._apart = True, apart
        self._lock = threading.Lock()
        self._stride = Stride()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, buffer: BlockBuffer) -> None:
        """Send a buffer after those before it; it is held until it is sent."""
        with self._lock:
            # A buffer that waits here is one that the previous node cannot reuse: for a slow node note the number,
            # read it again later.
            if self._apart and self._queue.qsize() >= AHEAD:
                self._missed.append(buffer.number)
            elif self._open:
                buffer.retain()
                self._queue.put(buffer)

    def set_apart(self) -> None:
        """From now on, and for what waits to be sent already, hold no buffers for this node."""
        with self._lock:
            self._apart = True
            with contextlib.suppress(queue.Empty):
                while self._open:
                    buffer = self._queue.get_nowait()
                    if buffer is not None:
                        self._missed.append(buffer.number)
                        buffer.release()

    def close(self) -> None:
        """Give up the connection and release what was not sent."""
        self._shut()
        with contextlib.suppress(OSError):  # it may be gone already
            self._peer.shutdown(socket.SHUT_RDWR)

    def _shut(self) -> bool:
        """Take no more buffers; whether this call was the one that ended it."""
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
            pass  # `broken` reports it; the next node, or its successor, requests what it does not have
        ended_here = self._shut()
        while not self._queue.empty():
            left = self._queue.get()
            if left is not None:
                left.release()
        self._peer.close()
        if ended_here:
            self._broken()

    def _next(self) -> Optional[BlockBuffer]:
        """What is to be sent next: what was missed first, but for a node set apart when no buffer waits; None at the end."""
        with self._lock:
            later = self._apart and not self._queue.empty()
            number = self._missed.popleft() if self._missed and self._open and not later else None
        return self._queue.get() if number is None else self._again(number)

    def _send(self, buffer: BlockBuffer) -> None:
        try:
            head = wire.Head(buffer.number, buffer.length, buffer.digests).pack(self._key)
            parts: List[Union[bytes, memoryview]] = [head]
            sent = 0
            while sent < buffer.length:
                filled = buffer.wait(sent)
                if filled < 0:
                    wire.send_all(self._peer, [*parts, wire.SEGMENT.pack(wire.ABORT)])
                    return
                amount = min(filled - sent, self._stride.size)
                began = time.perf_counter()
                wire.send_all(
                    self._peer, [*parts, wire.SEGMENT.pack(amount), buffer.view[sent : sent + amount]]
                )
                elapsed = time.perf_counter() - began
                self._stride.judge(amount, elapsed)
                self._count("held", int(elapsed * 1e9))
                self._count("sent", amount)
                parts, sent = [], sent + amount
            if parts:  # a block of empty files
                wire.send_all(self._peer, parts)
        finally:
            buffer.release()
