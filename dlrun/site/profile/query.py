"""Query the scheduler of this cluster with an ordinary user's rights, and record commands that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from dlrun import backends
from dlrun.backends import UNSUPPORTED
from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.model.hostlist import expand
from dlrun.schedulers.facts import UNREADABLE, Cluster, json_of, parsed
from dlrun.schedulers.flux import detection as site_flux, flux
from dlrun.schedulers.gridengine import detection as site_gridengine
from dlrun.schedulers.pbs import detection as site_pbs
from dlrun.schedulers.slurm import detection as site_slurm
from dlrun.system.inputs.profiles import Machine
from dlrun.system.process import Runner, run

Answer = TypeVar("Answer")
_Record = Mapping[str, str]


def ask_cluster(here: Machine, runner: Runner = run) -> Cluster:
    """The facts of this cluster; raises Invalid without a scheduler, OperationFailed if it does not answer."""
    failed = None
    for client, ask in _clients():
        if not here.has(client):
            continue
        try:
            return ask(Commands(runner, here))
        except OperationFailed as error:
            # Clusters may have clients of several schedulers, after a change or as wrappers (Slurm's `pbsnodes`).
            failed = failed or error
    if failed is not None:
        raise failed
    other = next((UNSUPPORTED[name] for client, name in _OTHERS.items() if here.has(client)), None)
    raise Invalid(
        f"the scheduler here is {other}, which dlrun does not support"
        if other
        else "no scheduler that dlrun supports is installed here",
        help="run this on a login node of the cluster (with `scontrol`, `flux`, `qconf`, or `pbsnodes` and `qstat`), or "
        "write a profile with `dlrun site new`",
    )


_OTHERS = {"pjsub": "pjm", "bsub": "lsf"}
"""Client -> a scheduler that dlrun does not support."""

_BY_HAND = (
    "repeat this on a login node whose scheduler answers, read its output from files with `dlrun site import`, or write a "
    "profile with `dlrun site new`"
)


def has_client(here: Machine) -> bool:
    """Whether a client of a supported scheduler is installed on this host."""
    return any(here.has(client) for client, _ in _clients())


class Commands:
    """Runs commands, and records those that answered and the errors of the others."""

    def __init__(self, runner: Runner, here: Machine) -> None:
        self.here = here
        self._runner = runner
        self.answered: list[str] = []
        self.failed: dict[str, str] = {}

    def required(self, *argv: str) -> str:
        """The output of a command; raises OperationFailed if it fails."""
        output = self.optional(*argv)
        if output is None:
            line = " ".join(argv)
            why = (self.failed[line] or "no message").splitlines()[-1]
            raise OperationFailed(f"`{line}` failed: {why}", help=_BY_HAND)
        return output

    def optional(self, *argv: str) -> str | None:
        """The output of a command, None if it fails."""
        line = " ".join(argv)
        try:
            done = self._runner(argv)
        except DlrunError as error:
            self.failed[line] = error.message
            return None
        if done.returncode:
            self.failed[line] = done.stderr.strip()[-300:]
            return None
        self.answered.append(line)
        return done.stdout

    def read(self, parse: Callable[[str], Answer], *argv: str) -> Answer | None:
        """The parsed output of a command; None if it fails or has another format."""
        output = self.optional(*argv)
        if output is None:
            return None
        try:
            return parse(output)
        except UNREADABLE as error:
            line = " ".join(argv)
            self.answered.remove(line)
            self.failed[line] = str(error)[:300]
            return None

    def finish(self, cluster: Cluster) -> Cluster:
        """The facts with the commands that answered and those that failed."""
        failed = [
            f"`{line}` did not answer" + (f": {why.splitlines()[-1]}" if why else "")
            for line, why in self.failed.items()
        ]
        # A truncated line has no name.
        named = tuple(queue for queue in cluster.queues if queue.name)
        return replace(cluster, queues=named, asked=tuple(self.answered), unseen=(*cluster.unseen, *failed))


def _slurm(commands: Commands) -> Cluster:
    """Query Slurm: partitions are required; nodes come from `sinfo --json`, or scontrol for old versions."""
    settings = commands.read(site_slurm.config, "scontrol", "show", "config") or {}
    partitions = commands.required("scontrol", "-o", "show", "partition")
    listed = commands.read(sinfo_records, "sinfo", "--json")
    shown = commands.read(site_slurm.records, "scontrol", "-o", "show", "node")
    if listed is None and shown is None:
        raise OperationFailed("neither `sinfo --json` nor `scontrol show node` lists the nodes",
                              help=next(reversed(commands.failed.values()), "") or None)  # fmt: skip
    cluster = parsed(_of_slurm, settings, partitions, listed or (), shown or ())
    if "slurmdbd" in settings.get("AccountingStorageType", ""):
        names = commands.optional("sacctmgr", "-nP", "show", "qos", "format=name")
        cluster = replace(cluster, qos=frozenset(names.split()) if names is not None else None)
    return commands.finish(cluster)


def _of_slurm(settings: _Record, partitions: str, *nodes: Iterable[_Record]) -> Cluster:
    return site_slurm.cluster(settings, site_slurm.records(partitions), site_slurm.merged(*nodes))


def _pbs(commands: Commands) -> Cluster:
    """Query PBS, in JSON if supported, else as text; qmgr is optional."""

    def output(*argv: str) -> str:
        answer = commands.optional(*argv, "-F", "json")
        if answer is None:
            answer = commands.required(*argv)
            # Text was the fallback: the refusal of the JSON option is not a fact of the cluster.
            del commands.failed[" ".join((*argv, "-F", "json"))]
        return answer

    server, queues, nodes = output("qstat", "-Bf"), output("qstat", "-Qf"), output("pbsnodes", "-a")
    manager = commands.optional("qmgr", "-c", "print server") if commands.here.has("qmgr") else None
    return commands.finish(parsed(site_pbs.cluster, server, queues, nodes, manager or ""))


def _flux(commands: Commands) -> Cluster:
    """Query Flux: resources, queues and their hosts; the configuration is optional."""
    version = commands.required("flux", "getattr", "version").strip()
    answers = [
        commands.required("flux", "resource", "R"),
        commands.required("flux", "queue", "list", "--no-header", f"--format={site_flux.QUEUES}"),
        commands.required(*site_flux.HOSTS),
        commands.optional("flux", "config", "get") or "",
    ]
    return commands.finish(replace(parsed(site_flux.cluster, *answers), version=version))


def _gridengine(commands: Commands) -> Cluster:
    """Query Grid Engine: hosts, queues, parallel environments, complexes; GPUs host by host, if the cell has any."""
    hosts, table = commands.required("qhost", "-F", "-q", "-xml"), commands.required("qconf", "-sc")
    queues = (
        commands.optional("qconf", "-sq", ",".join((commands.optional("qconf", "-sql") or "").split())) or ""
    )
    names = (commands.optional("qconf", "-spl") or "").split()
    environments = [commands.optional("qconf", "-sp", name) or "" for name in names]
    gpu = site_gridengine.gpu_complex(site_gridengine.complexes(table))
    gpus = {}
    for host in re.findall(r"<host name='([^']+)'", hosts) if gpu else ():
        shown = re.search(rf"\b{gpu}=(\d+)", commands.optional("qconf", "-se", host) or "")
        gpus[host] = int(shown[1]) if shown else 0
    name = (commands.optional("qconf", "-sss") or "").strip() or None
    version = re.search(r"\d+(\.\d+)+\w*", (commands.optional("qstat", "-help") or "").partition("\n")[0])
    texts = (hosts, queues, "\n".join(environments), table)
    read = partial(site_gridengine.cluster, name=name, version=version[0] if version else None, gpus=gpus)
    commands.answered = [line for line in commands.answered if not re.match("qconf -s[pe] ", line)]
    return commands.finish(parsed(read, *texts))


_CLIENTS: Mapping[str, Callable[[Commands], Cluster]] = {
    "scontrol": _slurm,
    "pbsnodes": _pbs,
    "qconf": _gridengine,
    flux.CLIENT: _flux,
}
"""Client that identifies a scheduler -> query function; in this order."""


def _clients() -> Iterator[tuple[str, Callable[[Commands], Cluster]]]:
    """Those of dlrun, then those of other packages: entry points `dlrun.detection` with `CLIENT` and `cluster`."""
    yield from _CLIENTS.items()
    for point in backends.elsewhere("detection").values():
        module = point.load()
        yield module.CLIENT, module.cluster


# Convert `sinfo --json` to the keys of `scontrol -o show node`, for the same parser.
#
# Slurm up to 22.05 lists nodes (`nodes`); later versions list groups of similar nodes per partition (`sinfo`), with minimum
# and maximum of each value.


def sinfo_records(text: str) -> list[dict[str, str]]:
    """One dictionary per node; raises ValueError for another format."""
    data = json_of(text)
    found: dict[str, dict[str, str]] = {}
    try:
        for node in data.get("nodes") or ():
            found[node["name"]] = _node(node)
        for group in data.get("sinfo") or ():
            for record in _group(group):
                known = found.setdefault(record["NodeName"], record)
                partitions = {*known["Partitions"].split(","), record["Partitions"]}
                known["Partitions"] = ",".join(sorted(partitions))
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"`sinfo --json` printed an unknown format: {error}") from None
    return list(found.values())


def _node(node: Mapping[str, Any]) -> dict[str, str]:
    return _known(
        NodeName=node["name"],
        Sockets=node["sockets"],
        CoresPerSocket=node["cores"],
        ThreadsPerCore=node["threads"],
        CPUTot=node["cpus"],
        RealMemory=node["real_memory"],
        Gres=node["gres"],
        AvailableFeatures=node["features"],
        Partitions=",".join(node["partitions"]),
        State=_state(node["state"]),
    )


def _group(group: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The nodes of a group, with values that are equal for all; others come from scontrol."""
    numbers = [group[what] for what in ("sockets", "cores", "threads", "cpus", "memory")]
    alike = all(one["minimum"] == one["maximum"] for one in numbers)
    sockets, cores, threads, cpus, memory = (one["maximum"] if alike else "" for one in numbers)
    for name in (host for word in group["nodes"]["nodes"] for host in expand(word)):
        yield _known(
            NodeName=name,
            Sockets=sockets,
            CoresPerSocket=cores,
            ThreadsPerCore=threads,
            CPUTot=cpus,
            RealMemory=memory,
            Gres=group["gres"]["total"],
            AvailableFeatures=group["features"]["total"],
            Partitions=group["partition"]["name"],
            State=_state(group["node"]["state"]),
        )


def _state(state: Any) -> str:
    return str(state if isinstance(state, str) else "+".join(state)).upper()


def _known(**values: Any) -> dict[str, str]:
    """The non-empty values as text."""
    return {key: str(value) for key, value in values.items() if value not in ("", None)}
