"""The writer threads of a worker: check the hashes of received blocks, write them, record them in the journal."""

import queue
import threading
import time
from typing import Callable

from ..blocks.buffer import BlockBuffer
from ..blocks.journal import Journal
from ..blocks.progress_board import DONE, SEEN, TAKEN
from ..blocks.writer import verify_block
from ..common.errors import Damaged
from ..store.layout import AnyWriter
from .task import Task


class Backlog:
    """Counts the time in which at least one block waits or is written, regardless of the number of threads."""

    def __init__(self, count: Callable[[str, int], None]) -> None:
        self._count, self._lock = count, threading.Lock()
        self._waiting, self._counted = 0, 0.0  # blocks; up to when

    def begin(self) -> None:
        """Add a waiting block."""
        with self._lock:
            if not self._waiting:
                self._counted = time.perf_counter()
            self._waiting += 1

    def end(self) -> None:
        """Remove a block that was written."""
        with self._lock:
            self._waiting -= 1
            now = time.perf_counter()
            self._count("disk", int((now - self._counted) * 1e9))
            self._counted = now


class BlockWriters:
    """The writer threads of a worker.

    count(counter, amount): adds to the progress board; damaged(fault): called for a block with wrong hashes;
    failed(error): for a disk error. If the task does not write, blocks are only checked.
    """

    def __init__(
        self,
        task: Task,
        journal: Journal,
        threads: int,
        count: Callable[[str, int], None],
        damaged: Callable[[Damaged], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._task, self._journal = task, journal
        self._count, self._damaged, self._failed = count, damaged, failed
        self._queue: queue.Queue[BlockBuffer] = queue.Queue()
        self._backlog = Backlog(count)
        for _ in range(threads):
            threading.Thread(target=self._run, daemon=True).start()

    def put(self, buffer: BlockBuffer) -> None:
        """Queue a complete buffer, retained until it is written."""
        buffer.retain()
        self._backlog.begin()
        self._queue.put(buffer)

    def _run(self) -> None:
        try:
            writer = self._task.layout.writer(self._task.sync)
            while True:
                self._write_next(writer)
        except BaseException as fault:  # noqa: BLE001 - the worker ends with it
            self._failed(fault)

    def _write_next(self, writer: AnyWriter) -> None:
        buffer = self._queue.get()
        try:
            self._write_block(buffer, writer)
        except Damaged as fault:
            # Clear its flags: it is received again. It was forwarded already, but each node checks the hashes itself.
            self._task.board.mark(buffer.number, SEEN, False)
            self._task.board.mark(buffer.number, TAKEN, False)
            self._damaged(fault)
        finally:
            self._backlog.end()
            buffer.release()

    def _write_block(self, buffer: BlockBuffer, writer: AnyWriter) -> None:
        task, number = self._task, buffer.number
        block, view = task.blocks[number], buffer.view[: buffer.length]
        verify_block(block, view, buffer.digests, task.manifest, task.hasher)
        if task.write and not task.board.has(number, DONE):
            writer.write(block, view)
            self._journal.add(number, buffer.digests)
            task.board.mark(number, DONE)
            self._count("blocks", 1)
            self._count("bytes", block.length)
            self._count("files", block.file_count if not block.offset else 0)
