"""What a scheduler must be able to do for the cluster; `slurm`, `pbs`, `flux` and `gridengine` are modules that can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tests.cluster import flux, gridengine, pbs, slurm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.cluster import Cluster
    from tests.cluster.spec import ClusterSpec


class Scheduler(Protocol):
    """The functions of a scheduler's module."""

    def why_not(self) -> str:
        """Why it cannot run on this machine, or nothing."""

    def needed_paths(self) -> list[Path]:
        """What every user must be able to reach on the hosts."""

    def programs(self) -> tuple[str, ...]:
        """Directories that `PATH` has besides the usual ones."""

    def layers(self) -> tuple[str, ...]:
        """Debian packages that are laid over the hosts' /usr."""

    def environment(self, shared: Path) -> Mapping[str, str]:
        """Variables that a login shell has besides the usual ones."""

    def configure(self, system: Path, spec: ClusterSpec) -> None:
        """Write its files before any host runs."""

    def start_server(self, cluster: Cluster) -> None:
        """Start what runs on the login host."""

    def start_node(self, cluster: Cluster, host: str) -> None:
        """Start what runs on a compute node."""

    def await_ready(self, cluster: Cluster) -> None:
        """Wait until every node can take a job."""


SCHEDULERS: dict[str, Scheduler] = {"slurm": slurm, "pbs": pbs, "flux": flux, "gridengine": gridengine}
