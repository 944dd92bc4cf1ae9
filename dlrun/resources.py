"""Files shipped with dlrun: beside the package in a checkout, in the package of a wheel, or in `dlrun.pyz`.

Files in `dlrun.pyz` cannot be opened by path. The functions here accept the paths that they would have in a wheel, and all
other paths of the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).parent
_ROOT = str(_PACKAGE.parent)
_FILES: Mapping[str, bytes] | None = getattr(__spec__.loader, "files", None)
"""Path in `dlrun.pyz` -> content of the file; None if dlrun does not run from it."""


def archive() -> Path | None:
    """The running `dlrun.pyz`; None if dlrun does not run from one."""
    return _PACKAGE.parent if _FILES is not None else None


def directory(name: str) -> Path:
    """The directory of shipped `templates` or `site-configs`."""
    installed = _PACKAGE / "data" / name
    return installed if _FILES is not None or installed.is_dir() else _PACKAGE.parent / name


def beside(module: str, name: str) -> str:
    """The path of a file that is shipped beside a module, from its `__file__`."""
    return str(Path(module).with_name(name))


def packed(path: str | Path) -> bytes | None:
    """The content of a file in `dlrun.pyz`; None for any other path."""
    if _FILES is None:
        return None
    name = str(path)
    return _FILES.get(name[len(_ROOT) + 1 :]) if name.startswith(_ROOT) else None


def content(path: Path) -> bytes:
    """The bytes of a shipped file; raises OSError if it does not exist."""
    inside = packed(path)
    return path.read_bytes() if inside is None else inside


def text(path: Path) -> str:
    """The text of a shipped file; raises OSError if it does not exist."""
    return content(path).decode("utf-8")


def entries(path: Path) -> list[Path]:
    """The entries of a directory in the file system or in `dlrun.pyz`; raises OSError if it does not exist."""
    if _FILES is not None and str(path).startswith(_ROOT):
        inside = f"{str(path)[len(_ROOT) + 1 :]}/"
        names = {name[len(inside) :].partition("/")[0] for name in _FILES if name.startswith(inside)}
        return [path / name for name in names]
    return list(path.iterdir())


def below(path: Path) -> dict[str, bytes]:
    """Relative path -> content of all files below a directory of `dlrun.pyz`; empty for any other directory."""
    if _FILES is None:
        return {}
    inside = f"{str(path)[len(_ROOT) + 1 :]}/"
    files = {name: _FILES.get(name) for name in _FILES if name.startswith(inside)}
    return {name[len(inside) :]: content for name, content in files.items() if content is not None}
