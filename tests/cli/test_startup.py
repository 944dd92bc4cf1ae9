"""What starting dlrun costs, guarded by which modules it imports: times flake, modules do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.examples import cases

HEAVY = {"rich", "paramiko", "psutil"}
TEXTS = {"yaml", "jinja2", "importlib.metadata"}
SPEC = "name: run\ncommand: [./train]\nsite: workstation\n"


def imported(*arguments: str, cwd) -> set[str]:
    """The modules of a dlrun that ran these arguments to a good end."""
    program = (
        "import json, sys\nfrom dlrun.cli.main import run\ncode = run(sys.argv[1:])\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env=os.environ,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["help"], ["help", "exit-codes"]])
def test_help_imports_next_to_nothing(tmp_path, arguments):
    modules = imported(*arguments, cwd=tmp_path)
    assert not modules & (HEAVY | TEXTS)
    assert not {
        m for m in modules if m.startswith(("dlrun.system", "dlrun.config", "dlrun.plan", "dlrun.render"))
    }


@pytest.mark.parametrize(
    "command", ["submit", "plan", "render", "status", "logs", "cancel", "list", "explain", "schema"]
)
def test_the_help_of_a_command_reads_no_file_formats(tmp_path, command):
    assert not imported(command, "--help", cwd=tmp_path) & (HEAVY | TEXTS)


@pytest.mark.parametrize(
    "arguments", [["render", "spec.yaml"], ["submit", "spec.yaml", "--dry-run"], ["plan", "spec.yaml"]]
)
def test_rendering_needs_no_heavy_library(tmp_path, arguments):
    (tmp_path / "spec.yaml").write_text(SPEC)
    modules = imported(*arguments, cwd=tmp_path)
    assert not modules & HEAVY
    assert "importlib.metadata" not in modules
    assert "dlrun.schedulers.slurm.slurm" not in modules  # one back end of each kind, not all


def test_a_dry_run_reads_no_records_of_jobs(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    modules = imported("submit", "spec.yaml", "--dry-run", cwd=tmp_path)
    assert not modules & {"dlrun.jobs.records.jobs", "dlrun.jobs.records.validation"}


def test_asking_for_jobs_needs_no_templates(tmp_path):
    for arguments in (["list"], ["status"], ["list", "--json"]):
        assert not imported(*arguments, cwd=tmp_path) & (HEAVY | TEXTS)


START = "import sys\nfrom dlrun.cli.start import main\nsys.argv[0] = 'dlrun'\nsys.exit(main())"


@pytest.mark.parametrize("columns", ["", "0", "40", "79", "80", "99", "100", "101", "300", "x"])
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_help_page_that_was_made_before_is_that_of_click(dlrun, columns, word):
    env = {**os.environ, "COLUMNS": columns}
    done = subprocess.run(
        [sys.executable, "-c", START, word], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == dlrun(word, env={"COLUMNS": columns}).stdout


def test_the_end_of_a_run_is_without_a_search_for_garbage(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    watched = "import atexit, gc\natexit.register(lambda: print(gc.get_freeze_count()))\n"
    done = subprocess.run(
        [sys.executable, "-c", watched + START, "submit", "spec.yaml", "--dry-run"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout.splitlines()[-1]) > 10_000


DRY_RUN = ["submit", "spec.yaml", "--site", "generic-slurm", "--dry-run"]
COUNTED = """import sys
calls = [0]
def count(frame, event, argument):
    calls[0] += event.endswith("call")
sys.setprofile(count)
try:
    {}
finally:
    sys.setprofile(None)
    print(calls[0], sum(name.startswith("dlrun") for name in sys.modules), file=sys.stderr)
"""


def test_function_calls_and_modules(tmp_path):
    """Compared with the two libraries that a dry run cannot do without, since a count is the same on a busy machine."""
    (tmp_path / "spec.yaml").write_text(SPEC.replace("site: workstation\n", "resources: {walltime: 1h}\n"))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path / "byte code")
    counts = []
    for program, words in (("import jinja2, yaml", []), (START.replace("\n", "\n    "), DRY_RUN)):
        command = [sys.executable, "-c", COUNTED.format(program), *words]
        for _ in range(2):  # byte code and templates are there for the second
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        counts.append([int(word) for word in done.stderr.split()[-2:]])
    (libraries, _), (whole, modules) = counts
    assert whole <= 2.65 * libraries
    assert modules <= 188


@pytest.mark.needs("strace")
@pytest.mark.parametrize(("words", "most"), [(["--help"], 400), (DRY_RUN, 1220)])
def test_file_system_calls(tmp_path, words, most):
    """On a cluster each is a request to a shared server; counted once byte code and templates are there."""
    (tmp_path / "spec.yaml").write_text(
        "name: run\ncommand: [./train]\nresources: {nodes: 2, walltime: 1h}\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["PYTHONPYCACHEPREFIX"] = str(tmp_path / "byte code")  # the checkout may be another user's
    command = [sys.executable, "-c", START, *words]
    subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True)
    calls = tmp_path / "calls"
    tracer = ["strace", "-f", "-e", "trace=%file", "-o", str(calls)]
    subprocess.run([*tracer, *command], cwd=tmp_path, env=env, check=True, capture_output=True)
    assert len(calls.read_text().splitlines()) <= most


BACK_ENDS = {
    "generic-slurm": ({"slurm"}, set()),
    "generic-openpbs": ({"pbs"}, set()),
    "generic-flux": ({"flux"}, {"flux"}),
    "generic-gridengine": ({"gridengine"}, {"qrsh"}),
    "workstation": ({"local"}, set()),
}
"""What a site needs of the schedulers, and of the launchers that only one scheduler has."""


@pytest.mark.parametrize("site", cases(BACK_ENDS, quick=2))
def test_only_the_back_ends_of_the_site_are_imported(tmp_path, site):
    """A scheduler more makes no other site slower."""
    (tmp_path / "spec.yaml").write_text(
        f"name: run\ncommand: [./train]\nsite: {site}\nresources: {{walltime: 1h}}\n"
    )
    modules = imported("submit", "spec.yaml", "--dry-run", cwd=tmp_path)
    schedulers = {name.split(".")[2] for name in modules if name.startswith("dlrun.schedulers.")}
    launchers = {name.split(".")[2] for name in modules if name.startswith("dlrun.launchers.")}
    assert schedulers & {"slurm", "pbs", "flux", "gridengine", "local"} == BACK_ENDS[site][0]
    assert launchers & {"flux", "qrsh"} == BACK_ENDS[site][1]
