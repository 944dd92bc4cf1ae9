"""Pass buffers on to the next node as they fill, and send again what a new next node has missed."""

import contextlib
import queue
import socket
import threading
import time
from typing import Callable, List, Optional, Union

from ..blocks.buffer import BlockBuffer
from ..common.errors import NodeError
from ..network import wire
from .stride import Stride


class Sender:
    """One worker's connection to one node after this one, with a thread of its own.

    `missed` are blocks to send first, each made by `again`; `count` takes a counter's name and an amount;
    `broken` is called once if the connection fails before `close`.
    """

    def __init__(
        self,
        peer: socket.socket,
        key: bytes,
        missed: List[int],
        again: Callable[[int], BlockBuffer],
        count: Callable[[str, int], None],
        broken: Callable[[], None],
    ) -> None:
        self._peer, self._key, self._missed, self._again = peer, key, missed, again
        self._count, self._broken = count, broken
        self._queue: queue.Queue[Optional[BlockBuffer]] = queue.Queue()
        self._open = True
        self._lock = threading.Lock()
        self._stride = Stride()
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, buffer: BlockBuffer) -> None:
        """Send a buffer after those before it; it is held until it is sent."""
        with self._lock:
            if self._open:
                buffer.retain()
                self._queue.put(buffer)

    def close(self) -> None:
        """Give up the connection and let go of what was not sent."""
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
            for number in self._missed:
                if self._open:
                    self._send(self._again(number))
            buffer = self._queue.get()
            while buffer is not None:
                self._send(buffer)
                buffer = self._queue.get()
        except (OSError, NodeError):
            pass  # `broken` tells; the node after, or a new one, says what it has not
        ended_here = self._shut()
        while not self._queue.empty():
            left = self._queue.get()
            if left is not None:
                left.release()
        self._peer.close()
        if ended_here:
            self._broken()

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
                parts, sent = [], sent + amount
            if parts:  # a block of empty files
                wire.send_all(self._peer, parts)
            self._count("sent", sent)
        finally:
            buffer.release()
