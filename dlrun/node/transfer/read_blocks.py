"""The reader threads of a worker: take a token, read its blocks, write them on this node, forward them."""

import contextlib
import os
import threading
import time
from typing import Callable, List, Optional, Tuple

from ..blocks.buffer import SLACK, BlockBuffer, BufferPool
from ..blocks.journal import Journal
from ..blocks.progress_board import DONE, FAULTY, SEEN, WANTED
from ..common.concurrency import Concurrency
from ..common.errors import SourceFault
from ..common.system import set_idle_io, waited_for_cores
from ..store.layout import AnyReader, AnyWriter
from .task import Task, Tokens

STEP = 0.05  # seconds between two adjustments of the number of threads
MAX_HELD = 0.5  # seconds of waiting for buffers per second, above which the next node limits the rate
FILE_WEIGHT = 1 << 15  # bytes that a file adds to the measured work, for its open and close
SLOW_START = 16  # initial threads at a source that the walk found slow
LARGE_START = 2  # initial threads for mostly large files: one reads and hashes while the other writes


def _start(task: Task) -> int:
    """The initial number of threads; `Concurrency` adjusts it."""
    if task.slow:
        return SLOW_START
    large = sum(task.manifest.sizes[entry] for entry in task.blocks.large)
    return LARGE_START if 2 * large > task.manifest.size() else 1


class BlockReaders:
    """Reads with as many threads as increase the rate, until no tokens are left.

    forward(buffer): called after a block is written on this node; on_fault(fault): called for a block that cannot be read
    or has changed; count(counter, amount): adds to the progress board.
    """

    def __init__(
        self,
        task: Task,
        tokens: Tokens,
        journal: Journal,
        pool: BufferPool,
        count: Callable[[str, int], None],
        forward: Callable[[BlockBuffer], None],
        on_fault: Callable[[SourceFault], None],
    ) -> None:
        self._task, self._tokens, self._journal, self._pool = task, tokens, journal, pool
        self._count, self._outlet, self._complain = count, forward, on_fault
        self._rate_limit = RateLimit(task.rate / task.board.worker_count)
        self._concurrency = Concurrency(start=_start(task))
        self._threads: List[threading.Thread] = []
        self._changed = threading.Condition()
        self._working = 0
        self._work = 0.0
        self._held = 0.0  # seconds that threads have waited for a buffer, because the next nodes are slower
        self._no_tokens_left = False
        self.failure: Optional[BaseException] = None

    def run(self) -> None:
        """Work until no tokens are left; raises the exception of a thread, such as an OSError of the disk."""
        self._start_threads()
        before = self._counters()
        with self._changed:
            while self._working and not self.failure:
                self._changed.wait(STEP)
                now = self._counters()
                elapsed, computed, waited, work, held = (n - b for n, b in zip(now, before))
                if elapsed >= STEP:
                    # Threads that wait for buffers wait for the next node: more or fewer of them would change nothing.
                    if held < MAX_HELD * elapsed:
                        self._concurrency.step(work, elapsed, computed, waited)
                    before = now
                    self._start_threads()
                    self._changed.notify_all()
        if self.failure:
            raise self.failure

    def _counters(self) -> Tuple[float, ...]:
        """(time, CPU time, time waited for a core, work, time waited for buffers): seconds, and work in bytes."""
        return time.perf_counter(), time.process_time(), waited_for_cores(), self._work, self._held

    def _start_threads(self) -> None:
        # One buffer per thread, and two on their way to the next node: more would only fill memory.
        self._pool.allow(self._concurrency.target + 2)
        while len(self._threads) < self._concurrency.target and not self._no_tokens_left:
            thread = threading.Thread(target=self._thread, args=(len(self._threads),), daemon=True)
            self._threads.append(thread)
            self._working += 1
            thread.start()

    def _thread(self, index: int) -> None:
        task = self._task
        try:
            with contextlib.ExitStack() as opened:
                source = task.source_reader()
                opened.callback(source.close)
                own = task.layout.reader(task.hasher)
                opened.callback(own.close)
                writer = task.layout.writer(task.sync)
                opened.callback(writer.close)
                self._work_off(index, source, own, writer)
        except BaseException as fault:  # noqa: BLE001 - raised again by `run`
            self.failure = fault
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _work_off(self, index: int, source: AnyReader, own: AnyReader, writer: AnyWriter) -> None:
        board = self._task.board
        while not self.failure:
            with self._changed:
                while index >= self._concurrency.target and not self._no_tokens_left and not self.failure:
                    self._changed.wait()
            block = self._tokens.next()
            if block is None:
                self._no_tokens_left = True
                return
            if board.has(block, WANTED) and not board.has(block, SEEN):
                self._read_block(block, source, own, writer)

    def _read_block(self, number: int, source: AnyReader, own: AnyReader, writer: AnyWriter) -> None:
        task, board = self._task, self._task.board
        block, here = task.blocks[number], board.has(number, DONE)
        began = time.perf_counter()
        buffer = BlockBuffer(self._pool, number, block.length)
        self._held += time.perf_counter() - began
        view = buffer.view[: block.length + SLACK]
        try:
            # A block of an earlier run is read from this node's disk instead of the shared file system, and forwarded
            # to the nodes that lack it.
            if here:
                buffer.digests = own.read(block, view)
            else:
                self._rate_limit.acquire(block.length)
                buffer.digests = source.read(block, view)
                self._count("read", block.length)
                if task.write:
                    writer.write(block, view[: block.length])
                    # After the write, never before: the next run trusts the journal.
                    self._journal.add(number, buffer.digests)
                    board.mark(number, DONE)
                    self._count("blocks", 1)
                    self._count("bytes", block.length)
                    self._count("files", 0 if block.offset else block.file_count)
            board.mark(number, SEEN)
            buffer.fill(block.length)
            self._outlet(buffer)
        except SourceFault as fault:
            board.mark(number, FAULTY)
            self._complain(fault)
        finally:
            buffer.release()
        self._work += block.length + FILE_WEIGHT * block.file_count


# Throttle a copy: a rate limit that protects a shared file system, and low priority on a shared node.

BURST = 0.1  # seconds' worth of bytes that may pass at once after a pause


class RateLimit:
    """A limit of `rate` bytes/s, shared by the threads of a process; 0: no limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._next = time.monotonic()
        self._lock = threading.Lock()

    def acquire(self, amount: int) -> None:
        """Wait until `amount` bytes may be moved."""
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next, now - BURST) + amount / self._rate
            wait = self._next - now
        # Outside of the lock: each thread has reserved its own interval, so that threads can sleep at the same time.
        if wait > 0:
            time.sleep(wait)


def lower_priority() -> None:
    """Set the lowest CPU priority (nice 19) and the idle I/O class."""
    os.nice(19 - os.nice(0))
    set_idle_io()
