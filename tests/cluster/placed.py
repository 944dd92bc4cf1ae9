"""What ranks of real launchers have under each form in which a placement is applied: started on a test cluster, read back by
the ranks themselves. `DLRUN_TEST_MATRIX=FILE` collects a line for each, of which the table in docs/concepts/placement.md is
made."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from dlrun.model.cpuset import format_list, parse_list
from tests.cluster import Cluster
from tests.cluster.jobs import PYTHON, User, bash
from tests.programs import works

TOPOLOGY = "{packages: 2, cores: 4}\n"
PLACED = "--ranks-per-node 4"
PLANNED = ((0, 1), (2, 3), (4, 5), (6, 7))
"""Four ranks on two packages of four cores. The kernel beneath has one NUMA node and rejects the second's memory policy,
which must not end a rank."""

BINDERS = {
    "wrapper": "{directory}/bind.sh",
    "exec": f"{PYTHON}/dlrun tune-affinity {PLACED} --topology {{directory}}/node.yaml --exec",
    "exec-live": f"{PYTHON}/dlrun tune-affinity {PLACED} --exec",
}
"""What is written before a command so that it is bound, whatever the launcher."""

OPTIONS = ("srun", "openmpi", "rankfile", "hydra", "flux")
"""Formats that are options of one launcher; the others bind through `BINDERS`."""

SHOW = """\
#!/bin/bash
exec 9>>"$1"
flock 9
rank=
for name in LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID FLUX_TASK_LOCAL_ID SLURM_LOCALID; do
  rank=${rank:-${!name-}}
done
echo "$rank $(taskset -c -p $$ | sed 's/.*: //') ${OMP_NUM_THREADS:--} ${DLRUN_CPUS:--}" >&9
"""

Run = Callable[[str, Path], CompletedProcess[str]]
"""Runs a script on a whole node of a scheduler, to its end; the path is that of the log."""

NEEDS = {"mpirun": "Open MPI", "mpiexec.hydra": "MPICH", "torchrun": "PyTorch"}


def lacks(line: str) -> str:
    """What a launcher's line needs and this machine has not; empty if nothing."""
    path = f"{PYTHON}:{os.environ['PATH']}"
    missing = [name for name in NEEDS if name in line.split() and not works(name, path=path)]
    return " and ".join(NEEDS[name] for name in missing)


def prepare(cluster: Cluster) -> Path:
    """A directory of the cluster's users with the node's topology, its wrapper and options, and what every rank runs."""
    place = cluster.shared / "scratch" / "placement"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    (place / "node.yaml").write_text(TOPOLOGY)
    forms = [f"{form.format(directory=place)} {place}/show $1-{name}" for name, form in BINDERS.items()]
    scripts = {"show": SHOW, "rank": "\n".join(["#!/bin/bash", "set -e", *forms]) + "\n"}
    scripts["bind.sh"] = emitted(cluster, place / "node.yaml", "wrapper")
    for name in OPTIONS:
        scripts[f"options-{name}"] = emitted(cluster, place / "node.yaml", name)
    for name, text in scripts.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


def emitted(cluster: Cluster, topology: Path, form: str) -> str:
    """What `tune-affinity --format` prints on the login host."""
    command = f"{PYTHON}/dlrun tune-affinity --topology {topology} {PLACED} --format {form}"
    return cluster.on("login", command, check=True).stdout


def check_binders(scheduler: str, name: str, line: str, directory: Path, run: Run) -> None:
    """Every rank that a launcher started unbound has its own cores under each of `BINDERS`."""
    base = directory / name.replace(" ", "-")
    done = run(f"{line} {directory}/rank {base}", base.with_suffix(".log"))
    for form in BINDERS:
        _check(scheduler, name, form, base.with_name(f"{base.name}-{form}"), done, {"2"}, own=True)


def check_options(
    scheduler: str, name: str, form: str, line: str, directory: Path, run: Run, *, allocation: bool = True
) -> None:
    """Every rank of a launcher has its own cores by the launcher's own options, as dlrun printed them; without the
    scheduler's `allocation` Open MPI has no first node, and a rankfile names the host."""
    base = directory / f"own-{form}"
    if form == "rankfile" and not allocation:
        file = directory / f"options-{form}"
        file.write_text(file.read_text().replace("+n0", "localhost"))
    options = f'"{directory}/options-{form}"' if form == "rankfile" else f"$(< {directory}/options-{form})"
    # `eval`: Flux's option is quoted, as for a shell.
    script = f"eval {line.replace('OPTIONS', options)} {directory}/show {base}-ranks"
    done = run(script, base.with_suffix(".log"))
    _check(scheduler, name, form, base.with_name(f"{base.name}-ranks"), done, None, own=False)


def check_job(scheduler: str, alice: User, launcher: str, *, agent: bool) -> None:
    """Every rank of a job that a user submits has its own cores, by the job's own scripts."""
    mask = "echo \"rank $LOCAL_RANK $(taskset -c -p $BASHPID | sed 's/.*: //') $OMP_NUM_THREADS -\""
    spec: dict[str, Any] = {"command": bash(mask), "resources": {"ranks_per_node": 4, "walltime": "5m"}}
    started = {"torch": {"agent": True}, "environment": {"venv": str(PYTHON.parent)}} if agent else {}
    job = alice.submit({**spec, **started})
    (run,) = alice.ended(job)
    logs = "".join(path.read_text() for path in alice.job_dir(job).glob("logs/*.log"))
    assert run["state"] == "completed", logs
    lines = [line.split() for line in re.findall(r"rank (\d \S+ \S+ -)", logs)]
    form = "bind.sh of a job" if agent else "rank.sh of a job"
    _compare(scheduler, f"torchrun in {launcher}" if agent else launcher, form, lines, {"2"}, logs, own=False)


def _check(
    scheduler: str,
    launcher: str,
    form: str,
    file: Path,
    done: CompletedProcess[str],
    threads: set[str] | None,
    *,
    own: bool,
) -> None:
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    _compare(scheduler, launcher, form, lines, threads, str(done), own=own)


def _compare(
    scheduler: str,
    launcher: str,
    form: str,
    lines: list[list[str]],
    threads: set[str] | None,
    output: str,
    *,
    own: bool,
) -> None:
    """Local rank, mask, number of threads and DLRUN_CPUS of every rank, as it wrote them itself."""
    why = f"{launcher}, {form}: {lines}\n{output}"
    assert sorted((int(rank), parse_list(mask)) for rank, mask, _, _ in lines) == list(enumerate(PLANNED)), (
        why
    )
    assert threads is None or {count for _, _, count, _ in lines} == threads, why
    assert not own or all(parse_list(mask) == parse_list(cpus) for _, mask, _, cpus in lines), why
    if path := os.environ.get("DLRUN_TEST_MATRIX"):
        masks = "; ".join(format_list(parse_list(mask)) for _, mask, _, _ in sorted(lines))
        counts = ",".join(sorted({count for _, _, count, _ in lines}))
        with Path(path).open("a") as matrix:
            matrix.write(f"{scheduler}\t{launcher}\t{form}\t{masks}\t{counts}\n")


def site(scheduler: Mapping[str, object], launcher: str) -> dict[str, object]:
    """A site of such nodes, each a job's alone, on which dlrun starts ranks by a launcher."""
    return {
        "name": "placement",
        "scheduler": scheduler,
        "launcher": {"name": launcher},
        "partitions": {"debug": {"default": True, "node_type": "n"}},
        "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
        "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    }
