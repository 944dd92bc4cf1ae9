"""Make `node.pyz`: all node programs in one file that any Python from 3.6 on runs, without dlrun installed.

The archive has each source and its byte code for the Python version that makes the file. Another version rejects the byte
code by its magic number and compiles the source; the same version starts in half the time, since it compiles nothing.

`usage.py` is a script that contains all its sources as text (`single_file`), and that Python reads from its standard
input. Every node of every job reads it, and Python would open a script or archive given by its path several times.
"""

import os
from typing import Dict, List, Optional, Tuple

PACKAGE = "dlrun_node"
SAMPLER = "usage"
"""The package with a file of its own, `usage.py`: every job needs it, few need the other programs."""
_VERSION = """\
import sys

if sys.version_info < (3, 6):  # as an older Python reads it, too
    sys.exit("error: {} needs Python 3.6 or later, and this is %s (%s)" % (sys.version.split()[0], sys.executable))
"""
# Python asks for the file name of a module before its code, and for the name zipimport reads and decodes all of the code.
_START = (
    _VERSION.format("node.pyz")
    + """\
import zipimport


class Archive(zipimport.zipimporter):
    def get_filename(self, name):
        start = self.archive + "/" + self.prefix + name.rpartition(".")[2]
        return start + ("/__init__.py" if self.is_package(name) else ".py")


sys.path_hooks[:] = [Archive if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
sys.path_importer_cache.pop(sys.path[0], None)  # the one that has found this module
from {}.__main__ import main

sys.exit(main())
"""
)
_START_SINGLE_FILE = """\
# coding: utf-8
# The sampler: one process on each node, started by lib/usage.sh, records what `dlrun usage` shows. Its modules, then their start.
{version}
from importlib.machinery import ModuleSpec

PACKAGE = {package!r}
SOURCES = {{}}
{sources}

class Sources:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return ModuleSpec(name, self, is_package=name == PACKAGE)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Sources())
from {package}.__main__ import main

sys.exit(main())
"""
_UNCHECKED = (1).to_bytes(
    4, "little"
)  # flags of a .pyc file: based on a hash, which is not checked (PEP 552)
# A fixed time for all members, so that the same sources give the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def _folder(part: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), part).rstrip(os.sep)


def sources(part: str = "") -> Dict[str, bytes]:
    """The node programs and their packages by path below this directory, in order; or those of `SAMPLER`."""
    here = _folder(part)
    contents = {}
    for directory, packages, names in os.walk(here):
        if not part and directory == here:
            packages.remove(SAMPLER)
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(".py"):
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, here)] = file.read()
    return dict(sorted(contents.items()))


def sizes_and_times(part: str = "") -> List[Tuple[str, int, int]]:
    """(path below this directory, size in bytes, modification time in nanoseconds) of each of the `sources`."""
    here = _folder(part)
    files, directories = [], [here]
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    files.append((os.path.relpath(entry.path, here), status.st_size, status.st_mtime_ns))
                elif entry.path != _folder(SAMPLER) and entry.name != "__pycache__" and entry.is_dir():
                    directories.append(entry.path)
    return sorted(files)


def archive(programs: Optional[Dict[str, bytes]] = None, package: str = PACKAGE) -> bytes:
    """The content of the archive: a package of this name with the given sources, by default `sources`."""
    files = {"__main__.py": _START.format(package).encode("ascii")}
    for name, source in (sources() if programs is None else programs).items():
        inside = "{}/{}".format(package, name)
        files.update({inside: source, inside + "c": _byte_code(source, inside)})
    return _zipped(files)


def single_file(programs: Dict[str, bytes], package: str) -> bytes:
    """A program in one text file, from the sources of a package without subpackages."""
    parts = []
    for name, source in programs.items():
        module = os.path.splitext(name)[0]
        module = package if module == "__init__" else "{}.{}".format(package, module)
        parts.append("\nSOURCES[{!r}] = r'''{}'''\n".format(module, source.decode("utf-8")))
    return _START_SINGLE_FILE.format(
        version=_VERSION.format("usage.py"), package=package, sources="".join(parts)
    ).encode("utf-8")


def _byte_code(source: bytes, name: str) -> bytes:
    """The byte code of a source as a hash-based, unchecked .pyc file (PEP 552)."""
    import importlib.util
    import marshal

    compiled = marshal.dumps(compile(source, name, "exec", dont_inherit=True, optimize=0))
    # Loaded and dumped once more: otherwise the bytes depend on which objects this process happens to share.
    content = marshal.dumps(marshal.loads(compiled))  # noqa: S302 - our own
    # Unchecked: the source in the archive never changes, so a comparison at each import would only cost time.
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + content


def _zipped(files: Dict[str, bytes]) -> bytes:
    """These files as an archive that Python runs."""
    # Imported only here: mostly an archive made earlier is used, and `dlrun` starts without these modules.
    import io
    import zipfile

    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            packed.writestr(entry, content)
    return b"#!/usr/bin/env python3\n" + whole.getvalue()


def write(path: str, content: Optional[bytes] = None) -> None:
    """Write the archive atomically, with mode 0755; `content`: the archive, if it has been made already."""
    temporary = "{}.new.{}".format(path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
    with os.fdopen(descriptor, "wb") as file:
        file.write(archive() if content is None else content)
    os.rename(temporary, path)
