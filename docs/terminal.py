"""The recorded terminal of the README, `docs/images/terminal.svg`: `python -m docs.terminal` runs its commands and draws it.

The training (`examples/hang`) hangs on purpose. What differs from run to run is replaced (`STEADY`), and long output is cut.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
COMMANDS = ("cat spec.yaml", "dlrun plan spec.yaml", "dlrun submit spec.yaml", "dlrun why latest")
MOST = {"dlrun plan spec.yaml": 12, "dlrun why latest": 3}
"""Command -> lines of its output that are shown."""
STEADY = (
    (r"\b\d+\.\d{5,}\b", "4711"),
    (r"train-\d{8}-\d{6}-\w+", "train-1"),
    (r"/\S*/jobs/", "~/jobs/"),
    (r"\(workstation [\d.]+\)", "(workstation 4711)"),
    (r"whole nodes of known topology \(\S+\)", "whole nodes of known topology (node)"),
    (r"  eth\d|  ens\w+|  eno\w+", "  eth0"),
)
"""What differs between runs and machines -> what is shown."""
_WIDTH, _LINE, _CHARACTER, _MARGIN = 104, 20, 8.45, 24
"""Columns, height of a line, width of a character and margin, in pixels."""


def record() -> list[str]:
    """The lines of the terminal, from a run of the commands in a directory and with jobs of its own."""
    with tempfile.TemporaryDirectory() as place:
        for file in (ROOT / "examples" / "hang").glob("*.*"):
            text = file.read_text(encoding="utf-8")
            # Comments of the spec are for readers of the folder.
            plain = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE) if file.suffix == ".yaml" else text
            (Path(place) / file.name).write_text(plain, encoding="utf-8")
        environment = {
            "HOME": place, "PATH": f"{Path(sys.executable).parent}:{os.defpath}", "DLRUN_JOBS": f"{place}/jobs",
            "COLUMNS": str(_WIDTH), "DLRUN_SITE": "workstation", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8",
        }  # fmt: skip
        lines: list[str] = []
        for command in COMMANDS:
            words = command.replace("dlrun ", f"{sys.executable} -m dlrun ", 1).split()
            if command.startswith("dlrun submit"):
                # Followed to its end, which a reader does not see: the next command is about it.
                words.append("--wait")
            done = subprocess.run(
                words, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=300
            )
            shown = [line for line in done.stdout.splitlines() if line.strip()]
            if command.startswith("dlrun submit"):
                shown = [line for line in shown if line.startswith("submitted ")]
            lines += [f"$ {command}", *(_steady(line) for line in shown[: MOST.get(command, len(shown))]), ""]
        return lines[:-1]


def _steady(line: str) -> str:
    for pattern, instead in STEADY:
        line = re.sub(pattern, instead, line)
    return line.rstrip()


def draw(lines: list[str]) -> str:
    """The terminal as an SVG document of text, which can be selected and searched."""
    wrapped = [part for line in lines for part in _wrapped(line)]
    width, height = round(2 * _MARGIN + _WIDTH * _CHARACTER), 2 * _MARGIN + _LINE * len(wrapped) + 24
    parts = [
        (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
            "font-family='ui-monospace,SFMono-Regular,Menlo,DejaVu Sans Mono,monospace' font-size='14' role='img'>"
        ),
        f"<rect width='{width}' height='{height}' rx='10' fill='#12181f'/>",
        *(
            f"<circle cx='{26 + 20 * i}' cy='22' r='6' fill='{colour}'/>"
            for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
    ]
    for number, line in enumerate(wrapped):
        y = _MARGIN + 34 + _LINE * number
        colour = (
            "#9ece6a"
            if line.startswith("$ ")
            else "#ff7b72"
            if line.startswith(("why:", "log:"))
            else "#d5dde6"
        )
        parts.append(
            f"<text x='{_MARGIN}' y='{y}' fill='{colour}' xml:space='preserve'>{html.escape(line)}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=" " * 7, drop_whitespace=False, replace_whitespace=False
    ) or [""]


def text_of(picture: str) -> list[str]:
    """The lines of a drawn terminal."""
    return [html.unescape(text) for text in re.findall(r"<text [^>]*>(.*?)</text>", picture)]


if __name__ == "__main__":
    PICTURE.write_text(draw(record()), encoding="utf-8")
