"""Where shipped files lie: beside the package in a checkout, inside it in a wheel, and inside `dlrun.pyz`.

In that one file nothing can be opened by its path. The functions here read it as if it could: they take the paths that a
wheel would have, and any other path from the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent
_ROOT = str(_PACKAGE.parent)
_FILES: Mapping[str, bytes] | None = getattr(__spec__.loader, "files", None)
"""Contents of the files in `dlrun.pyz` by path below it; None elsewhere."""


def archive() -> Path | None:
    """The `dlrun.pyz` that runs; None if it is not one."""
    return _PACKAGE.parent if _FILES is not None else None


def directory(name: str) -> Path:
    """The directory of shipped `templates` or `site-configs`."""
    installed = _PACKAGE / "data" / name
    return installed if _FILES is not None or installed.is_dir() else _PACKAGE.parent / name


def packed(path: str | Path) -> bytes | None:
    """The content of a file inside `dlrun.pyz`; None for every other path."""
    if _FILES is None:
        return None
    name = str(path)
    return _FILES.get(name[len(_ROOT) + 1 :]) if name.startswith(_ROOT) else None


def content(path: Path) -> bytes:
    """The bytes of a shipped file; raises OSError if there is none."""
    inside = packed(path)
    return path.read_bytes() if inside is None else inside


def text(path: Path) -> str:
    """The text of a shipped file; raises OSError if there is none."""
    return content(path).decode("utf-8")


def entries(path: Path) -> list[Path]:
    """What is in a directory, of the file system or of `dlrun.pyz`; raises OSError if there is none."""
    if _FILES is not None and str(path).startswith(_ROOT):
        inside = f"{str(path)[len(_ROOT) + 1 :]}/"
        names = {name[len(inside) :].partition("/")[0] for name in _FILES if name.startswith(inside)}
        return [path / name for name in names]
    return list(path.iterdir())


def below(path: Path) -> dict[str, bytes]:
    """All files below a directory of `dlrun.pyz`, by their paths from there; none elsewhere."""
    inside = f"{str(path)[len(_ROOT) + 1 :]}/"
    found = (
        {name: _FILES.get(name) for name in _FILES if name.startswith(inside)} if _FILES is not None else {}
    )
    return {name[len(inside) :]: content for name, content in found.items() if content is not None}
