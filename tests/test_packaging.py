"""A wheel, installed elsewhere, has everything: it renders a job, and finds templates and site profiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    find_spec("hatchling") is None, reason="hatchling, which builds the wheel, is not installed"
)


def run(*arguments: str | Path, **options) -> str:
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory, cwd=ROOT)
    (made,) = directory.glob("dlrun-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The wheel in a directory of its own, away from the checkout."""
    target = tmp_path_factory.mktemp("installed") / "site"
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--target",
        target,
        wheel,
    )
    return target


def files(directory: str, pattern: str = "*") -> set[str]:
    """Files of the checkout, but not what tools leave there."""
    found = (path.relative_to(ROOT) for path in (ROOT / directory).rglob(pattern) if path.is_file())
    return {
        str(path) for path in found if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }


def test_the_wheel_has_the_package_templates_and_profiles_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        entry_points = archive.read(
            next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        ).decode()
    data = {f"dlrun/data/{name}" for d in ("templates", "site-configs") for name in files(d)}
    assert data <= names
    assert names - data == files("dlrun")
    assert "dlrun = dlrun.cli.start:main" in entry_points


def test_it_renders_from_elsewhere(installed, tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "name: run\ncommand: [./train]\nsite: generic-slurm\nresources: {nodes: 2}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ask = "import dlrun; from dlrun.resources import directory as d; "
    ask += "print(dlrun.__file__, d('templates'), d('site-configs'), sep='\\n')"
    package, templates, sites = run(sys.executable, "-c", ask, cwd=tmp_path, env=environment).splitlines()
    assert package == str(installed / "dlrun" / "__init__.py")
    assert templates == str(installed / "dlrun" / "data" / "templates")
    assert sites == str(installed / "dlrun" / "data" / "site-configs")
    program = installed / "bin" / "dlrun"
    script = run(program, "render", "spec.yaml", cwd=tmp_path, env=environment)
    assert "#SBATCH --nodes=2" in script
    assert script == run(
        sys.executable, "-c", "from dlrun.cli.main import main; main()", "render", "spec.yaml", cwd=tmp_path
    )
    listed = json.loads(run(program, "site", "list", "--json", cwd=tmp_path, env=environment))["sites"]
    assert {site["name"] for site in listed} == {Path(name).stem for name in files("site-configs", "*.yaml")}
    assert all(site["path"].startswith(str(installed)) for site in listed)


def test_a_job_runs_from_it(installed, tmp_path):
    (tmp_path / "spec.yaml").write_text("name: run\ncommand: [echo, hello]\nsite: workstation\n")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    said = run(installed / "bin" / "dlrun", "submit", "spec.yaml", "--wait", cwd=tmp_path, env=environment)
    assert "hello" in said.splitlines()
