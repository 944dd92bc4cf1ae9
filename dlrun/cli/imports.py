"""Imports with two questions to the file system a module instead of six; on a cluster each goes to a shared server.

Python's own finder asks before every module whether its directory has changed, and then for the file, and its loader
for the size of the file that it has open. A run of dlrun takes a moment: here a directory is listed once. Byte code is
still compared with the time and size of its source, and what is not a plain module is left to Python's own finder.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType

BLOCK = 1 << 16
"""Bytes read at a time: more than most modules have, and less than what malloc(3) takes from the system each time (128 KiB)."""


class Loader(SourceFileLoader):
    """Loads a module from its source, or the byte code of that."""

    def get_data(self, path: str) -> bytes:
        """The content of a file; raises OSError."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            while part := os.read(descriptor, BLOCK):
                parts.append(part)
        finally:
            os.close(descriptor)
        return b"".join(parts)


KINDS = (
    *((suffix, ExtensionFileLoader) for suffix in EXTENSION_SUFFIXES),
    *((suffix, Loader) for suffix in SOURCE_SUFFIXES),
    *((suffix, SourcelessFileLoader) for suffix in BYTECODE_SUFFIXES),
)
"""Suffixes of files that are modules, the first of which counts, and what loads them."""


class Finder(FileFinder):
    """Finds the modules of a directory in its list of files, which is read once."""

    _is_listed = False
    _names: frozenset[str] = frozenset()
    _stems: frozenset[str] = frozenset()
    _links: frozenset[str] = frozenset()

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is; None if not in this directory."""
        if not self._is_listed:
            with suppress(OSError):
                self._list()
        name = fullname.rpartition(".")[2]
        if name not in self._stems:
            return None
        path = f"{self.path or '.'}/{name}"
        if name not in self._links:  # which may lead nowhere
            if name in self._names:
                source = f"{path}/__init__.py"
                if os.access(source, os.R_OK):
                    package = Loader(fullname, source)
                    return spec_from_file_location(
                        fullname, source, loader=package, submodule_search_locations=[path]
                    )
            else:
                for suffix, kind in KINDS:
                    if name + suffix in self._names:
                        module = kind(fullname, path + suffix)
                        return spec_from_file_location(
                            fullname, path + suffix, loader=module, submodule_search_locations=None
                        )
        return super().find_spec(fullname, target)

    @classmethod
    def of(cls, directory: str) -> Finder:
        """The finder of an entry of `sys.path`; raises ImportError if it is not a directory, which its list shows."""
        finder = cls(directory, *((kind, [suffix]) for suffix, kind in KINDS))
        try:
            with suppress(PermissionError):  # nothing is found in a directory that cannot be listed
                finder._list()
        except OSError as error:
            raise ImportError("only directories are supported", path=directory) from error
        return finder

    def _list(self) -> None:
        """Read the names; raises OSError."""
        self._is_listed = True
        self._names = self._stems = self._links = frozenset()
        with os.scandir(self.path or ".") as entries:
            links = {entry.name: entry.is_symlink() for entry in entries}
        self._names = frozenset(links)
        self._stems = frozenset(name.partition(".")[0] for name in links)
        self._links = frozenset(name.partition(".")[0] for name, is_link in links.items() if is_link)

    def invalidate_caches(self) -> None:
        """Read the list again."""
        self._is_listed = False
        super().invalidate_caches()


PACKAGES = ("click", "jinja2", "markupsafe", "rich", "yaml", "paramiko", "psutil", "tree_sitter", "xxhash")
"""What dlrun imports from others, all of them packages, directories."""


def foreign() -> tuple[str, str] | None:
    """Message and way out if a file of the user's has the name of one of these packages and is found first, else None."""
    for name in PACKAGES:
        try:
            spec = find_spec(name)
        except (ImportError, ValueError, OSError):  # what is loaded has no spec; no file can be opened
            continue
        if spec is not None and spec.origin is not None and spec.submodule_search_locations is None:
            message = f"`import {name}` finds `{spec.origin}` instead of the package that dlrun needs"
            return (
                message,
                "leave its directory out of PYTHONPATH, or start `dlrun` instead of `python -m dlrun`",
            )
    return None


def install() -> None:
    """Find modules so from now on, below every directory of `sys.path`."""
    sys.path_hooks.insert(0, Finder.of)
    sys.path_importer_cache.clear()
