"""What a job looks at by itself while it runs: placement, the fabric, progress."""

from __future__ import annotations

from dlrun.model.spec import Spec, Watch
from dlrun.plan.ledger import Ledger


def placement_check(spec: Spec, ledger: Ledger) -> Watch:
    """What the check of placement does in each rank, before the training."""
    if spec.verify != "off":
        ledger.take("verify", spec.verify)
    return spec.verify
