"""What dlrun reads from others, each as one case: it may end well or with a DlrunError, and with nothing else."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.config.topology import read_topology
from dlrun.errors import DlrunError, OperationFailed
from dlrun.jobs.logs import files as log_files, merge
from dlrun.jobs.queue import attempts, results, status
from dlrun.jobs.records import bad_nodes, jobs, outcome, plans
from dlrun.jobs.remote import fetch
from dlrun.jobs.submission.files import files
from dlrun.render.script import plan_json
from tests.fuzz import batch_scripts, clusters, damage, nodes, recordings, surroundings
from tests.making import LOCAL, make_own, plan_of, scripts_of
from tests.properties.mutations import SITE, SPEC, mutate

ROOT = Path(__file__).parents[2]
CAPTURED = ROOT / "tests" / "captured"
_SETUP = "  setup: |\n    source /etc/profile\n    ulimit -s unlimited\n"
GOOD = SPEC.partition("\n")[2].replace("site: workstation\n", "").replace(_SETUP, "")
"""A spec without shell code of the user's own, which is the user's to get right."""
SLURM = """\
name: s
scheduler: {type: slurm}
launcher: {name: srun}
partitions: {gpu: {default: true, node_type: big}}
node_types:
  big:
    count: 64
    memory: 512GiB
    topology: {packages: 2, cores: 32, smt: 2, numa_per_package: 4, gpus: {count: 4, numa: [0, 2, 4, 6]}, nics: [mlx5_0]}
storage: {node_local: {path: $TMPDIR, size: 1TB}, shared: [/scratch]}
"""
PLAIN = """\
name: a
command: [x, 1]
resources: {account: abc123, walltime: 1h, partition: gpu, options: {filesystems: home}}
"""


def bash_accepts(scripts: dict[str, str]) -> None:
    """Fail for a script that bash cannot read."""
    for name, text in scripts.items():
        data = text.encode("utf-8", "surrogateescape")
        done = subprocess.run(["bash", "-n"], input=data, capture_output=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr.decode(errors='replace')}"


def specs(place: Path, chance: random.Random) -> None:
    """A spec, to the rendered script."""
    text = chance.choice((mutate, damage.text, damage.yaml, damage.yaml, damage.yaml))(GOOD, chance)
    bash_accepts(scripts_of(plan_of(place, text.encode("utf-8", "replace").decode(), SLURM)))


def profiles(place: Path, chance: random.Random) -> None:
    """A site profile, to the rendered script of a plain spec."""
    good = chance.choice((SITE, SLURM, *_profiles()))
    text = chance.choice((mutate, damage.text, damage.yaml, damage.yaml, damage.yaml))(good, chance)
    spec = chance.choice((PLAIN, "name: a\ncommand: [x]\n"))
    bash_accepts(scripts_of(plan_of(place, spec, text.encode("utf-8", "replace").decode())))


@cache
def _profiles() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "site-configs").glob("*.yaml"))]


@cache
def _topologies() -> list[str]:
    found = [
        p
        for p in ROOT.glob("site-configs/**/*")
        if p.suffix in (".json", ".xml") and p.stat().st_size < 400_000
    ]
    found += [p for p in ROOT.glob("tests/**/*.xml") if p.stat().st_size < 400_000]
    return [path.read_text(errors="replace") for path in sorted(found)] + [_plain_topology()]


def _plain_topology() -> str:
    from dlrun.config.topology.short import build
    from dlrun.model.json_codec import to_plain
    from dlrun.model.topology_short import ShortGpus, ShortNic, ShortTopology

    whole = build(
        ShortTopology(
            packages=2, cores=8, smt=2, gpus=ShortGpus(numa=(0, 1)), nics=(ShortNic(name="mlx5_0", numa=0),)
        )
    )
    return json.dumps({"version": 1, **to_plain(whole)})


def topologies(place: Path, chance: random.Random) -> None:
    """A captured topology, placed."""
    good = chance.choice(_topologies())
    if good.lstrip().startswith("{") and chance.random() < 0.7:
        text = json.dumps(damage.value(json.loads(good), chance))
    elif not good.lstrip().startswith("{") and chance.random() < 0.8:
        text = damage.xml(good, chance)
    else:
        text = damage.text(good, chance)
    (place / "captured").write_bytes(text.encode("utf-8", "replace"))
    site = "name: s\nscheduler: {type: slurm}\nlauncher: {name: srun}\nnode_types: {n: {capture: captured}}\n"
    site += "partitions: {p: {node_type: n}}\n"
    with contextlib.suppress(ValueError, RecursionError):
        read_topology(text)
    plan_of(place, "name: a\nresources: {partition: p, ranks_per_node: 2}\n", site)


@cache
def _plans() -> list[str]:
    """A plan of the example's spec, and those of the golden jobs."""
    with tempfile.TemporaryDirectory() as name:
        own = plan_json(plan_of(Path(name), GOOD, SLURM))
    return [own, *(path.read_text() for path in sorted((ROOT / "tests" / "golden").glob("*/plan.json")))]


def saved_plans(place: Path, chance: random.Random) -> None:
    """A plan that was saved and edited, to the rendered script."""
    good = chance.choice(_plans())
    text = (
        json.dumps(damage.value(json.loads(good), chance))
        if chance.random() < 0.9
        else damage.text(good, chance)
    )
    (place / "plan.json").write_text(text, errors="surrogateescape")
    made = files(plans.read_plan(place / "plan.json"), None, place / "job")
    bash_accepts({name: text for name, text in made.items() if name in ("job.sh", "rank.sh", "stage.sh")})


RECORDS: dict[str, Any] = {
    "submission.json": {"version": 1, "scheduler": "local", "job_id": "4242.99", "site": "s", "name": "a", "submitted": 1.0,
                        "host": "h", "array": 1, "cluster": "c", "submitting": None},
    "state.json": {"version": 1, "state": "ended", "job_id": "4242.99", "host": "h", "started": 1.0, "ended": 2.0, "exit_code": 1,
                   "reason": "killed", "restarts": 0},
    "points/0/state.json": {"version": 1, "state": "ended", "job_id": "4242.99", "started": 1.0, "ended": 2.0, "exit_code": 0},
    "outcome.json": {"version": 1, "job_id": "4242.99", "runs": [{"job_id": "4242.99", "state": "failed", "exit_code": 1}]},
    "again.json": {"version": 1, "jobs": [{"directory": "/nowhere", "points": [0]}]},
    "again-of.json": {"version": 1, "directory": "/nowhere", "points": [0]},
}  # fmt: skip


@cache
def _local_plan() -> str:
    with tempfile.TemporaryDirectory() as name:
        return plan_json(plan_of(Path(name), "name: a\ncommand: [x, '{{ lr }}']\nsweep: {lr: [1]}\n", LOCAL))


def records(place: Path, chance: random.Random) -> None:
    """A job's directory, with every file that `list`, `status` and `results` look at."""
    directory = place / "jobs" / "a"
    (directory / "points" / "0" / "logs").mkdir(parents=True, exist_ok=True)
    make_own(directory)
    for name, good in {"plan.json": json.loads(_local_plan()), **RECORDS}.items():
        text = json.dumps(good)
        if chance.random() < 0.4:
            text = (
                json.dumps(damage.value(good, chance)) if chance.random() < 0.7 else damage.text(text, chance)
            )
        (directory / name).write_bytes(text.encode("utf-8", "replace"))
    for name, good in {
        "job-id": "4242.99\n",
        "bad-nodes": "n1 99999999999 slow disk\n",
        ".client-answer": "12\n",
    }.items():
        (directory / name).write_bytes(damage.text(good, chance).encode("utf-8", "replace"))
    bad_nodes.read(directory)
    found = list(jobs.all_jobs(place / "jobs"))
    status.of(found)
    for job in found:
        if job.damage is None:
            outcome.read(job)
            states = attempts.statuses(job)
            results.usage(job, [one for _, _, one in states])
    found = jobs.find("a", place / "jobs")
    results.results_of(found, found.plan())


LINES = (
    "2026-11-22T15:22:39.123+01:00 hello",
    "[2026-11-22 15:22:39,123] INFO step 1 loss 0.5", "Nov 22 15:22:39 n1 x",
    "Traceback (most recent call last):",
    "dlrun: run 7 of 1", "RuntimeError: CUDA out of memory", "I1122 15:22:39.123456 77 x.cc:1] y", "throughput: 12.5 samples/s",
)  # fmt: skip


def logs(place: Path, chance: random.Random) -> None:
    """Logs of ranks: merged by time, searched for causes and metrics."""
    (place / "logs").mkdir(exist_ok=True)
    for rank in range(2):
        good = "\n".join(chance.choice(LINES) for _ in range(20)) + "\n"
        (place / "logs" / f"rank-{rank}.log").write_bytes(
            damage.text(good, chance, 10).encode("utf-8", "surrogateescape")
        )
    (place / "logs" / "job.log").write_bytes(
        damage.text("dlrun: run 1\nx\n", chance).encode("utf-8", "replace")
    )
    found = log_files.find(place, "all")
    list(merge.merged(found))
    merge.without_times(found)
    from dlrun.why import evidence
    from dlrun.why.context import slow_links

    (place / "failures").mkdir(exist_ok=True)
    (place / "failures" / "rank-1").write_bytes(
        damage.text("rank 1 on n1 7 1700000000.5 x\n", chance).encode("utf-8", "replace")
    )
    staged = damage.text('{"event": "slow", "host": "n1", "rate": 5, "others": 90}\n' * 3, chance)
    (place / "logs" / "stage-0.jsonl").write_bytes(staged.encode("utf-8", "replace"))
    slow_links.slow_nodes(place)
    evidence.search(place)
    for one in found:
        log_files.last_run(one, 1 << 16)


@cache
def _answers() -> list[tuple[str, str, str]]:
    found = []
    for name, kinds in {
        "slurm": ("squeue", "sacct"),
        "openpbs": ("qstat",),
        "torque": ("qstat",),
        "flux": ("jobs",),
        "gridengine": ("qstat", "qacct"),
    }.items():
        for path in sorted((CAPTURED / name).rglob("*")):
            if path.is_file() and path.stat().st_size < 200_000 and any(kind in path.name for kind in kinds):
                found.append((name, path.name, path.read_text(errors="replace")))  # noqa: PERF401
    return found


def scheduler_output(place: Path, chance: random.Random) -> None:
    """What the clients of schedulers print about jobs."""
    name, _, good = chance.choice(_answers())
    text = damage.text(good, chance)
    back_end = backends.scheduler(name)
    for parse in (back_end.parse_queue, back_end.parse_history):
        parse(text)
    back_end.cluster(text)
    back_end.identified(text)
    with contextlib.suppress(OperationFailed):
        back_end.submitted(text)
    counted = getattr(back_end, "accounting", None)
    if counted is not None:
        with contextlib.suppress(ValueError):  # of which its caller makes "not known"
            counted.read(text)


def remote_answers(place: Path, chance: random.Random) -> None:
    """What a login node answers to a fetch: its listing, and a tar stream."""
    import io
    import tarfile

    from dlrun.jobs.remote.confined import Confined
    from dlrun.jobs.remote.kept import Kept
    from dlrun.jobs.remote.target import RemoteFile, Target

    row = damage.text("f 12 1700000000.25 ./files/a b", chance)
    with contextlib.suppress(ValueError):  # of which its caller makes an error with a message
        fetch._found(row)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, target in (("a", ""), ("l", "../x"), ("d/é", "")):
            info = tarfile.TarInfo(name)
            info.size = 0 if target else 700
            info.pax_headers = {"mtime": "1700000000.123"}
            info.type, info.linkname = (tarfile.SYMTYPE, target) if target else (tarfile.REGTYPE, "")
            tar.addfile(info, None if target else io.BytesIO(b"x" * 700))
    data = bytearray(stream.getvalue())
    for _ in range(chance.randint(1, 30)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    wanted = {
        name: RemoteFile(name=name, size=700, mtime_ns=1, link=name == "l") for name in ("a", "l", "d/é")
    }
    (place / "record").mkdir()
    with Confined(place / "to") as to, Kept(place / "record", place / "to") as kept:
        fetch.unpack(io.BytesIO(bytes(data)), wanted, Target(place=to, kept=kept))
    assert {path.name for path in place.iterdir()} <= {"to", "record"}
    assert not list(place.rglob("*.part"))


AREAS: dict[str, Callable[[Path, random.Random], None]] = {
    "specs": specs, "profiles": profiles, "topologies": topologies, "saved-plans": saved_plans, "records": records,
    "logs": logs, "scheduler-output": scheduler_output, "remote-answers": remote_answers,
    "batch-scripts": batch_scripts.case, "usage": recordings.case, "clusters": clusters.case, "nodes": nodes.case,
    "surroundings": surroundings.case,
}  # fmt: skip


def case(area: str, place: Path, seed: int) -> bool:
    """Run one case, in a directory of its own; whether it ended well. Raises what is a bug."""
    try:
        AREAS[area](place, random.Random(f"{area} {seed}"))
    except DlrunError:
        return False
    return True
