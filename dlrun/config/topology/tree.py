"""File system interface of three operations, so that the readers of `/sys` and `/proc` do no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

BLANK = " \t\r\n\0"
"""Characters stripped from both ends of a file's text; some kernels end lists with a NUL."""


class Tree(Protocol):
    """A root directory: the live one, a captured copy, or a mapping. Paths are relative to it."""

    def read(self, path: str) -> str | None:
        """The stripped text of a file; None if it does not exist or cannot be read."""

    def names(self, path: str) -> list[str]:
        """The sorted entries of a directory; empty if it does not exist."""

    def target(self, path: str) -> str | None:
        """The target of a symbolic link, as written; None if it is not a link."""


class MappingTree:
    """A tree from a mapping of paths to text; a value that begins with `-> ` is a symbolic link."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = dict(files)
        self._folders: dict[str, set[str]] = {}
        for path in files:
            parts = path.split("/")
            for i in range(1, len(parts)):
                self._folders.setdefault("/".join(parts[:i]), set()).add(parts[i])

    def read(self, path: str) -> str | None:
        """The text at the path."""
        text = self._files.get(path)
        return None if text is None or text.startswith("-> ") else text.strip(BLANK)

    def names(self, path: str) -> list[str]:
        """The names below the path."""
        return sorted(self._folders.get(path, ()))

    def target(self, path: str) -> str | None:
        """The target after `-> `."""
        text = self._files.get(path, "")
        return text.removeprefix("-> ") if text.startswith("-> ") else None
