"""Options of qsub(1B) of OpenPBS 23.06 and Torque 6, and their resources (pbs_resources(7B))."""

from __future__ import annotations

from dlrun.schedulers.options import OptionTable, optional, written

_NODES = "resources.nodes and the other keys of `resources`"
_BOTH = (
    written("N", "name"),
    written("W:depend l:depend", "after"),
    written("h", "hold"),
    written("r", "on_failure.requeue"),
    written("l:select l:nodes", _NODES, "nodes"),
    written("l:ncpus l:mpiprocs l:ompthreads", _NODES),
    written("l:ngpus", _NODES, "gpus"),
    written("l:mem", _NODES, "memory"),
    written("l:place", _NODES, "exclusive"),
    written("l:walltime", "resources.walltime", "walltime"),
    written("q", "resources.partition", "partition"),
    written("o e j k", "`dlrun logs` shows the output, which is in the job directory"),
    optional("A P", "resources.account", "account"),
    optional("l:vmem l:pmem l:pvmem", "resources.memory_per_node", "memory"),
    optional("l:host l:vnode", "resources.hosts", "hosts"),
    optional("l:nodect", "resources.nodes", "nodes"),
)
OPENPBS = OptionTable(
    [
        *_BOTH,
        written("J", "sweep", "array"),
        optional("l:min_walltime l:max_walltime l:soft_walltime", "resources.walltime", "walltime"),
    ],
    lists="l W",
    resources="l",
)
TORQUE = OptionTable(
    [
        *_BOTH,
        written("t", "sweep", "array"),
        optional("l:naccesspolicy n", "resources.exclusive", "exclusive"),
        optional("l:gpus", "resources.gpus_per_node", "gpus"),
        optional("l:qos", "resources.qos", "qos"),
        optional("l:feature", "resources.constraint", "constraint"),
        optional("l:advres", "resources.reservation", "reservation"),
        optional("l:hostlist", "resources.hosts", "hosts"),
        optional("W:x", "resources.qos", "qos", pattern="(?i)qos:"),
    ],
    lists="l W",
    resources="l",
)
