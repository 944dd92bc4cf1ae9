"""The checks of a running job: binding, fabric, nodes, progress, usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlrun import backends
from dlrun.fabrics import rules
from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.hostlist import expand
from dlrun.model.plan import FabricCheck, NodeChecks, Plan, Request, Variable
from dlrun.model.site import Site
from dlrun.model.spec import Spec, Watch
from dlrun.model.text import Text
from dlrun.model.units import Bytes
from dlrun.plan.decisions import Ledger
from dlrun.plan.fabric import job_of
from dlrun.plan.launch_line import settings_of, started
from dlrun.plan.resources import Layout

TRANSPORT_LINES = "transport_lines.py"
"""The node program that reads the selected transport from the logs of communication libraries."""
NODE_CHECKS = "node_checks.py"
"""The node program that checks nodes and selects the best."""
POOL = ("pool.py", "places.py", "coordinator.py", "mps.py", "holders.py")
"""The node program that runs the points of a sweep inside one job, and its modules."""
SAMPLER = "usage.py"
"""The node program that records the resource usage of a node's ranks."""
VERBOSE = {
    "gloo": (("GLOO_LOG_LEVEL", "INFO"),),
    "nccl": (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,NET")),
    "oneccl": (("CCL_LOG_LEVEL", "info"),),
    "intel-mpi": (("I_MPI_DEBUG", "4"),),
    "openmpi": (("OMPI_MCA_btl_base_verbose", "1"), ("OMPI_MCA_mtl_base_verbose", "1")),
    "ucx": (("UCX_LOG_LEVEL", "info"),),
}
"""Variables that make each library log the transport it selected. Sources: environment variables in the documentation of
NCCL, oneCCL, Intel MPI and UCX; gloo/common/logging.cc (Gloo before 2025 logs it anyway). Open MPI falls back to sockets
without a message; its value is the lowest level at which 4.1 logs the transport to each peer."""
_BELOW = {"mpi-program": ("intel-mpi", "openmpi", "ucx"), "mpich": ("ucx",)}
"""Library -> libraries possibly below it: any MPI of an unknown MPI program, UCX below MPICH (ch4:ucx)."""


def placement_check(spec: Spec, ledger: Ledger) -> Watch:
    """The action of each rank's binding check before the training."""
    if spec.verify != "off":
        ledger.take("verify", spec.verify)
    return spec.verify


def fabric_check(spec: Spec, site: Site, layout: Layout, ledger: Ledger) -> FabricCheck | None:
    """The expected transports; None if `fabric_check` is off, or there is nothing to compare."""
    if spec.fabric_check == "off":
        return None
    if layout.nodes == 1:
        ledger.decide("fabric_check", "off", "one-node", "a job on one node does not use the fabric")
        return None
    ledger.take("fabric_check", spec.fabric_check)
    check = expected(site, spec.fabric_check)
    if check is None:
        ledger.problem(
            "DLR090",
            f"`fabric_check` is not possible: the transports of the fabric of site `{site.name}` are unknown",
            "fabric_check",
            help="set `fabric.name` or `fabric.expect` in the site profile",
            warning=True,
        )
    return check


def expected(site: Site, action: Watch) -> FabricCheck | None:
    """The transports that libraries can select on the site's fabric without a fallback; None if unknown."""
    fabric = site.fabric
    expect = (fabric.expect or rules.TRANSPORTS.get(fabric.name, ())) if fabric is not None else ()
    if fabric is None or not expect:
        return None
    return FabricCheck(action=action, fabric=fabric.name, expect=tuple(expect), advice=fabric.advice)


def verbose_variables(
    check: FabricCheck | None, spec: Spec, site: Site, layout: Layout, launcher: str, ledger: Ledger
) -> tuple[Variable, ...]:
    """Variables that make the libraries of the job log their transport; a user's own are kept, with a warning."""
    if check is None:
        return ()
    configured = {**site.environment.variables, **spec.environment.variables}
    variables = []
    # MPI programs may run over several MPIs, and dlrun does not know which: all of them are asked to log.
    named = job_of(spec, site, layout, launcher).libraries
    behind = {library for name in named for library in _BELOW.get(name, ())}
    for library in sorted((named | behind) & VERBOSE.keys()):
        for name, value in VERBOSE[library]:
            if name not in configured:
                because = "makes the library log its transport, which `fabric_check` compares"
                variables.append(
                    Variable(name=name, value=Text.of(value), rule="fabric-check", because=because)
                )
            elif name == "NCCL_DEBUG" and configured[name].upper() not in ("INFO", "TRACE"):
                ledger.problem(
                    "DLR090",
                    f"with `{name}={configured[name]}` NCCL does not log the transport that `fabric_check` needs",
                    f"environment.variables.{name}",
                    "fabric_check",
                    help="remove the variable, or set it to INFO",
                    warning=True,
                )
    return tuple(variables)


def node_checks(
    spec: Spec, site: Site, layout: Layout, launcher: Launcher, ledger: Ledger
) -> NodeChecks | None:
    """The checks of each granted node; None without spare nodes."""
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
            f"launcher `{launcher.NAME}` starts ranks on every granted node, but spare nodes must stay unused",
            "resources.spare_nodes",
            help="remove `spare_nodes`, or use another `launcher:`",
        )
    local, fabric, by_name = site.storage.node_local, site.fabric, site.rendezvous.address == "hostname"
    step = Step(nodes=1, first_only=True, per_node=1, count=1, scheduler=site.scheduler.type, beside=True)
    return NodeChecks(
        spare=layout.spare_nodes,
        launch=started(launcher, step, settings_of(launcher, site)),
        commands=site.node_checks,
        memory=int(layout.memory) if isinstance(layout.memory, Bytes) else None,
        directory=local.path if local is not None else "/tmp",  # noqa: S108 - only its free space is checked
        space=int(spec.resources.node_local) if spec.resources.node_local is not None else None,
        gpus=layout.gpus_per_node,
        interfaces=fabric.interfaces if fabric is not None else (),
        suffix=site.rendezvous.suffix if by_name else "",
        keep_out=int(site.bad_nodes_for),
        leave_out=leave_out,
    )


def _hosts(folded: Sequence[str], ledger: Ledger) -> tuple[str, ...]:
    """The expanded host list of `exclude`; adds a problem for unbalanced brackets."""
    try:
        return tuple(host for name in folded for host in expand(name))
    except ValueError as error:
        ledger.problem("DLR091", str(error), "resources.exclude", help="write hosts as `n1` or `n[01-04,7]`")
        return ()


def hang_watch(spec: Spec, ledger: Ledger) -> tuple[Variable, ...]:
    """The variable that makes a hanging rank write its stacks; empty without `hang`."""
    if spec.hang is None:
        return ()
    ledger.take("hang", spec.hang)
    because = "on SIGABRT, a hanging rank writes its Python stacks to its log"
    source = "Python documentation, faulthandler"
    variable = Variable(
        name="PYTHONFAULTHANDLER", value=Text.of("1"), rule="hang-watch", because=because, source=source
    )
    return (variable,)


def granted(request: Request) -> Request:
    """The request for the scheduler, which includes the spare nodes."""
    more = request.spare_nodes
    return replace(request, nodes=request.nodes + more, ranks=request.ranks + more * request.ranks_per_node)


def programs(plan: Plan) -> tuple[str, ...]:
    """The node programs that the job's checks need."""
    wanted = {
        TRANSPORT_LINES: plan.fabric_check is not None,
        NODE_CHECKS: plan.node_checks is not None,
        **dict.fromkeys(POOL, plan.pool is not None),
        SAMPLER: plan.usage,
    }
    return tuple(name for name, is_wanted in wanted.items() if is_wanted)
