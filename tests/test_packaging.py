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

from dlrun.jobs.records.ownership import LIST

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
    assert names - data == files("dlrun") | files("hydra_plugins")
    assert "dlrun/py.typed" in names  # type checkers read the annotations of an installed dlrun
    assert "dlrun = dlrun.cli.start:main" in entry_points


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_job_runs_from_it(installed, tmp_path):
    (tmp_path / "spec.yaml").write_text("name: run\ncommand: [echo, hello]\nsite: workstation\n")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    said = run(installed / "bin" / "dlrun", "submit", "spec.yaml", "--wait", cwd=tmp_path, env=environment)
    assert "hello" in said.splitlines()


@pytest.fixture(scope="module")
def one_file(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("pyz") / "dlrun.pyz"
    run(sys.executable, ROOT / "scripts" / "pyz.py", "--output", made)
    return made


def alone(one_file: Path, *words: str, place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the file with an interpreter that has no other package."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "PYTHONDONTWRITEBYTECODE": "1",
        **variables,
    }
    command = [sys.executable, "-I", "-S", str(one_file), *words]
    return subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_one_file_does_what_the_package_does(one_file, tmp_path):
    """The same help, profiles, schema and jobs, from an interpreter that has neither dlrun nor what it imports."""
    assert one_file.stat().st_size <= 3_500_000
    (tmp_path / "spec.yaml").write_text(
        "name: run\nframework: torch\ncommand: [./train]\nresources: {nodes: 2, walltime: 1h, account: abc}\n"
        "data: {set: {source: /data/set, strategy: copy}}\n"
    )
    variables = {"HOME": str(tmp_path), "DLRUN_JOBS": str(tmp_path / "jobs")}
    lines = [
        ("--help",), ("schema", "site"), ("site", "list"), ("site", "check", "leonardo-booster"),
        ("explain", "NCCL_IB_HCA"), ("render", "spec.yaml", "--site", "frontier", "--output", "job"),
    ]  # fmt: skip
    for words in lines:
        packed = alone(one_file, *words, place=tmp_path, **variables)
        assert packed.returncode == 0, packed.stderr
        made = {p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / "job").rglob("*") if p.is_file()}
        subprocess.run(["rm", "-rf", tmp_path / "job"], check=True)
        usual = subprocess.run(
            [sys.executable, "-c", "from dlrun.cli.start import main; main()", *words],
            env={**os.environ, **variables}, cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        place = "dlrun/data/site-configs"
        assert packed.stdout.replace(f"{one_file}/{place}", str(ROOT / "site-configs")) == usual.stdout
        for name, content in made.items():
            # The archive has the byte code of its maker, the list the inodes and times of its directory.
            if name.suffix != ".pyz" and name.name != LIST:
                packed_place, usual_place = (
                    f"{one_file}/{place}".encode(),
                    str(ROOT / "site-configs").encode(),
                )
                assert content.replace(packed_place, usual_place) == (tmp_path / name).read_bytes(), name
        subprocess.run(["rm", "-rf", tmp_path / "job"], check=True)


UNPACKED = """
import lzma, runpy, sys
def decompress(_):
    raise AssertionError("a module without byte code is imported")
lzma.decompress = decompress
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "submit spec.yaml --site generic-slurm --dry-run",
        "plan spec.yaml --site generic-slurm",
        "list",
    ],
)
def test_one_file_has_byte_code_of_what_usual_commands_import(one_file, tmp_path, words):
    """Sources are compressed as a whole: to unpack them takes a quarter of a dry run's time."""
    (tmp_path / "spec.yaml").write_text("name: run\ncommand: [./train]\nframework: torch\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", UNPACKED, str(one_file), *words.split()],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


ON_A_TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("site list", "generic-slurm"),
        ("plan spec.yaml --site perlmutter --set resources.account=m1", "cost at most"),
        ("submit spec.yaml --site workstation --wait", "exit code 0"),
    ],
)
def test_one_file_draws_on_a_terminal(one_file, tmp_path, words, shown):
    """Tables, colours and progress need `rich`, which nothing imports elsewhere."""
    (tmp_path / "spec.yaml").write_text("name: run\ncommand: ['true']\nresources: {walltime: 1h}\n")
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, sys.executable, "-I", "-S", str(one_file), *words.split()],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "xterm"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, shown in done.stdout) == (0, True), done.stdout


@pytest.mark.slow
def test_one_file_runs_a_job_on_this_machine(one_file, tmp_path):
    (tmp_path / "spec.yaml").write_text(
        "name: run\ncommand: [bash, -c, 'echo rank $RANK']\nframework: torch\n"
    )
    done = alone(one_file, "submit", "spec.yaml", "--site", "workstation", "--wait", place=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rank 0" in done.stdout


@pytest.mark.slow
def test_one_file_runs_no_program_that_another_user_could_change(one_file, tmp_path):
    """The supervisor is written into the job's directory: below a directory that others can write, it could be replaced."""
    (tmp_path / "spec.yaml").write_text("name: run\ncommand: [bash, -c, 'echo done']\n")
    shared = tmp_path / "shared"
    (shared / "dlrun").mkdir(parents=True)
    shared.chmod(0o777)
    words = ("submit", "spec.yaml", "--site", "workstation", "--wait")
    done = alone(one_file, *words, place=tmp_path, XDG_CACHE_HOME=str(shared))
    assert done.returncode == 0, done.stderr
    assert "nothing is cached" in done.stderr
    assert list((shared / "dlrun").iterdir()) == []
    [directory] = (tmp_path / ".local/state/dlrun/jobs").glob("[!.]*")
    assert (directory / "supervise.py").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_one_file_names_the_package_that_it_does_not_carry(one_file, tmp_path):
    done = alone(
        one_file, "tune-affinity", "--verify", "--ranks-per-node", "1", "--format", "table", place=tmp_path
    )
    assert done.returncode == 2
    assert "needs the Python package `psutil`" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("strace")
def test_a_dry_run_of_one_file_asks_little_of_the_file_system(one_file, tmp_path):
    """Each of these calls may take a millisecond on a busy shared file system; more than 600 were asked for by the wheel."""
    (tmp_path / "spec.yaml").write_text(
        "name: run\ncommand: [./train]\nresources: {nodes: 2, walltime: 1h}\n"
    )
    words = ["submit", "spec.yaml", "--site", "generic-slurm", "--dry-run"]
    assert alone(one_file, *words, place=tmp_path).returncode == 0  # templates are compiled now
    calls = tmp_path / "calls"
    command = ["strace", "-f", "-e", "trace=%file", "-o", str(calls), sys.executable, str(one_file), *words]
    run(*command, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, cwd=tmp_path)
    assert len(calls.read_text().splitlines()) <= 600
