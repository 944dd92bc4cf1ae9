"""Whatever is in a spec or profile, dlrun answers with its meaning or with problems at their places: never with a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.config import sites
from dlrun.model.problem import InvalidFile
from dlrun.site.profile import check as site_check
from dlrun.system.inputs.profiles import Machine
from dlrun.system.inputs.spec import load_spec
from dlrun.terminal.diagnostics import report, report_problems
from tests.examples import cases, examples
from tests.properties.mutations import SITE, SPEC, mutate

ROUNDS = 10
EACH = examples(1000)


@pytest.mark.parametrize("seed", cases(range(ROUNDS), quick=2))
def test_mutated_specs(seed, tmp_path):
    chance = random.Random(seed)
    here = Machine(environment={"PATH": ""}, home=tmp_path, root=tmp_path, host="laptop")
    path = tmp_path / "spec.yaml"
    good = bad = 0
    for _ in range(EACH):
        text = mutate(SPEC, chance)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        error = outcome(path, here)
        good, bad = (good + 1, bad) if error is None else (good, bad + 1)
        if error is not None:
            assert all(len(p.message) < 400 and "Traceback" not in p.message for p in error.problems), text
            assert report(error).encode("utf-8"), text
    assert min(good, bad) > EACH // 50  # the mutations are neither harmless nor all fatal


@pytest.mark.slow
def test_mutated_profiles(tmp_path):
    chance = random.Random(0)
    here = Machine(environment={"PATH": ""}, home=tmp_path, root=tmp_path, host="laptop")
    path = tmp_path / "cluster.yaml"
    clean = 0
    for _ in range(EACH):
        text = mutate(SITE, chance)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        found = site_check.check_profile(str(path), here)
        assert report_problems(found.problems, found.sources).encode("utf-8") or not found.problems, text
        sites.recognise_block(text.encode("utf-8", "replace").decode())
        clean += all(p.warning or "small.xml" in p.message for p in found.problems)
    assert EACH // 50 < clean < EACH


def outcome(path: Path, here: Machine) -> InvalidFile | None:
    """What is wrong with a spec; anything else that is raised fails the test."""
    try:
        load_spec(path, options=backends.framework_options, here=here)
    except InvalidFile as error:
        return error
    return None


def test_the_unbroken_spec_is_good(tmp_path):
    path = Path(tmp_path / "spec.yaml")
    path.write_text(SPEC)
    found = load_spec(
        path,
        options=backends.framework_options,
        here=Machine(environment={"PATH": ""}, home=tmp_path, root=tmp_path),
    )
    assert found.spec.resources.walltime == 36000
