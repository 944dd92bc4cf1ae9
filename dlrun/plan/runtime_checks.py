"""What a job looks at by itself while it runs: placement, the fabric, progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun import backends
from dlrun.fabrics import libraries
from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.hostlist import expand
from dlrun.model.plan import FabricCheck, NodeChecks, Plan, Request, Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec, Watch
from dlrun.model.text import Text
from dlrun.model.units import Bytes
from dlrun.plan.decisions import Ledger
from dlrun.plan.fabric import job_of
from dlrun.plan.resources import Layout

TRANSPORT_LINES = "transport_lines.py"
"""The node program that reads what communication libraries say of themselves."""
NODE_CHECKS = "node_checks.py"
"""The node program that checks nodes and chooses among them."""
TALKATIVE = {
    "gloo": (("GLOO_LOG_LEVEL", "INFO"),),
    "nccl": (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,NET")),
    "oneccl": (("CCL_LOG_LEVEL", "info"),),
    "intel-mpi": (("I_MPI_DEBUG", "4"),),
    "openmpi": (("OMPI_MCA_btl_base_verbose", "1"), ("OMPI_MCA_mtl_base_verbose", "1")),
    "ucx": (("UCX_LOG_LEVEL", "info"),),
}
"""What makes each library say by what it talks: NCCL, oneCCL, Intel MPI and UCX documentation, environment variables;
Gloo's own source (gloo/common/logging.cc; releases before 2025 speak without it); for Open MPI, which without UCX or
libfabric falls back to sockets in silence, the least level at which 4.1 names the transport to each peer."""
_ALSO = {"mpi-program": ("intel-mpi", "openmpi", "ucx"), "mpich": ("ucx",)}
"""What may be behind a program of any MPI, and what MPICH can be built on (ch4:ucx)."""


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
    found = expected(site, spec.fabric_check)
    if found is None:
        ledger.problem(
            "DLR090",
            f"`fabric_check` has nothing to compare with: site `{site.name}` names no fabric that dlrun knows",
            "fabric_check",
            help="give `fabric.name`, or `fabric.expect`, in the site profile",
            warning=True,
        )
    return found


def expected(site: Site, action: Watch) -> FabricCheck | None:
    """What libraries can choose on the site's fabric without falling back; None if dlrun does not know that."""
    fabric = site.fabric
    expect = (fabric.expect or libraries.TRANSPORTS.get(fabric.name, ())) if fabric is not None else ()
    if fabric is None or not expect:
        return None
    return FabricCheck(action=action, fabric=fabric.name, expect=tuple(expect), advice=fabric.advice)


def talkative(
    check: FabricCheck | None, spec: Spec, site: Site, layout: Layout, launcher: str, ledger: Ledger
) -> tuple[Variable, ...]:
    """The variables by which the libraries in play say what they chose; a user's own stay, with a warning."""
    if check is None:
        return ()
    given = {**site.environment.variables, **spec.environment.variables}
    variables = []
    named = job_of(spec, site, layout, launcher).libraries
    behind = {library for name in named for library in _ALSO.get(name, ())}
    for library in sorted((named | behind) & TALKATIVE.keys()):
        for name, value in TALKATIVE[library]:
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


def node_checks(
    spec: Spec, site: Site, layout: Layout, launcher: Launcher, ledger: Ledger
) -> NodeChecks | None:
    """What is looked at on each granted node; None unless spare nodes are asked for."""
    if not layout.spare_nodes:
        return None
    ledger.take("resources.spare_nodes", layout.spare_nodes)
    leave_out: tuple[str, ...] = ()
    scheduler = backends.scheduler(site.scheduler.type)
    if spec.resources.exclude and scheduler.NO_EXCLUDE:
        leave_out = _hosts(spec.resources.exclude, ledger)
        ledger.decide("resources.exclude", leave_out, "left-out-in-the-job", scheduler.NO_EXCLUDE,
                      origin=ledger.origin("resources.exclude"))  # fmt: skip
    if not launcher.CHOOSES_NODES:
        ledger.problem(
            "DLR091",
            f"launcher `{launcher.NAME}` starts ranks on every granted node, and spare ones are to be left out",
            "resources.spare_nodes",
            help="leave `spare_nodes` out, or use another `launcher:`",
        )
    local, fabric, by_name = site.storage.node_local, site.fabric, site.rendezvous.address == "hostname"
    one = Step(nodes=1, first_only=True, per_node=1, count=1, scheduler=site.scheduler.type, beside=True)
    return NodeChecks(
        spare=layout.spare_nodes,
        launch=tuple(launcher.start(one, site.launcher)),
        commands=site.node_checks,
        memory=int(layout.memory) if isinstance(layout.memory, Bytes) else None,
        directory=local.path if local is not None else "/tmp",  # noqa: S108 - looked at, on purpose
        space=int(spec.resources.node_local) if spec.resources.node_local is not None else None,
        gpus=layout.gpus_per_node,
        interfaces=fabric.interfaces if fabric is not None else (),
        suffix=site.rendezvous.suffix if by_name else "",
        keep_out=int(site.bad_nodes_for),
        leave_out=leave_out,
    )


def _hosts(folded: Sequence[str], ledger: Ledger) -> tuple[str, ...]:
    """The hosts under `exclude`, written out; notes a list whose brackets do not match."""
    try:
        return tuple(host for name in folded for host in expand(name))
    except ValueError as error:
        ledger.problem("DLR091", str(error), "resources.exclude", help="write hosts as `n1` or `n[01-04,7]`")
        return ()


def hang_watch(spec: Spec, ledger: Ledger) -> tuple[Variable, ...]:
    """What ranks need so that they can say where they stand."""
    if spec.hang is None:
        return ()
    ledger.take("hang", spec.hang)
    because = "a rank that hangs writes its Python stacks to its log when it is sent SIGABRT"
    source = "Python documentation, faulthandler"
    one = Variable(
        name="PYTHONFAULTHANDLER", value=Text.of("1"), rule="hang-watch", because=because, source=source
    )
    return (one,)


def granted(request: Request) -> Request:
    """What the scheduler is asked for: the spare nodes are nodes like the others to it."""
    more = request.spare_nodes
    return replace(request, nodes=request.nodes + more, ranks=request.ranks + more * request.ranks_per_node)


def programs(plan: Plan) -> tuple[str, ...]:
    """The node programs that a job's own checks need."""
    wanted = {TRANSPORT_LINES: plan.fabric_check, NODE_CHECKS: plan.node_checks}
    return tuple(name for name, check in wanted.items() if check is not None)
