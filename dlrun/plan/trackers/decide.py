"""Which variables of experiment trackers a job sets. What the spec or the site sets or drops is left alone."""

from __future__ import annotations

from dlrun.model.plan import Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.plan.decisions import Ledger
from dlrun.plan.trackers.table import OFFLINE_MODE, SETTINGS

EVERY = "track-every-rank"
"""The rule of a variable that every rank gets, in contrast to rank 0 only."""
FIRST = "track-rank-0"


def decide(spec: Spec, site: Site, points: int, ledger: Ledger) -> tuple[Variable, ...]:
    """The variables for the trackers of `track`, each with its reason in the ledger."""
    if not spec.track:
        return ()
    ledger.take("track", ", ".join(spec.track))
    own = {*spec.environment.variables, *site.environment.variables, *spec.environment.drop, *spec.secrets}
    offline = site.internet is False and OFFLINE_MODE not in own
    chosen = [
        Variable(
            name=setting.variable,
            value=setting.text(site.name),
            rule=EVERY if setting.every else FIRST,
            because=setting.because,
            source=setting.source,
        )
        for setting in SETTINGS
        if setting.tracker in spec.track
        and setting.variable not in own
        and (points or not setting.of_sweep)
        and (offline or not setting.offline)
    ]
    for variable in chosen:
        ledger.decide(f"variables.{variable.name}", str(variable.value), variable.rule, variable.because)
    return tuple(chosen)
