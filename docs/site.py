"""The documentation as a site of files: `python -m docs.site OUT`.

Pages keep their places in the repository, so that the links between them, and to the examples that they name, are the
same here and there. `docs/mkdocs.yml` sets its appearance and the order of the pages.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mkdocs.commands.build import build as write
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "docs" / "mkdocs.yml"
OWN = (ROOT / "docs" / "iframe-worker.js", ROOT / "docs" / "site.css")
"""What the site has besides pages and what they link to."""
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")


def pages() -> list[Path]:
    """Every page of the site."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").glob("**/*.md"))]


def linked() -> Iterator[Path]:
    """The files of the repository, other than pages, that pages link to; MkDocs reports those that do not exist."""
    for page in pages():
        for target in LINK.findall(page.read_text("utf-8")):
            path = (page.parent / target).resolve()
            if "://" not in target and path.is_file() and path.is_relative_to(ROOT):
                yield path


def place(page: Path) -> str:
    """What a page is sorted by in the navigation: its file name if that begins with a number, else its title."""
    if page.name[0].isdigit():
        return page.name
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ").lower()


def navigation(entries: list[object]) -> list[object]:
    """Entries of `nav`, with `*` replaced by the pages that it matches."""
    named = {entry for entry in entries if isinstance(entry, str) and "*" not in entry}
    found: list[object] = []
    for entry in entries:
        if isinstance(entry, dict):
            found += [
                {title: navigation(below) if isinstance(below, list) else below}
                for title, below in entry.items()
            ]
        elif isinstance(entry, str) and "*" in entry:
            matching = sorted(ROOT.glob(entry), key=place)
            found += [
                path.relative_to(ROOT).as_posix()
                for path in matching
                if path.relative_to(ROOT).as_posix() not in named
            ]
        else:
            found.append(entry)
    return found


def bars(text: str) -> str:
    r"""The page with `|` instead of `\|` in code in tables: Python-Markdown would show the backslash."""
    code = re.compile(r"`[^`\n]+`")
    rows = (
        code.sub(lambda found: found[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in text.splitlines(keepends=True)
    )
    return "".join(rows)


def build(out: Path) -> None:
    """Build the site in `out`; raises mkdocs.exceptions.Abort if a link is broken or the navigation lacks a page."""
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # an advertisement
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with tempfile.TemporaryDirectory() as place:
        for path in {*pages(), *linked(), *OWN}:
            copy = Path(place, path.relative_to(ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".md":
                copy.write_text(bars(path.read_text("utf-8")), "utf-8")
            else:
                shutil.copyfile(path, copy)
        config = load_config(str(CONFIG), docs_dir=place, site_dir=str(out.resolve()), strict=True)
        config.nav = navigation(config.nav)
        config.plugins.on_startup(command="build", dirty=False)
        write(config)


def main() -> None:
    """Build the site that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("out", type=Path, help="output folder; its content is replaced")
    build(parser.parse_args().out)


if __name__ == "__main__":
    main()
