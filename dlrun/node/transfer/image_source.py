"""A directory as one SquashFS image, made on the first node by `mksquashfs`, relayed from there, and linked into the set.

Nothing in it is compressed: data sets mostly are already, and so reads cost no time of a core. No files share a block, so that
reading one reads no other. Each image has its own time: two that were made of the same directory may differ, and no part of one
may pass for a part of the other.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List, Optional

from ..common import text
from ..common.errors import NodeError, NoSpace, SourceFault, Usage, full_disk
from ..common.mounts import is_image
from ..common.progress import Progress
from ..common.system import die_with_parent, usable_cores
from ..source.manifest import Manifest
from ..source.part import require_size
from ..source.selection import Options, outside, parse
from ..source.stream import changed
from ..source.survey import survey
from ..store.area import CONTROL, Area
from .made_source import MadeSource

# mksquashfs(1), of squashfs-tools 4.3 and later: neither inodes, data, fragments nor attributes are compressed.
_OPTIONS = ("-noappend", "-no-progress", "-noI", "-noD", "-noF", "-noX", "-no-fragments", "-exit-on-error")
_ENTRY = (
    256  # bytes in the image for each file: its inode, its name, and its part of the tables, with a margin
)
_LINES = 5  # of its messages in an error


def image_source(
    area: Area, name: bytes, arguments: argparse.Namespace, progress: Progress
) -> "Optional[ImageSource]":
    """The source of a set that becomes an image; None if it is one already."""
    if is_image(os.fsencode(arguments.source)):
        return None
    if arguments.version or arguments.checksums:
        raise Usage(
            "--checksums and --version are of files, not of an image made of them",
            "leave them out, or name an image as source",
        )
    return ImageSource(area, name, arguments, progress)


class ImageSource(MadeSource):
    """An image of a directory: warm if no name, size, mode or time in the directory has changed."""

    PREFIX = b"image."
    HAS_SIZE = False
    MAY_DIFFER = True

    def __init__(self, area: Area, name: bytes, arguments: argparse.Namespace, progress: Progress) -> None:
        super().__init__(area, name, os.path.abspath(arguments.source), arguments, progress)
        self._options = Options(False, arguments.skip_special, not arguments.no_xattrs)
        self._size = self._files = self._entries = 0

    def list_source(self) -> Dict[str, Any]:
        """The state of the directory; raises SourceFault if it is not there, or cannot be read as a whole."""
        self.prepare()
        source = outside(parse(self.url), self._area.path + b"/" + CONTROL)
        if source.parts:
            raise SourceFault(
                "`{}` is not a SquashFS image".format(self.url),
                "name a directory, or a file that `mksquashfs` has made",
            )
        manifest, _ = survey(source, self._options)
        ctimes = ",".join(map(str, manifest.ctimes))
        self._identity = hashlib.sha256((manifest.id() + ctimes).encode("ascii")).hexdigest()
        self._size, self._files = manifest.size(), manifest.files()
        require_size(self.url, self._size, self._given.expect)
        self._entries = len(manifest.names) + len(manifest.dirs)
        return {"listing": self._identity}

    def _make(self, progress: Progress) -> None:
        program = shutil.which("mksquashfs")
        if program is None:
            raise NodeError(
                "no `{}` on {}: no image can be {}".format("mksquashfs", os.uname().nodename, "made"),
                "install the package `squashfs-tools` on the nodes, name an image that was made elsewhere as `source`, or use "
                "`strategy: copy` or `pack`",
            )
        identity = self._identity
        # The copy is a link to it.
        self._make_room(self._size + _ENTRY * self._entries)
        progress.log(
            "making an image of {}, {}".format(text.count(self._files, "file"), text.size(self._size))
        )
        file = os.path.join(self.directory, os.fsdecode(self._set) + ".squashfs")
        # Of a link to a directory it would take the link.
        words = [program, os.path.realpath(self.url), file, *_OPTIONS, "-processors", str(usable_cores())]
        self._run(words if self._options.xattrs else [*words, "-no-xattrs"], file, progress)
        os.chmod(file, 0o644)
        if self.list_source()["listing"] != identity:
            raise changed(self.url)

    def _run(self, words: List[str], file: str, progress: Progress) -> None:
        nothing = subprocess.DEVNULL
        with tempfile.TemporaryFile() as messages, subprocess.Popen(
            words, stdin=nothing, stdout=nothing, stderr=messages, cwd="/", preexec_fn=die_with_parent,  # noqa: PLW1509
        ) as process:  # fmt: skip
            try:
                while process.returncode is None:
                    try:
                        process.wait(self._given.interval)
                    except subprocess.TimeoutExpired:
                        progress.log("making the image: {} so far".format(text.size(_size_of(file))))
            finally:
                process.kill()
            messages.seek(0)
            printed = messages.read()
        why = full_disk(printed) if process.returncode else None
        if why is not None:
            raise NoSpace(
                "the disk filled up while `{}` was fetched: {}".format(self.url, why),
                "free space in `{}`, or use `strategy: in_place`".format(text.name(self._area.path)),
            )
        lines = [line.strip() for line in printed.decode("utf-8", "replace").splitlines() if line.strip()]
        # Older versions write an empty file for one that they cannot read, and exit with 0.
        if process.returncode or any("ailed to " in line for line in lines):
            raise SourceFault(
                "`mksquashfs` could not make an image of `{}`: {}".format(
                    self.url, "; ".join(lines[-_LINES:]) or "exit status {}".format(process.returncode)
                ),
                "seen from {}".format(os.uname().nodename),
            )

    def _download_as_substitute(self, manifest: Manifest, progress: Progress) -> None:
        """Raise NodeError: another image of the same directory differs from the one of which nodes have parts."""
        del manifest, progress
        if not self.is_downloaded:
            raise NodeError(
                "the node that had made the image of `{}` is lost".format(self.url),
                "start the job again, or name an image as `source`: each node can read it",
            )


def _size_of(file: str) -> int:
    with contextlib.suppress(OSError):
        return os.stat(file).st_size
    return 0
