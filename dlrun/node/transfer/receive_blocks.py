"""Receive blocks from the previous node, and forward each of them while it is still being received."""

import contextlib
import socket
import threading
import time
from typing import Callable, Optional

from ..blocks.buffer import BlockBuffer, BufferPool
from ..blocks.progress_board import SEEN, TAKEN
from ..common.errors import Damaged
from ..network import wire
from .send_blocks import PieceSize
from .task import Task

POLL_INTERVAL = 0.005  # seconds between checks of a block that another worker receives
_WHOLE, _ABORTED, _ENDED = range(3)


class Receiver:
    """A worker's connection from the previous node, with its own thread.

    claim(number): whether this worker is to receive a block; arriving(buffer): called after the head of a block, must
    retain the buffer; arrived(buffer): called when it is complete; lost(): called if the connection ends without `close`;
    count(counter, amount): adds to the progress board; part: a block of which the first bytes came over the last connection.
    """

    def __init__(
        self,
        peer: socket.socket,
        key: bytes,
        task: Task,
        pool: BufferPool,
        claim: Callable[[int], bool],
        arriving: Callable[[BlockBuffer], None],
        arrived: Callable[[BlockBuffer], None],
        lost: Callable[[], None],
        count: Callable[[str, int], None],
        part: Optional[BlockBuffer] = None,
    ) -> None:
        self._peer, self._key, self._task, self._pool = peer, key, task, pool
        self._claim, self._arriving, self._arrived = claim, arriving, arrived
        self._lost, self._count = lost, count
        self._open, self._part = True, part
        self._piece_size = PieceSize()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the connection, and wait for its thread: no more blocks arrive after that."""
        self._open = False
        self.break_off()
        self._thread.join()

    def break_off(self) -> None:
        """Break the connection, like a network failure."""
        # It may be gone already.
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)

    def take_part(self) -> Optional[BlockBuffer]:
        """The block of which only a part came before the connection ended, for the next connection; the caller holds it."""
        part, self._part = self._part, None
        return part

    def drop_part(self) -> None:
        """Give that block up: it can be claimed once more, and the following nodes drop their part of it, too."""
        part = self.take_part()
        if part is not None:
            self._give_up(part)
            part.release()

    def _run(self) -> None:
        try:
            if self._part is not None:
                self._agree_on_part()
            while self._open:
                began = time.perf_counter()
                head = wire.receive_head(self._peer, self._key)
                self._count("starved", int((time.perf_counter() - began) * 1e9))
                if head is None:
                    break
                self._check(head)
                if not self._block(head):
                    break
        # After a reconnection the previous node sends the missing blocks again.
        except (OSError, Damaged):
            pass
        self._peer.close()
        if self._open:
            self._lost()

    def _agree_on_part(self) -> None:
        """Find out whether the previous node sends the rest of the block of which a part is here, before all others."""
        raw = wire.exactly(self._peer, wire.SEGMENT.size)
        if raw is None:
            raise ConnectionResetError
        # Another worker may be waiting to receive that block.
        if not wire.SEGMENT.unpack(raw)[0]:
            self.drop_part()

    def _check(self, head: wire.Head) -> None:
        task = self._task
        if head.number >= len(task.blocks) or head.length != task.blocks[head.number].length:
            raise Damaged("received a block that does not match the manifest")
        if len(head.digests) != task.digests_length(head.number):
            raise Damaged("received a block without its hashes")

    def _block(self, head: wire.Head) -> bool:
        """Receive one block; returns whether the connection continues."""
        if self._part is not None:
            if (self._part.number, self._part.digests) != (head.number, head.digests):
                self.drop_part()
                raise Damaged("received a block that does not match the manifest")
            return self._receive(self._part, wanted=True)
        wanted = self._mine(head.number)
        buffer = BlockBuffer(self._pool, head.number, head.length, head.digests)
        if wanted:
            # Forwarded from its first segment on: the last of N nodes then starts after N pieces, not N blocks.
            self._arriving(buffer)
        return self._receive(buffer, wanted=wanted)

    def _receive(self, buffer: BlockBuffer, wanted: bool) -> bool:
        """Receive what a block lacks; returns whether the connection continues."""
        outcome, self._part = _ENDED, None
        try:
            outcome = self._payload(buffer)
        except Damaged:
            outcome = _ABORTED
            raise
        finally:
            # The following nodes, too, keep what they have of the block, and get the rest when it comes here. Its hashes
            # are checked over all of it.
            if wanted and outcome == _ENDED and buffer.filled:
                self._part = buffer
            else:
                if wanted and outcome == _WHOLE:
                    self._task.board.mark(buffer.number, SEEN)
                    self._arrived(buffer)
                elif wanted:
                    self._give_up(buffer)
                buffer.release()
        return outcome != _ENDED

    def _give_up(self, buffer: BlockBuffer) -> None:
        """Make the following nodes drop their part of a block, too; then it can be claimed again."""
        buffer.fail()
        self._task.board.mark(buffer.number, TAKEN, False)

    def _mine(self, number: int) -> bool:
        """Whether to keep the block: False if it was seen before; waits while another worker is receiving it."""
        while not self._claim(number):
            if self._task.board.has(number, SEEN):
                return False
            time.sleep(POLL_INTERVAL)
        return True

    def _payload(self, buffer: BlockBuffer) -> int:
        done, length = buffer.filled, buffer.length
        size = self._segment() if length else 0
        while done < length:
            if size is None:
                return _ENDED
            if size == wire.ABORT:
                return _ABORTED
            if not 0 < size <= length - done:
                raise Damaged("received a segment with an invalid length")
            more = wire.SEGMENT.size if done + size < length else 0
            if not self._receive_pieces(buffer, done, size, more):
                return _ENDED
            done += size
            if more:
                # The length of the next segment was received with this one, into the bytes that follow it in the buffer:
                # this saves a system call per segment. The next segment overwrites it.
                size = int(wire.SEGMENT.unpack_from(buffer.view, done)[0])
        return _WHOLE

    def _receive_pieces(self, buffer: BlockBuffer, done: int, size: int, more: int) -> bool:
        """Receive a segment and `more` bytes after it in pieces; returns False if the connection ended."""
        position, end = done, done + size + more
        while position < end:
            amount = min(self._piece_size.size, end - position)
            began = time.perf_counter()
            if not wire.fill(self._peer, buffer.view[position : position + amount]):
                return False
            elapsed = time.perf_counter() - began
            self._piece_size.adjust(amount, elapsed)
            self._count("starved", int(elapsed * 1e9))
            self._count("received", amount)
            position += amount
            buffer.fill(min(position, done + size))
        return True

    def _segment(self) -> Optional[int]:
        raw = wire.exactly(self._peer, wire.SEGMENT.size)
        return None if raw is None else int(wire.SEGMENT.unpack(raw)[0])
