"""The scripts of the guide become the specs that stand below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dlrun.importing import read_script
from dlrun.importing.text import spec_text

PAGE = (Path(__file__).parents[3] / "docs" / "guide" / "from-your-script.md").read_text("utf-8")
PAIRS = re.findall(r"```bash\n(.*?)```.*?```yml\n(.*?)```", PAGE, re.DOTALL)


def bare(text: str) -> list[str]:
    """The lines without comments, in any order of blank lines; the name comes from the file where a script has none."""
    lines = re.sub(
        r"  # lines? [\d, ]+$", "", text.partition("\n# Not converted")[0], flags=re.MULTILINE
    ).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith(("#", "name:"))]


def test_there_are_four():
    assert len(PAIRS) == 4


@pytest.mark.parametrize(("script", "spec"), PAIRS)
def test_a_script_becomes_the_spec_below_it(script, spec):
    site = "perlmutter" if "site: perlmutter" in spec else None
    draft = read_script(script, "job.sh", 2 if site else 1)
    assert sorted(bare(spec_text(draft, "job.sh", site))) == sorted(bare(spec))
