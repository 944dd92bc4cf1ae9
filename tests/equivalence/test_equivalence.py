"""No import that ends with exit code 0 differs from its script: ten scripts for each kind of fault, run beside their jobs."""

from __future__ import annotations

import pytest

from tests.equivalence import compare
from tests.equivalence.cases import cases
from tests.examples import cases as some

CASES = list(cases())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not compare.works(), reason="needs bubblewrap, and leave to make namespaces"),
]


def test_there_are_ten_scripts_of_each_kind():
    kinds = {name.rpartition("-")[0] for name, _, _ in CASES}
    assert len(kinds) == 27
    assert len(CASES) == 27 * 10
    assert {verdict for _, verdict, _ in CASES} == {"equal", "check"}


@pytest.mark.parametrize(
    ("verdict", "script"), some([case[1:] for case in CASES], quick=0), ids=[case[0] for case in CASES]
)
def test_a_script_and_its_import_run_the_same(verdict, script):
    made = compare.compare(script)
    assert made.verdict == verdict, [*made.differences, made.result["import"]["stderr"]]
