"""SquashFS images mounted by FUSE, without root: `squashfuse` mounts, `fusermount` unmounts.

FUSE shows a mount to the processes of its user alone. The program that serves it may be killed with the processes of a job:
then the mount stays, and every access fails with ENOTCONN until it is unmounted.
"""

import os
import re
import shutil
import subprocess
import tempfile
from typing import Dict, List, Optional, Tuple

from . import text
from .errors import NodeError, error_text

MAGIC = b"hsqs"
"""The first bytes of a SquashFS image (Documentation/filesystems/squashfs.rst of Linux: little endian since version 4)."""
# The one with the low-level interface first: it answers several requests at a time.
_PROGRAMS = ("squashfuse_ll", "squashfuse")
_UNMOUNTERS = (("fusermount3", "-uz"), ("fusermount", "-uz"), ("umount", "-l"))
_WITHIN = 30.0  # seconds
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def is_image(path: bytes) -> bool:
    """Whether a file is a SquashFS image."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def mounted_below(directory: bytes) -> Dict[bytes, str]:
    """Mount point -> source, in a directory without links in its path, of this process's mount namespace (proc(5), mountinfo)."""
    beginning, kinds = os.path.realpath(directory) + b"/", {}
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            place = _ESCAPE.sub(lambda match: bytes((int(match.group(1), 8),)), line.split(b" ")[4])
            if place.startswith(beginning):
                kinds[place] = line.rpartition(b" - ")[2].split(b" ")[1].decode("ascii", "replace")
    return kinds


def identity(image: bytes) -> str:
    """The source by which a mount of an image is known: another version of the data set has another one."""
    status = os.stat(image)
    return "dlrun-{}-{}".format(status.st_ino, status.st_mtime_ns)


def is_served(place: bytes) -> bool:
    """Whether a program answers for a mount; not by its status, which the kernel keeps."""
    try:
        os.statvfs(place)
    except OSError:
        return False
    return True


def mount(image: bytes, place: bytes) -> None:
    """Mount an image on an existing, empty directory; raises NodeError if no program here can.

    The program has neither this one's session nor its environment, by which processes of a job are found.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise NodeError(
            "no `{}` on {}: no image can be {}".format("squashfuse", os.uname().nodename, "mounted"),
            "install the package `squashfuse` on the nodes, or use `strategy: copy` or `pack`",
        )
    code, printed = _run(
        [
            program,
            "-o",
            "ro,subtype=squashfuse,fsname=" + identity(image),
            os.fsdecode(image),
            os.fsdecode(place),
        ]
    )
    if code or place not in mounted_below(os.path.dirname(place)):
        raise NodeError(
            "`{}` cannot mount `{}` on {}: {}".format(
                program, text.name(image), os.uname().nodename, printed or "exit status {}".format(code)
            ),
            "it needs /dev/fuse and `fusermount`, which users must be allowed to run, and a whole image (`unsquashfs -s FILE`); "
            "else use `strategy: copy` or `pack`",
        )


def unmount(place: bytes) -> None:
    """Unmount; processes that have files open there keep them. A failure is ignored."""
    for program, option in _UNMOUNTERS:
        if shutil.which(program) and _run([program, option, os.fsdecode(place)])[0] == 0:
            break


def _run(words: List[str]) -> Tuple[Optional[int], str]:
    """(exit status, or None after `_WITHIN` seconds; the last line that it printed)."""
    # A file and not a pipe, which the program in the background would hold open.
    with tempfile.TemporaryFile() as output:
        environment = {
            key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH", "HOME") if key in os.environ
        }
        try:
            code = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                cwd="/",
            ).wait(_WITHIN)
        except subprocess.TimeoutExpired:
            return None, "no answer in {:.0f} s".format(_WITHIN)
        except OSError as fault:
            return 127, error_text(fault)
        output.seek(0)
        lines = output.read().decode("utf-8", "replace").split("\n")
    return code, next((line.strip() for line in reversed(lines) if line.strip()), "")
