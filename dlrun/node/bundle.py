"""Make `node.pyz`: all node programs in one file that any Python from 3.6 on runs, without dlrun installed."""

import io
import os
import zipfile

PACKAGE = "dlrun_node"
_START = "import sys\nfrom {}.__main__ import main\nsys.exit(main())\n".format(PACKAGE)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same bytes from the same sources


def archive() -> bytes:
    """The file's content."""
    here = os.path.dirname(os.path.abspath(__file__))
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        _add(packed, "__main__.py", _START.encode("ascii"))
        for name in sorted(os.listdir(here)):
            if name.endswith(".py"):
                with open(os.path.join(here, name), "rb") as file:
                    _add(packed, "{}/{}".format(PACKAGE, name), file.read())
    return b"#!/usr/bin/env python3\n" + whole.getvalue()


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    packed.writestr(entry, content)


def write(path: str) -> None:
    """Write the file, executable, in one step."""
    temporary = "{}.new.{}".format(path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
    with os.fdopen(descriptor, "wb") as file:
        file.write(archive())
    os.rename(temporary, path)
