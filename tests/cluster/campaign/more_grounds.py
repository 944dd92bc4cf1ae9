"""Flux and Grid Engine as clusters that are broken; see `grounds`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dlrun import backends
from tests.cluster import ClusterSpec, NodeType, Partition, flux, gridengine
from tests.cluster.campaign.fault import NODES

back_end = backends.scheduler("gridengine")

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

_SITE: Mapping[str, Any] = {"name": "campaign", "partitions": {"debug": {"default": True}}}


def _spec(scheduler: Any) -> ClusterSpec:
    return ClusterSpec(
        scheduler=scheduler,
        node_types=(NodeType(count=len(NODES), gpus=2, tmp_mib=96),),
        partitions=(Partition(name="debug", default=True),),
        sshd=True,
        outside=("laptop",),
    )


def _stop(field: Field, signal: str, program: str) -> None:
    field.on("login", f"kill -{signal} $(pgrep -x {program}); while pgrep -x {program}; do sleep 0.1; done")


class Flux:
    """Flux, where it is installed; its instance ends with the broker of the login host."""

    name = "flux"
    site: Mapping[str, Any] = {
        **_SITE,
        "scheduler": {"type": "flux", "exclusive": True, "gpus": "none"},
        "launcher": {"name": "flux"},
    }
    node_daemon = "flux-broker"

    def spec(self) -> ClusterSpec:
        """The cluster."""
        return _spec("flux")

    def open(self, field: Field, job: str) -> bool:
        """By flux jobs, which knows ended jobs too."""
        argv = ["flux", "jobs", "--no-header", "--format={state}", *job.split(",")]
        done = field.cluster.on("login", argv)
        return bool(set(done.stdout.split()) - {"INACTIVE"}) or "Unable to connect" in done.stderr

    def cancel(self, field: Field, job: str, user: str) -> None:
        """By flux cancel, as the instance's owner, whoever asks."""
        field.cluster.on(
            "login", ["flux", "cancel", *job.split(",")], user="alice" if user == "root" else user
        )

    def script(self, job: str) -> str:
        """The first broker's copy of the script."""
        return "bash.*/script$"

    def stop_server(self, field: Field, signal: str) -> None:
        """The first broker."""
        _stop(field, signal, "flux-broker")

    def start_server(self, field: Field) -> None:
        """The first broker, whose jobs are gone."""
        flux.start_server(field.cluster)

    def repair(self, field: Field) -> None:
        """A node whose broker is gone starts anew."""
        for node in NODES:
            alive = field.cluster.status()[node]
            if alive:
                field.cluster.join(node)
            if alive and not field.on(node, "pgrep -x flux-broker"):
                field.cluster.kill_node(node)
            field.cluster.start_node(node)
        flux.await_ready(field.cluster)


class GridEngine:
    """Debian's Grid Engine."""

    name = "gridengine"
    site: Mapping[str, Any] = {
        **_SITE,
        "scheduler": {
            "type": "gridengine",
            "parallel_environment": "mpi-{slots}",
            "complexes": {"gpu": "gpu", "memory": "h_vmem", "exclusive": "exclusive"},
        },
        "launcher": {"name": "qrsh"},
    }
    node_daemon = "sge_execd"

    def spec(self) -> ClusterSpec:
        """The cluster."""
        return _spec("gridengine")

    def open(self, field: Field, job: str) -> bool:
        """By qstat, which forgets a job at its end, and qacct, which knows it a little later."""
        done = field.cluster.on("login", ["qstat", "-j", job], user="root")
        if "do not exist" not in done.stderr + done.stdout:
            return True
        return not field.cluster.on("login", list(back_end.history([job]))).stdout

    def cancel(self, field: Field, job: str, user: str) -> None:
        """By qdel."""
        field.cluster.on("login", ["qdel", job], user=user)

    def script(self, job: str) -> str:
        """execd's copy of the script."""
        return f"job_scripts/{job}"

    def stop_server(self, field: Field, signal: str) -> None:
        """The qmaster."""
        _stop(field, signal, "sge_qmaster")

    def start_server(self, field: Field) -> None:
        """It knows its jobs from its spool."""
        line = "pgrep -x sge_qmaster || sge_qmaster </dev/null >>/var/log/gridengine.log 2>&1"
        field.cluster.on("login", line, user="root")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and field.cluster.on("login", ["qstat"], user="root").returncode:
            time.sleep(0.3)

    def repair(self, field: Field) -> None:
        """A node whose execd is gone starts anew."""
        for node in NODES:
            alive = field.cluster.status()[node]
            if alive:
                field.cluster.join(node)
            if alive and not field.on(node, "pgrep -x sge_execd"):
                gridengine.start_node(field.cluster, node)
            field.cluster.start_node(node)
        gridengine.await_ready(field.cluster)
