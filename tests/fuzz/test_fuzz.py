"""Everything that dlrun reads, damaged: an answer or an error with a message, never a traceback. In small; see `__main__`."""

from __future__ import annotations

import shutil

import pytest

from tests.examples import cases, examples
from tests.fuzz.areas import AREAS, case


@pytest.mark.parametrize("area", cases(AREAS, quick=2))
def test_damaged_input_is_no_bug(area, tmp_path):
    well = 0
    for seed in range(max(30, examples(100))):
        place = tmp_path / str(seed)
        place.mkdir()
        well += case(area, place, seed)
        shutil.rmtree(place)
    assert well, "no case came to its end: the area tests nothing"
