"""`--json` of every command: one document with a version on stdout, and nothing else there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import NamedTuple

import click
import pytest

from dlrun.cli.main import group
from tests.cli.conftest import Dlrun

SPEC = "run: 'echo 95 images/s'\nresources: {ranks_per_node: 1, walltime: 5m}\n"
STUDY = "run: 'echo 95 images/s; sleep 1'\nresources: {ranks_per_node: 1}\nsite: workstation\n"
OTHERWISE = {
    "schema": "it prints a JSON Schema",
    "completion": "it prints a shell script, to be evaluated",
    "help": "it prints pages to read",
    "shell": "its output is that of a program of the user's",
}
"""Commands without `--json`, each with the reason."""


class Run(NamedTuple):
    """How a command is called, the key of its document, and its exit code."""

    arguments: str
    key: str
    code: int = 0


RUNS = {
    "submit": Run("submit spec.yaml", "job"),
    "init": Run("init first.yaml --run {python}", "init"),
    "import": Run("import job.sbatch", "import"),
    "plan": Run("plan spec.yaml", "request"),
    "render": Run("render spec.yaml", "files"),
    "run": Run("run --site workstation -- true", "run"),
    "resubmit": Run("resubmit latest", "job"),
    "cancel": Run("cancel latest", "cancel"),
    "hold": Run("hold latest", "hold", 2),
    "release": Run("release latest", "release", 2),
    "list": Run("list", "jobs"),
    "status": Run("status", "jobs"),
    "top": Run("top latest --once", "top"),
    "logs": Run("logs latest", "logs"),
    "why": Run("why latest", "why"),
    "usage": Run("usage latest", "usage"),
    "results": Run("results latest", "results"),
    "report": Run("report latest", "report"),
    "explain": Run("explain OMP_NUM_THREADS spec.yaml", "explanations"),
    "fetch": Run("fetch latest", "fetch", 2),
    "code": Run("code latest", "code"),
    "diff": Run("diff latest", "differences"),
    "tunnel": Run("tunnel latest 80", "tunnel", 2),
    "stage-data": Run("stage-data --list --to {place}/cache", "sets"),
    "tune-affinity": Run("tune-affinity --site lumi-g", "ranks"),
    "verify": Run("verify spec.yaml", "verify"),
    "scale run": Run("scale run study.yaml --nodes 1 --repeat 1 --out study", "scale"),
    "scale show": Run("scale show study", "scale"),
    "scale compare": Run("scale compare study study", "ratios"),
    "scale cancel": Run("scale cancel study", "cancel"),
    "tune": Run("tune tune.yaml --only --try n=1,2 --length 1s --repeat 1 --budget 1", "tune"),
    "site list": Run("site list", "sites"),
    "site show": Run("site show workstation", "site"),
    "site check": Run("site check workstation", "checks"),
    "site test": Run("site test workstation", "site_test"),
    "site new": Run("site new crag --scheduler slurm", "site"),
    "site detect": Run("site detect --name crag", "site"),
    "site import": Run("site import scontrol.txt", "site"),
    "keys": Run("keys resources", "keys"),
    "clean": Run("clean", "clean"),
}
TUNE = "command: [bash, -c, 'while sleep 0.1; do echo $0 samples/s; done', '{{ n }}']\nresources: {ranks_per_node: 1}\n"
SCONTROL = """\
#!/bin/bash
case $* in
*config*) echo 'ClusterName = crag'; echo 'SLURM_VERSION = 24.05.4' ;;
*partition*) echo 'PartitionName=gpu AllowGroups=ALL Nodes=n[01-04] MaxTime=1-00:00:00 TotalNodes=4 Default=YES' ;;
*node*) echo 'NodeName=n01 Arch=x86_64 CoresPerSocket=16 CPUTot=32 RealMemory=256000 Sockets=2 ThreadsPerCore=1 Partitions=gpu' ;;
esac
"""
PARTITION = (
    "PartitionName=gpu\n   AllowGroups=ALL Nodes=n[01-04]\n   MaxTime=1-00:00:00 TotalNodes=4 Default=YES\n"
)


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for part in command.list_commands(context):
            inner = command.get_command(context, part)
            assert inner is not None
            yield from leaves(inner, f"{name} {part}".strip())
    else:
        yield name, command


def test_every_command_has_it_or_a_reason():
    found = dict(leaves(group))
    without = {name for name, one in found.items() if not any("--json" in p.opts for p in one.params)}
    assert without == set(OTHERWISE)
    assert set(RUNS) == set(found) - without


@pytest.fixture(scope="module")
def place(tmp_path_factory, preloaded) -> Dlrun:
    """A directory with a job that has ended, a study, a batch script and what a scheduler printed."""
    with pytest.MonkeyPatch.context() as patch:
        here = tmp_path_factory.mktemp("json")
        patch.setenv("DLRUN_JOBS", str(here / "jobs"))
        running = Dlrun(here, preloaded)
        running.spec(SPEC)
        (here / "study.yaml").write_text(f"name: st\n{STUDY}")
        (here / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n")
        (here / "scontrol.txt").write_text(PARTITION)
        running.spec(TUNE, "tune.yaml")
        (here / "bin").mkdir()
        (here / "bin/scontrol").write_text(SCONTROL)
        (here / "bin/scontrol").chmod(0o755)
        running("submit", "spec.yaml", "--wait")
        running("scale", "run", "study.yaml", "--nodes", "1", "--repeat", "1", "--out", "study")
        yield running


SLOW = ("tune", "scale run", "report", "why", "site test", "verify")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in RUNS]
)
def test_one_document_and_nothing_else(place, name):
    run = RUNS[name]
    words = [word.format(python="python train.py", place=place.place) for word in run.arguments.split()]
    where = {"DLRUN_JOBS": str(place.place / "jobs")}
    if name == "site detect":
        where["PATH"] = f"{place.place}/bin:{os.environ['PATH']}"
    end = words.index("--") if "--" in words else len(words)
    done = place(*words[:end], "--json", *words[end:], code=run.code, env=where)
    if run.code:
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        return
    document = json.loads(done.stdout)
    assert document["version"] == 1
    assert run.key in document, sorted(document)
