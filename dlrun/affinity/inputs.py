"""The inputs of a placement: the node's topology, the job's requests, and variables already set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlrun import backends
from dlrun.affinity.bind import launcher_cpus
from dlrun.errors import Invalid
from dlrun.model.placement import PlacementOptions
from dlrun.model.site import GpuBinding
from dlrun.model.text import digits
from dlrun.model.topology import Topology
from dlrun.model.units import many
from dlrun.system.inputs.topology import DirectoryTree, granted_cpus, live_topology, topology_from


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecPlacement:
    """A spec's requests for a node: `placement:`, and values derived from other keys."""

    options: PlacementOptions
    ranks_per_node: int
    comm_cores: int
    gpus_per_rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementInputs:
    """A node's topology, and with a spec the job's requests.

    where: source of the topology, for messages; live: it is this machine's; asked, framework: from the spec; given: variables
    set in the spec or this shell; gpu_binding: the site's policy, None without a site.
    """

    topology: Topology
    where: str
    live: bool
    asked: SpecPlacement | None = None
    framework: str | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    gpu_binding: GpuBinding | None = None


def placement_inputs(
    spec: Path | None, site: str | None, node_type: str | None, topology: Path | None
) -> PlacementInputs:
    """Find the topology: of a file, a site's node type, a spec's nodes, else this machine.

    Raises Invalid if the site does not describe its nodes: a login node's topology never replaces theirs.
    """
    shell = dict(os.environ)
    if topology is not None and node_type is not None:
        raise Invalid("`--topology` and `--node-type` both name the node", help="give one of them")
    if topology is not None and spec is None:
        policy = _policy_of(site) if site is not None else None
        node = topology_from(topology)
        return PlacementInputs(
            topology=node, where=f"`{topology}`", live=False, given=shell, gpu_binding=policy
        )
    if spec is not None:
        return _of_spec(spec, site, topology, shell)
    if site is not None or node_type is not None:
        return _of_site(site, node_type, shell)
    return PlacementInputs(topology=live_topology(), where="this machine", live=True, given=shell)


def _policy_of(site: str) -> GpuBinding:
    """The GPU binding policy of a site."""
    from dlrun.system.inputs.spec import load_site

    return load_site(site).site.gpu_binding


def _of_spec(spec: Path, site: str | None, topology: Path | None, shell: dict[str, str]) -> PlacementInputs:
    from dlrun.jobs.submission.prepare import prepare
    from dlrun.system.inputs.spec import topology_for_spec

    prepared = prepare(spec, site=site)
    if prepared.inputs is None:
        raise Invalid(f"`{spec}` is a saved plan", help="give the spec that it was made from")
    node = topology_from(topology) if topology is not None else topology_for_spec(prepared.inputs)
    options, request = prepared.inputs.spec.placement, prepared.plan.request
    planned = prepared.plan.binding.placement
    here = backends.scheduler(prepared.plan.scheduler).ON_THIS_MACHINE
    if node is None and here:
        node = live_topology()
    if node is None:
        raise _not_described(prepared.plan.site)
    framework, chosen = backends.framework(prepared.plan.framework), prepared.inputs.spec.options
    auto = framework.comm_cores(chosen)
    ccl = getattr(chosen, "cpu_operations", "") == "ccl"
    return PlacementInputs(
        topology=node,
        where=f"the nodes of `{spec}` on site `{prepared.plan.site}`",
        live=here,
        asked=SpecPlacement(
            options=options,
            ranks_per_node=request.ranks_per_node * (prepared.plan.pool.places if prepared.plan.pool else 1),
            comm_cores=auto if options.comm_cores == "auto" else options.comm_cores,
            gpus_per_rank=len(planned.ranks[0].gpus) if planned else None,
        ),
        framework=f"{prepared.plan.framework}-ccl" if ccl else prepared.plan.framework,
        given={**shell, **prepared.inputs.spec.environment.variables},
        gpu_binding=prepared.inputs.site.gpu_binding,
    )


def _of_site(site: str | None, node_type: str | None, shell: dict[str, str]) -> PlacementInputs:
    from dlrun.system.inputs.profiles import Machine, recognise
    from dlrun.system.inputs.spec import load_site, topology_for_site

    loaded = load_site(site or recognise(Machine())[0])
    types = loaded.site.node_types
    name = node_type or (next(iter(types)) if len(types) == 1 else None)
    if not types:
        raise _not_described(loaded.site.name)
    if name is None or name not in types:
        listed = ", ".join(sorted(types)) or "none"
        raise Invalid(
            f"site `{loaded.site.name}` has no node type `{node_type}`"
            if node_type
            else f"site `{loaded.site.name}` has {len(types)} node types",
            help=f"name one with `--node-type`: {listed}",
        )
    node = topology_for_site(loaded, name)
    if node is None:
        raise _not_described(loaded.site.name)
    node = replace(node, name=node.name or name)
    where = f"`{name}` nodes of site `{loaded.site.name}`"
    return PlacementInputs(
        topology=node, where=where, live=False, given=shell, gpu_binding=loaded.site.gpu_binding
    )


def on_this_machine(inputs: PlacementInputs, action: str, *, described: bool) -> PlacementInputs:
    """The node with this machine's allowed CPUs, for an action on this machine.

    described: from a user's file, which may leave cores out and is not changed. Raises Invalid if this machine's cores differ.
    """
    here, theirs = live_topology(), inputs.topology
    if described and set(theirs.pus()) <= set(here.pus()):
        return inputs
    if {core.pus for core in here.cores} != {core.pus for core in theirs.cores}:
        raise Invalid(
            f"{action} applies to this machine ({_counted(here)}), and that of {inputs.where} is another ({_counted(theirs)})",
            help="run it in a job on one of them; without `--site`, `--topology` and SPEC it uses this machine",
        )
    return replace(inputs, topology=replace(theirs, allowed=here.allowed))


def as_a_rank(inputs: PlacementInputs) -> PlacementInputs:
    """The machine for one of several ranks, with the CPUs of the launcher that the job was granted.

    All ranks must compute the same placement, but the launcher may have bound each to another mask, so that a rank's own mask
    cannot be used. If Slurm has granted fewer CPUs without enforcing it, the own mask is the only information.
    """
    shared, granted = launcher_cpus(), granted_cpus(DirectoryTree(Path("/")))
    cpus = sorted(shared & granted if granted else shared)
    granted_count = os.environ.get("SLURM_CPUS_ON_NODE", "")
    if not cpus or (digits(granted_count) and int(granted_count) < len(cpus)):
        return inputs
    return replace(inputs, topology=replace(inputs.topology, allowed=tuple(cpus)))


def whole_node(inputs: PlacementInputs) -> Topology:
    """This machine with all its CPUs, and the GPUs that its control group lets this process open, whatever a variable shows."""
    gpus = live_topology(environment={}).gpus if inputs.live else inputs.topology.gpus
    return replace(inputs.topology, allowed=None, gpus=gpus)


def _counted(topology: Topology) -> str:
    return f"{many(len(topology.cores), 'core')}, {many(len(topology.pus()), 'hardware thread')}"


def _not_described(site: str) -> Invalid:
    return Invalid(
        f"site `{site}` does not describe the topology of these nodes",
        help="run `dlrun tune-affinity --capture -o FILE` in a job on one, and name the file in the profile",
    )
