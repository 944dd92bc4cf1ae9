"""Queries the scheduler of this cluster about its parts, as an ordinary user may; lists what did not answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from dlrun.effects.inputs.profiles import Machine
from dlrun.effects.process import Runner, run
from dlrun.effects.site import flux as site_flux
from dlrun.effects.site import gridengine as site_gridengine
from dlrun.effects.site import pbs as site_pbs
from dlrun.effects.site import sinfo as site_sinfo
from dlrun.effects.site import slurm as site_slurm
from dlrun.effects.site.facts import Cluster
from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.schedulers.flux import flux

Answer = TypeVar("Answer")


def ask_cluster(here: Machine, runner: Runner = run) -> Cluster:
    """The answer of this cluster's scheduler; raises Invalid where there is none, OperationFailed if it does not answer."""
    silent = None
    for client, ask in _CLIENTS.items():
        if not here.has(client):
            continue
        try:
            return ask(_Asker(runner, here))
        except OperationFailed as error:
            # Some clusters have clients of several, from a change of scheduler or as Slurm's own `pbsnodes`.
            silent = silent or error
    if silent is not None:
        raise silent
    raise Invalid(
        "no scheduler that dlrun supports is installed here",
        help="run this on a login node of the cluster (with `scontrol`, `flux`, `qconf`, or `pbsnodes` and `qstat`), or "
        "write a profile with `dlrun site new`",
    )


_BY_HAND = (
    "repeat this on a login node whose scheduler answers, read its output from files with `dlrun site import`, or write a "
    "profile with `dlrun site new`"
)


def has_client(here: Machine) -> bool:
    """Whether a client of a scheduler that can be asked is installed here."""
    return any(here.has(client) for client in _CLIENTS)


class _Asker:
    """Runs the commands, and records which answered and the errors of the others."""

    def __init__(self, runner: Runner, here: Machine) -> None:
        self.here = here
        self._runner = runner
        self.answered: list[str] = []
        self.refused: dict[str, str] = {}

    def must(self, *argv: str) -> str:
        """What a command prints; raises OperationFailed if it fails."""
        said = self.may(*argv)
        if said is None:
            line = " ".join(argv)
            why = (self.refused[line] or "no message").splitlines()[-1]
            raise OperationFailed(f"`{line}` failed: {why}", help=_BY_HAND)
        return said

    def may(self, *argv: str) -> str | None:
        """What a command prints, None if it fails."""
        line = " ".join(argv)
        try:
            done = self._runner(argv)
        except DlrunError as error:
            self.refused[line] = error.message
            return None
        if done.returncode:
            self.refused[line] = done.stderr.strip()[-300:]
            return None
        self.answered.append(line)
        return done.stdout

    def read(self, form: Callable[[str], Answer], *argv: str) -> Answer | None:
        """What a command prints, read; None if it fails or prints another form."""
        said = self.may(*argv)
        if said is None:
            return None
        try:
            return form(said)
        except ValueError as error:
            line = " ".join(argv)
            self.answered.remove(line)
            self.refused[line] = str(error)[:300]
            return None

    def finish(self, cluster: Cluster) -> Cluster:
        """The facts, with the commands that answered and those that did not."""
        silent = [
            f"`{line}` did not answer" + (f": {why.splitlines()[-1]}" if why else "")
            for line, why in self.refused.items()
        ]
        return replace(cluster, asked=tuple(self.answered), unseen=(*cluster.unseen, *silent))


def _slurm(asker: _Asker) -> Cluster:
    """Partitions are required; nodes come from `sinfo --json`, or scontrol where Slurm is too old for it."""
    settings = asker.read(site_slurm.config, "scontrol", "show", "config") or {}
    partitions = site_slurm.records(asker.must("scontrol", "-o", "show", "partition"))
    listed = asker.read(site_sinfo.records, "sinfo", "--json")
    shown = asker.read(site_slurm.records, "scontrol", "-o", "show", "node")
    if listed is None and shown is None:
        raise OperationFailed("neither `sinfo --json` nor `scontrol show node` lists the nodes",
                              help=next(reversed(asker.refused.values()), "") or None)  # fmt: skip
    cluster = site_slurm.cluster(settings, partitions, site_slurm.merged(listed or (), shown or ()))
    if "slurmdbd" in settings.get("AccountingStorageType", ""):
        names = asker.may("sacctmgr", "-nP", "show", "qos", "format=name")
        cluster = replace(cluster, qos=frozenset(names.split()) if names is not None else None)
    return asker.finish(cluster)


def _pbs(asker: _Asker) -> Cluster:
    """As JSON where it is offered, else as text; qmgr often lets users read, and is not needed."""

    def said(*argv: str) -> str:
        answer = asker.may(*argv, "-F", "json")
        if answer is None:
            answer = asker.must(*argv)
            del asker.refused[" ".join((*argv, "-F", "json"))]
        return answer

    server, queues, nodes = said("qstat", "-Bf"), said("qstat", "-Qf"), said("pbsnodes", "-a")
    manager = asker.may("qmgr", "-c", "print server") if asker.here.has("qmgr") else None
    return asker.finish(site_pbs.cluster(server, queues, nodes, manager or ""))


def _flux(asker: _Asker) -> Cluster:
    """Resources, queues and which hosts these have; the configuration where users may read it."""
    version = asker.must("flux", "getattr", "version").strip()
    answers = [
        asker.must("flux", "resource", "R"),
        asker.must("flux", "queue", "list", "--no-header", f"--format={site_flux.QUEUES}"),
        asker.must("flux", "resource", "list", "--states=all", "--no-header", f"--format={site_flux.HOSTS}"),
        asker.may("flux", "config", "get") or "",
    ]
    return asker.finish(replace(_read(site_flux.cluster, *answers), version=version))


def _gridengine(asker: _Asker) -> Cluster:
    """Hosts, queues, parallel environments and complexes; GPUs are asked for host by host, if the cell has any."""
    hosts, table = asker.must("qhost", "-F", "-q", "-xml"), asker.must("qconf", "-sc")
    queues = asker.may("qconf", "-sq", ",".join((asker.may("qconf", "-sql") or "").split())) or ""
    names = (asker.may("qconf", "-spl") or "").split()
    environments = [asker.may("qconf", "-sp", name) or "" for name in names]
    gpu = site_gridengine.gpu_complex(site_gridengine.complexes(table))
    gpus = {}
    for host in re.findall(r"<host name='([^']+)'", hosts) if gpu else ():
        shown = re.search(rf"\b{gpu}=(\d+)", asker.may("qconf", "-se", host) or "")
        gpus[host] = int(shown[1]) if shown else 0
    name = (asker.may("qconf", "-sss") or "").strip() or None
    version = re.search(r"\d+(\.\d+)+\w*", (asker.may("qstat", "-help") or "").partition("\n")[0])
    texts = (hosts, queues, "\n".join(environments), table)
    read = partial(site_gridengine.cluster, name=name, version=version[0] if version else None, gpus=gpus)
    asker.answered = [line for line in asker.answered if not re.match("qconf -s[pe] ", line)]
    return asker.finish(_read(read, *texts))


def _read(form: Callable[..., Cluster], *answers: str) -> Cluster:
    try:
        return form(*answers)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OperationFailed(f"the scheduler's answer cannot be read: {error}") from None


_CLIENTS: Mapping[str, Callable[[_Asker], Cluster]] = {
    "scontrol": _slurm,
    "pbsnodes": _pbs,
    "qconf": _gridengine,
    flux.CLIENT: _flux,
}
"""A client that only one kind of scheduler has, and who reads its answers; in this order."""
