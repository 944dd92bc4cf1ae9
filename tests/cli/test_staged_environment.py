"""A venv on node-local storage: the program and the venv's own scripts run from the copy."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def venv(dlrun) -> Path:
    """A virtual environment with a module and a script that a package would have installed."""
    made = dlrun.place / "shared" / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    packages = next(made.glob("lib/python*/site-packages"))
    (packages / "staged_module.py").write_text("def where():\n    return __file__\n")
    script = made / "bin" / "staged-script"
    script.write_text(
        f"#!/bin/sh\n'''exec' \"{made}/bin/python\" \"$0\" \"$@\"\n' '''\n"
        "import sys, staged_module\nprint('script', sys.prefix, staged_module.where())\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return made


def submitted(dlrun, venv: Path, size: str) -> str:
    """Run a program and the script; what they print."""
    local = dlrun.place / "local"
    local.mkdir()
    (dlrun.place / "site.yaml").write_text(
        "name: here\nscheduler: {type: local}\nlauncher: {name: local}\nrendezvous: {address: loopback}\n"
        f"storage: {{node_local: {{path: '{local}', size: {size}}}}}\n"
    )
    job = dlrun.submit(
        "site: site.yaml\nresources: {ranks_per_node: 1, walltime: 5m}\n"
        f"environment: {{venv: '{venv}', stage: true}}\n"
        "command: [bash, -c, 'python -c \"import sys, staged_module as m; print(sys.prefix, m.where())\"; staged-script']\n",
        "--wait",
    )
    return (job / "logs" / "rank-0.log").read_text()


@pytest.mark.slow
def test_the_program_and_scripts_run_from_the_copy(dlrun, venv):
    told = submitted(dlrun, venv, "100GB")
    copies = [path.parent for path in (dlrun.place / "local").glob("dlrun-*/environment/data/bin")]
    assert len(copies) == 1
    for line in told.splitlines()[-2:]:
        assert str(copies[0]) in line
        assert str(venv) not in line
    assert "script" in told


def test_conda_cannot_be_staged(dlrun):
    ran = dlrun("plan", dlrun.spec("command: [x]\nenvironment: {conda: base, stage: true}\n"), code=2)
    assert "DLR092" in ran.stderr
    assert "set it with `venv:`" in ran.stderr
