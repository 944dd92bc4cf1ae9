"""`fix-venv`: make the scripts of a staged Python environment start the copy's interpreter, not the original's.

A virtual environment locates itself by `pyvenv.cfg` next to its interpreter, so a copy works at any path; only the
scripts in `bin` contain the interpreter's absolute path. The data set itself must stay as in its manifest, so the fixed
scripts are written to DIR/NAME/bin, which comes before DIR/NAME/data/bin on PATH.
"""

import contextlib
import os
import re
import stat
import sys
from typing import List, Set

from ..common.errors import NodeError
from ..common.safety import DIRECTORY_FLAGS, open_below
from ..store.area import Area, set_name
from ..store.warm import tree_path
from .options import Parser, store_options

_BIN = b"bin"
MAX_SIZE = 1 << 20  # bytes of a script; larger ones are programs
_LINES = 3  # lines in which a script names its interpreter: `#!`, or `#!/bin/sh` and an `exec` of it
_ACTIVATE = re.compile(rb"""^\s*(?:export )?VIRTUAL_ENV=["']?([^"'\n]+?)["']?\s*$""", re.MULTILINE)


def fixed_script(script: bytes, original_paths: "Set[bytes]", new: bytes) -> bytes:
    """The script with interpreter paths of the environments `original_paths` replaced by that of `new`; others unchanged."""
    if not script.startswith(b"#!"):
        return script
    lines = script.split(b"\n", _LINES)
    head, rest = lines[:_LINES], lines[_LINES:]
    # The longest first, since one path may be a prefix of another.
    for old in sorted(original_paths, key=len, reverse=True):
        head = [line.replace(old + b"/bin/", new + b"/bin/") for line in head]
    return b"\n".join(head + rest)


def _original_paths(root: bytes, source: str) -> "Set[bytes]":
    """The paths of the original environment that scripts may contain: as given, resolved, and as in `activate`."""
    paths = {os.path.abspath(os.fsencode(source)), os.path.realpath(os.fsencode(source))}
    with contextlib.suppress(OSError), open(root + b"/bin/activate", "rb") as file:
        paths.update(_ACTIVATE.findall(file.read(MAX_SIZE)))
    return {path for path in paths if path.startswith(b"/")}


def fix_scripts(area: Area, name: bytes, source: str) -> int:
    """Write the fixed scripts and return their number; NodeError if the set is missing or not an environment."""
    directory = area.published(name)
    if directory is None:
        raise NodeError("there is no data set `{}`".format(name.decode("ascii")))
    root = tree_path(area, name)
    try:
        scripts = open_below(directory, b"data/bin", DIRECTORY_FLAGS)
    except OSError:
        raise NodeError(
            "`{}` is not a Python environment: it has no `bin`".format(os.fsdecode(root))
        ) from None
    with contextlib.suppress(FileExistsError):
        os.mkdir(_BIN, 0o755 if area.shared else 0o700, dir_fd=directory)
    target = os.open(_BIN, DIRECTORY_FLAGS, dir_fd=directory)
    original_paths, count = _original_paths(root, source), 0
    for script in _files(scripts):
        content = _read(scripts, script)
        fixed = fixed_script(content, original_paths, root)
        if fixed != content:
            _write(area, target, script, fixed)
            count += 1
    return count


def _files(directory: int) -> List[bytes]:
    files = []
    for name in map(os.fsencode, os.listdir(directory)):
        status = os.lstat(name, dir_fd=directory)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SIZE:
            files.append(name)
    return files


def _read(directory: int, name: bytes) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=directory), "rb") as file:
        return file.read()


def _write(area: Area, directory: int, name: bytes, content: bytes) -> None:
    # In dlrun's own directory: what a kill leaves there is no file of the set.
    temporary = b"script." + str(os.getpid()).encode("ascii")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o755, dir_fd=area.control), "wb") as file:
        file.write(content)
    os.chmod(temporary, 0o755, dir_fd=area.control)  # noqa: S103 - the directory above is ours alone
    os.rename(temporary, name, src_dir_fd=area.control, dst_dir_fd=directory)


def main(argv: List[str]) -> None:
    """Run `fix-venv`."""
    parser = Parser(
        "fix-venv", "Rewrite the scripts of a staged Python environment to start its own interpreter."
    )
    store_options(parser)
    parser.add_argument("--name", required=True, help="of the data set")
    parser.add_argument(
        "--source", required=True, metavar="PATH", help="the environment that it is a copy of"
    )
    arguments = parser.parse_args(argv)
    count = fix_scripts(
        Area(arguments.to, make=False, shared=arguments.shared), set_name(arguments.name), arguments.source
    )
    sys.stdout.write("{} scripts start the copy's own interpreter\n".format(count))
