"""An archive of compiled entries, unpacked while it arrives: no entry has its place before the archive's digest is proved."""

import contextlib
import os
import threading
from typing import Optional, Tuple

from ..blocks.blocks import Blocks
from ..blocks.progress_board import DONE, ProgressBoard
from ..common.safety import DIRECTORY_FLAGS
from ..source.archive import FILE, Archive, damaged
from ..source.manifest import CHUNK, Manifest
from .arriving import Arriving, Stopped
from .compiled_entries import place_of
from .hidden import Hidden

_INTERVAL = 0.01  # seconds between checks for the next block


class Unpacking:
    """The entries of an archive on their way into a directory; close it. Raises OSError if the directory cannot be made.

    run: whose own entries count; digest: SHA-256 of the archive, in hexadecimal digits.
    """

    def __init__(self, into: str, run: str, digest: str) -> None:
        self._run, self._digest = run, digest
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._fault: Optional[Exception] = None
        self._hidden = Hidden(into)

    def watch(self, tree: int, manifest: Manifest, blocks: Blocks, board: ProgressBoard) -> None:
        """Start a thread that unpacks the only file of a set below `tree` while its blocks are written."""

        def wait(offset: int) -> int:
            number = min(offset // CHUNK, len(blocks) - 1)
            while not board.has(number, DONE):
                if self._ended.wait(_INTERVAL):
                    raise Stopped
            return (offset // CHUNK + 1) * CHUNK

        stream = Arriving(os.dup(tree), os.fsdecode(manifest.names[0]), manifest.size(), wait)
        self._thread = threading.Thread(target=self._unpack, args=(stream,), daemon=True)
        self._thread.start()

    def finish(self, path: str) -> Tuple[int, int]:
        """Give the entries their places, once the archive, which is at `path`, is whole: its files and bytes.

        Raises Damaged if it has another digest, SourceFault if it cannot be read, OSError if there is no room.
        """
        if self._thread is None:  # the archive was on this node already
            size = os.lstat(path).st_size
            directory = os.open(os.path.dirname(path), DIRECTORY_FLAGS)
            self._unpack(Arriving(directory, os.path.basename(path), size, lambda _: size))
        else:
            self._thread.join()
        if self._fault is not None:
            raise self._fault
        self._hidden.move()
        return self._hidden.files, self._hidden.bytes

    def close(self) -> None:
        """End the thread, and remove what has no place."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._hidden.close()

    def _unpack(self, stream: Arriving) -> None:
        with contextlib.closing(stream):
            try:
                self._add_members(stream)
            except Exception as fault:  # noqa: BLE001 - whatever a damaged archive causes; raised in `finish`
                self._fault = fault
            try:
                stream.prove(self._digest)
            except Exception as fault:  # noqa: BLE001 - raised in `finish`, in place of what it may have caused
                self._fault = fault

    def _add_members(self, stream: Arriving) -> None:
        archive = Archive(stream.name, stream)
        # Of other kinds, and with holes, a damaged one could take more room than it has itself.
        if archive.kind != "tar":
            raise damaged(archive.path, "it is not a tar file")
        for member, content in archive.members():
            if member.kind != FILE or content is None:
                continue
            if member.sparse:
                raise damaged(archive.path, "a file has holes")
            self._hidden.add(place_of(os.fsdecode(member.path), self._run), member, content)
