"""Asks the scheduler of this cluster what it is made of, as an ordinary user may; says what did not answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from dlrun.effects.inputs.profiles import Here
from dlrun.effects.process import Runner, run
from dlrun.effects.site import pbs as site_pbs
from dlrun.effects.site import sinfo as site_sinfo
from dlrun.effects.site import slurm as site_slurm
from dlrun.effects.site.facts import Cluster
from dlrun.errors import DlrunError, Invalid, OperationFailed

Answer = TypeVar("Answer")


def ask(here: Here, runner: Runner = run) -> Cluster:
    """What this cluster's scheduler says; raises Invalid where there is none, OperationFailed if it is silent."""
    has_pbs = here.has("pbsnodes")
    if here.has("scontrol"):
        try:
            return _slurm(_Asker(runner))
        except OperationFailed as silent:
            # Some clusters have both, from a change of scheduler or Slurm's own `pbsnodes`.
            if has_pbs:
                with suppress(OperationFailed):
                    return _pbs(_Asker(runner), qmgr=here.has("qmgr"))
            raise silent from None
    if has_pbs:
        return _pbs(_Asker(runner), qmgr=here.has("qmgr"))
    raise Invalid(
        "no scheduler that dlrun can ask is here",
        help="run this on a login node of the cluster (with `scontrol`, or `pbsnodes` and `qstat`), or write a "
        "profile with `dlrun site new`",
    )


class _Asker:
    """Runs the commands, and remembers which answered and what the others said."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.answered: list[str] = []
        self.refused: dict[str, str] = {}

    def must(self, *argv: str) -> str:
        """What a command prints; raises OperationFailed if it fails."""
        said = self.may(*argv)
        if said is None:
            line = " ".join(argv)
            raise OperationFailed(f"`{line}` failed", help=self.refused[line] or None)
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
        """The facts, with who said them and who did not."""
        silent = [
            f"`{line}` did not answer" + (f": {why.splitlines()[-1]}" if why else "")
            for line, why in self.refused.items()
        ]
        return replace(cluster, asked=tuple(self.answered), unseen=(*cluster.unseen, *silent))


def _slurm(asker: _Asker) -> Cluster:
    """Partitions must be told; nodes by `sinfo --json`, or scontrol where Slurm is too old for it."""
    settings = asker.read(site_slurm.config, "scontrol", "show", "config") or {}
    partitions = site_slurm.records(asker.must("scontrol", "-o", "show", "partition"))
    listed = asker.read(site_sinfo.records, "sinfo", "--json")
    shown = asker.read(site_slurm.records, "scontrol", "-o", "show", "node")
    if listed is None and shown is None:
        raise OperationFailed("neither `sinfo --json` nor `scontrol show node` says which nodes there are",
                              help=next(reversed(asker.refused.values()), "") or None)  # fmt: skip
    cluster = site_slurm.cluster(settings, partitions, site_slurm.merged(listed or (), shown or ()))
    if "slurmdbd" in settings.get("AccountingStorageType", ""):
        names = asker.may("sacctmgr", "-nP", "show", "qos", "format=name")
        cluster = replace(cluster, qos=frozenset(names.split()) if names is not None else None)
    return asker.finish(cluster)


def _pbs(asker: _Asker, *, qmgr: bool) -> Cluster:
    """As JSON where it is offered, else as text; qmgr often lets users read, and is not needed."""

    def said(*argv: str) -> str:
        answer = asker.may(*argv, "-F", "json")
        if answer is None:
            answer = asker.must(*argv)
            del asker.refused[" ".join((*argv, "-F", "json"))]
        return answer

    server, queues, nodes = said("qstat", "-Bf"), said("qstat", "-Qf"), said("pbsnodes", "-a")
    manager = asker.may("qmgr", "-c", "print server") if qmgr else None
    return asker.finish(site_pbs.cluster(server, queues, nodes, manager or ""))
