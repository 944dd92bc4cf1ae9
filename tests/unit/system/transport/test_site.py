"""Which generic profile a login node has whose cluster no profile names: as on the host itself, by clients and variables."""

from __future__ import annotations

import shutil

import pytest

from dlrun.errors import Invalid
from dlrun.jobs.remote import site, steps
from dlrun.system.inputs.profiles import CLIENTS
from dlrun.system.transport.local import LocalTransport


@pytest.fixture
def login(tmp_path, monkeypatch):
    """Facts of a login node whose login shell has these clients, and lines of `~/.bash_profile`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sed", "head", "hostname", "bash"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("HOME", str(tmp_path))

    def facts(*clients: str, lines: str = "") -> steps.Facts:
        for name in clients:
            (programs / name).write_text("#!/bin/sh\n")
            (programs / name).chmod(0o755)
        (tmp_path / ".bash_profile").write_text(f"export PATH={programs}\nunset SGE_ROOT\n{lines}\n")
        return steps.probe(LocalTransport("there"), CLIENTS, ())

    return facts


@pytest.mark.parametrize(
    ("clients", "lines", "expected"),
    [
        (("sbatch", "qsub"), "", "generic-slurm"),
        (("qsub",), "", "generic-openpbs"),
        (("qsub",), "export SGE_ROOT=/opt/sge", "generic-gridengine"),
        (("flux",), "", "generic-flux"),
    ],
)
def test_an_unknown_login_node_is_taken_by_its_clients(login, clients, lines, expected):
    assert site.site_of(login(*clients, lines=lines), "there") == expected


def test_one_without_a_scheduler_is_an_error(login):
    with pytest.raises(Invalid, match="`there` has none of `sbatch`, `qsub` and `flux` in a login shell"):
        site.site_of(login(), "there")
