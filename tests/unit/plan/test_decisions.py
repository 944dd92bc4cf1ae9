"""The notebook of a plan: which place a decision or a problem gets."""

from dlrun.model.origin import BUILT_IN, Layer, Origin
from dlrun.plan.decisions import Ledger

WRITTEN = Origin(layer=Layer.SPEC, name="spec.yaml", line=3, column=5)
BLOCK = Origin(layer=Layer.SPEC, name="spec.yaml", line=2, column=1)
LEDGER_ORIGINS = {"resources": BLOCK, "resources.nodes": WRITTEN, "resources.exclusive": BUILT_IN}


def test_the_first_key_that_somebody_wrote_is_the_place():
    ledger = Ledger(LEDGER_ORIGINS)
    assert ledger.origin("resources.nodes") == WRITTEN
    assert ledger.origin("resources.ranks", "resources.nodes") == BLOCK
    assert ledger.origin("resources.exclusive") == BLOCK
    assert ledger.origin("command.3", "resources.nodes") == WRITTEN
    assert ledger.origin("placement", "name") is None


def test_given_is_only_what_somebody_wrote():
    ledger = Ledger(LEDGER_ORIGINS)
    assert ledger.given("resources.nodes")
    assert not ledger.given("resources.exclusive")
    assert not ledger.given("resources.ranks")


def test_a_value_taken_as_written_says_where():
    ledger = Ledger(LEDGER_ORIGINS)
    assert ledger.take("resources.nodes", 4) == 4
    assert ledger.take("resources.hold", False) is False
    written, default = ledger.decisions
    assert (written.key, written.value, written.rule) == ("resources.nodes", 4, "as-written")
    assert (written.because, written.origin) == ("spec: spec.yaml:3:5", WRITTEN)
    assert default.because == "built-in: dlrun's default"


def test_problems_have_their_place():
    ledger = Ledger(LEDGER_ORIGINS)
    ledger.problem("DLR011", "no", "resources.ranks", "resources.nodes", help="do", warning=True)
    (problem,) = ledger.problems
    assert (problem.code, problem.message, problem.help, problem.warning) == ("DLR011", "no", "do", True)
    assert problem.origin == BLOCK
