"""Each faulty file beside this one gives the report beside it, word for word: nothing else, no traceback.

`DLRUN_UPDATE_REPORTS=1 pytest tests/errors` writes the reports anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.model.problem import InvalidFile
from dlrun.site.profile import check as site_check
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_spec
from dlrun.terminal.diagnostics import report, report_problems

CASES = Path(__file__).parent
UPDATE = bool(os.environ.get("DLRUN_UPDATE_REPORTS"))  # now: no test sees the user's own variables
SPECS = sorted((CASES / "spec").glob("*.yaml"))
SITES = sorted((CASES / "site").glob("*.yaml"))


@pytest.fixture
def here(tmp_path):
    """A machine with no scheduler, no settings and no profiles but the shipped ones."""
    return Machine(environment={"PATH": ""}, home=tmp_path / "home", root=tmp_path / "root", host="laptop")


def compare(case: Path, text: str) -> None:
    expected = case.with_suffix(".txt")
    if UPDATE:
        expected.write_text(text, "utf-8")
    assert text == expected.read_text("utf-8")


@pytest.mark.parametrize("case", SPECS, ids=lambda case: case.stem)
def test_spec_report(case, here, tmp_path, monkeypatch):
    (tmp_path / "spec.yaml").write_bytes(case.read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFile) as raised:
        load_spec(Path("spec.yaml"), options=backends.framework_options, here=here)
    assert raised.value.exit_code == 2
    text = report(raised.value)
    assert "canary" not in text + report(raised.value, form="json") + repr(raised.value)
    compare(case, text)


@pytest.mark.parametrize("case", SITES, ids=lambda case: case.stem)
def test_site_report(case, here, tmp_path, monkeypatch):
    (tmp_path / case.name).write_bytes(case.read_bytes())
    monkeypatch.chdir(tmp_path)
    found = site_check.check_profile(f"./{case.name}", here)
    text = report_problems(found.problems, found.sources)
    assert "canary" not in text
    compare(case, text)
