"""What a job looks at by itself while it runs: placement, the fabric, progress."""

from __future__ import annotations

from dlrun.fabrics import libraries
from dlrun.model.plan import FabricCheck, Plan, Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec, Watch
from dlrun.model.text import Text
from dlrun.plan.fabric import job_of
from dlrun.plan.ledger import Ledger
from dlrun.plan.resources import Layout

TRANSPORT_LINES = "transport_lines.py"
"""The node program that reads what communication libraries say of themselves."""

_TALKATIVE = {
    "nccl": (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,NET")),
    "oneccl": (("CCL_LOG_LEVEL", "info"),),
    "intel-mpi": (("I_MPI_DEBUG", "4"),),
    "ucx": (("UCX_LOG_LEVEL", "info"),),
}
"""What makes each library say by what it talks: NCCL, oneCCL, Intel MPI and UCX documentation, environment variables."""


def placement_check(spec: Spec, ledger: Ledger) -> Watch:
    """What the check of placement does in each rank, before the training."""
    if spec.verify != "off":
        ledger.take("verify", spec.verify)
    return spec.verify


def fabric_check(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> FabricCheck | None:
    """What the transport that libraries choose is held against; None if it is not asked for, or nothing can differ."""
    if spec.fabric_check == "off":
        return None
    if layout.nodes == 1:
        ledger.decide("fabric_check", "off", "one-node", "a job of one node talks over no fabric")
        return None
    ledger.take("fabric_check", spec.fabric_check)
    fabric = site.fabric
    expect = (fabric.expect or libraries.TRANSPORTS.get(fabric.name, ())) if fabric is not None else ()
    if fabric is None or not expect:
        ledger.problem(
            "DLR090",
            f"`fabric_check` has nothing to compare with: site `{site.name}` names no fabric that dlrun knows",
            "fabric_check",
            help="give `fabric.name`, or `fabric.expect`, in the site profile",
            warning=True,
        )
        return None
    return FabricCheck(
        action=spec.fabric_check, fabric=fabric.name, expect=tuple(expect), advice=fabric.advice
    )


def talkative(
    check: FabricCheck | None, spec: Spec, site: Site, layout: Layout, launcher: str, ledger: Ledger
) -> tuple[Variable, ...]:
    """The variables by which the libraries in play say what they chose; a user's own stay, with a warning."""
    if check is None:
        return ()
    given = {**site.environment.variables, **spec.environment.variables}
    variables = []
    for library in sorted(job_of(spec, site, layout, launcher).libraries & _TALKATIVE.keys()):
        for name, value in _TALKATIVE[library]:
            if name not in given:
                because = "`fabric_check` reads what the library says of its transport"
                variables.append(
                    Variable(name=name, value=Text.of(value), rule="fabric-check", because=because)
                )
            elif name == "NCCL_DEBUG" and given[name].upper() not in ("INFO", "TRACE"):
                ledger.problem(
                    "DLR090",
                    f"`fabric_check` cannot see what NCCL chooses with `{name}={given[name]}`",
                    f"environment.variables.{name}",
                    "fabric_check",
                    help="leave the variable out, or set it to INFO",
                    warning=True,
                )
    return tuple(variables)


def programs(plan: Plan) -> tuple[str, ...]:
    """The node programs that a job's own checks need."""
    return (TRANSPORT_LINES,) if plan.fabric_check is not None else ()
