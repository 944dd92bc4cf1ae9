"""Read the text of a user's file; errors suggest a file with a similar name."""

from __future__ import annotations

import os
from pathlib import Path

from dlrun import resources
from dlrun.config.nodes import short
from dlrun.config.secrets import mask
from dlrun.config.source import MAX_BYTES, decode_bytes
from dlrun.model.nearest import nearest
from dlrun.model.origin import Layer
from dlrun.model.problem import InvalidFile, Problem
from dlrun.system.paths import open_regular

_YAML = frozenset({".yaml", ".yml"})


def read_text(path: Path, layer: Layer) -> str:
    """The text of a user's file; raises InvalidFile unless it is a readable text file of at most `MAX_BYTES`."""
    name = str(path)
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise InvalidFile(
            [Problem(message=f"cannot read `{short(name, 200)}`: {_why(error)}", help=_instead(path, layer))]
        ) from None
    decoded = decode_bytes(data, name, layer)
    if decoded.problem is not None:
        raise InvalidFile([decoded.problem], {name: mask(decoded.text)})
    return decoded.text


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return "it is not a valid file name"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    return (error.strerror or str(error)).lower()


def _instead(path: Path, layer: Layer) -> str:
    """A help line with the file that was probably meant; empty without one."""
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a name with a NUL
        inside = yaml_files(path)
        return f"name a file in it, such as `{inside[0]}`" if inside else "name a file"
    above = path.parent if path.parent.is_dir() else path.parent.parent
    files = {p.stem: p for p in yaml_files(above)}
    if near := nearest(path.stem, files):
        return f"the nearest is `{files[near]}`"
    if above != path.parent:
        return f"there is no directory `{short(str(path.parent), 200)}`"
    if layer is Layer.SPEC and path.suffix in _YAML:
        return "`dlrun init` writes a first spec, `dlrun init --from SCRIPT` one from a batch script"
    return ""


def yaml_files(directory: Path) -> list[Path]:
    """The YAML files of a directory, sorted; empty if it cannot be read."""
    try:
        return sorted(p for p in resources.entries(directory) if p.suffix in _YAML)
    except OSError:
        return []
