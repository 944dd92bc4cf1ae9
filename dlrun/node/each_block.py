"""Look at every block of a data set in several processes at once, and note the hashes of those that are good."""

import os
import sys
from typing import Callable, Dict, Optional, Tuple

from . import journal
from .blocks import Block, Blocks
from .errors import NodeError
from .journal import Journal
from .parcel import SLACK, Pool

Handle = Callable[[int, Block, memoryview], Optional[bytes]]
"""Takes a block's number, the block and a buffer; its hashes when it is good, None when it is not."""


def each_block(
    directory: int, identity: str, blocks: Blocks, processes: int, handler: Callable[[], Handle]
) -> Dict[int, bytes]:
    """The hashes of the good blocks by number; each process makes itself a handler.

    The journals of the processes are in `directory`. Raises NodeError with what a process could not do.
    """
    count = max(1, min(processes, len(blocks)))
    children = [
        _start(directory, identity, blocks, range(lane, len(blocks), count), handler) for lane in range(count)
    ]
    failed = [words for words in [_last_words(pid, end) for pid, end in children] if words]
    if failed:
        raise NodeError(failed[0])
    return journal.read(directory, identity)


def _start(
    directory: int, identity: str, blocks: Blocks, numbers: range, handler: Callable[[], Handle]
) -> Tuple[int, int]:
    end, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, end
    status = 1
    try:
        look, view = handler(), Pool(1).take()
        book = Journal(directory, identity, "{}".format(os.getpid()))
        for number in numbers:
            block = blocks[number]
            digests = look(number, block, view[: block.length + SLACK])
            if digests is not None:
                book.add(number, digests)
        status = 0
    except BaseException as fault:  # noqa: BLE001 - told to the process that waits
        os.write(write, (str(fault) or type(fault).__name__).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(status)
    raise AssertionError


def _last_words(pid: int, end: int) -> str:
    with os.fdopen(end, "rb") as file:
        said = file.read().decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    return said or ("a process was killed" if status else "")
