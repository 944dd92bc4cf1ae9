"""Turns the SVG picture of a node into PNG with whatever converter there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dlrun.errors import OperationFailed

CONVERTERS = (
    ("rsvg-convert", "--zoom=2", "--output={png}", "{svg}"),
    ("inkscape", "--export-dpi=192", "--export-filename={png}", "{svg}"),
    ("magick", "-density", "192", "{svg}", "{png}"),
)
"""Programs that read SVG, each with its arguments; pictures are made at twice their size, for sharp screens."""


def write_png(svg: str, path: Path) -> None:
    """Write the picture as PNG; raises OperationFailed if there is no converter or it fails."""
    for program, *arguments in CONVERTERS:
        if shutil.which(program):
            source = path.with_suffix(".svg.part")
            try:
                source.write_text(svg, encoding="utf-8")
                filled = [argument.format(png=path, svg=source) for argument in arguments]
                done = subprocess.run(
                    [program, *filled], capture_output=True, text=True, check=False, timeout=60
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise OperationFailed(f"cannot write `{path}`: {error}") from None
            finally:
                source.unlink(missing_ok=True)
            if done.returncode == 0:
                return
            raise OperationFailed(f"`{program}` could not make a PNG: {done.stderr.strip()}")
    names = ", ".join(program for program, *_ in CONVERTERS)
    raise OperationFailed(
        f"no converter from SVG to PNG is installed ({names})", help="write to a file that ends in .svg"
    )
