"""Faults of jobs that are submitted from outside the cluster, by ssh, and asked about from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.campaign.fault import WAIT, Fault, of_rank_1, py_of_rank_1, signal_of_rank_1

if TYPE_CHECKING:
    from tests.cluster.campaign.field import Field

# ruff: noqa: E501 - a table


def _cancel(it: Field, job: str) -> None:
    it.begun(job)
    it.dlrun("cancel", job)


def _login_away(it: Field, job: str) -> None:
    """The job fails, and the login host takes no connections when it is asked about."""
    it.begun(job, 1)
    it.on("login", "kill $(cat /run/sshd.pid); pkill -f '^sshd: alice'")
    it.kill(job, it.hosts(job)[1])


def _login_back(it: Field) -> None:
    it.on(
        "login",
        "pgrep -x -F /run/sshd.pid >/dev/null 2>&1 || /usr/sbin/sshd -f /etc/ssh/sshd_login -E /var/log/sshd.log",
    )


REMOTE = (
    Fault(name="far: a rank is killed", causes=("killed",), spec=WAIT, far=True, strike=signal_of_rank_1("KILL")),
    Fault(name="far: a module is missing", causes=("missing-module",), spec=py_of_rank_1("import nowhere_at_all"), told=("nowhere_at_all",), far=True),
    Fault(name="far: a shell script without a word", causes=("unknown",), spec=of_rank_1("exit 3"), told=("exit code 3",), far=True),
    Fault(name="far: cancelled by its user", causes=("cancelled",), spec=WAIT, far=True, strike=_cancel),
    Fault(name="far: the venv is missing on the nodes", causes=("environment",), spec={**WAIT, "environment": {"venv": "/tmp/venv3"}}, far=True,
          before=lambda it: it.cluster.on("login", "python3 -m venv --without-pip /tmp/venv3", check=True) and None),
    Fault(name="far: the login host is away when why is asked", causes=("open",), spec=WAIT, told=("not known",), far=True, unasked=True, strike=_login_away, after=_login_back, alone=True),
)  # fmt: skip
