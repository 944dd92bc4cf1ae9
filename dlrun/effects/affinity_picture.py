"""Turns the SVG picture of a node into PNG with whatever converter there is."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dlrun.errors import OperationFailed

CONVERTERS = (
    ("rsvg-convert", "--zoom=2", "--output={png}", "{svg}"),
    ("inkscape", "--export-dpi=192", "--export-filename={png}", "{svg}"),
    ("magick", "-density", "192", "{svg}", "{png}"),
    ("convert", "-density", "192", "{svg}", "{png}"),
)
"""Programs that read SVG, each with its arguments; pictures are made at twice their size, for sharp screens."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""How a PNG begins (RFC 2083, 3.1)."""


def write_png(svg: str, path: Path) -> None:
    """Write the picture as PNG by the first converter that can; raises OperationFailed if there is none or all fail."""
    source = path.with_suffix(".svg.part")
    failed = []
    try:
        source.write_text(svg, encoding="utf-8")
        for program, *arguments in _converters():
            filled = [argument.format(png=path, svg=source) for argument in arguments]
            done = subprocess.run([program, *filled], capture_output=True, text=True, check=False, timeout=60)
            if done.returncode == 0 and path.exists() and path.read_bytes()[:8] == SIGNATURE:
                return
            failed.append(
                f"`{Path(program).name}`: {(done.stderr or done.stdout).strip()[-200:] or 'no PNG came of it'}"
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OperationFailed(f"cannot write `{path}`: {error}") from None
    finally:
        source.unlink(missing_ok=True)
    names = ", ".join(dict.fromkeys(program for program, *_ in CONVERTERS))
    raise OperationFailed(
        f"no converter could make a PNG: {'; '.join(failed)}"
        if failed
        else "no converter from SVG to PNG is installed",
        help=f"write to a file that ends in .svg, or install one: `pip install cairosvg`, {names}",
    )


def _converters() -> Iterator[tuple[str, ...]]:
    """Those that are here, CairoSVG in this very Python first."""
    if importlib.util.find_spec("cairosvg") is not None:
        yield (sys.executable, "-m", "cairosvg", "{svg}", "--scale", "2", "-o", "{png}")
    yield from (one for one in CONVERTERS if shutil.which(one[0]))
