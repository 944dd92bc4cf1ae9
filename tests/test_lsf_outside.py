"""A scheduler that dlrun does not have, as one package outside it: LSF, with stand-ins of the clients that IBM documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from dlrun.model.job import State
from tests.test_external_back_ends import DLRUN, installed

__all__ = ["installed"]

SITE = """\
name: orchid
scheduler: {type: lsf, forbidden: [memory]}
launcher: {name: forkrun}
partitions: {normal: {default: true, node_type: node}}
node_types: {node: {topology: {packages: 1, cores: 2}}}
rendezvous: {address: loopback}
"""
SPEC = """\
name: around
framework: ring
command: [python3, work.py]
resources: {nodes: 1, ranks_per_node: 2, walltime: 5m}
placement: {bind: none}
"""


@pytest.fixture
def dlrun(installed, tmp_path):
    (tmp_path / "state").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "LSF_STAND_IN": str(tmp_path / "state"),
    }
    for name, text in (("site.yaml", SITE), ("spec.yaml", SPEC), ("work.py", "print('rank', flush=True)")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def run(*words: str, ok: bool = True) -> str:
        done = subprocess.run(
            [*DLRUN, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == ok, done.stderr
        return done.stdout if ok else done.stderr

    run.python = lambda code: (
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    return run


def state(dlrun) -> tuple[str, str | None]:
    (job,) = json.loads(dlrun("status", "--json", "latest"))["jobs"]
    return job["runs"][0]["state"], job["runs"][0].get("reason")


def until(dlrun, wanted):
    end = time.monotonic() + 60
    while state(dlrun)[0] not in wanted:
        assert time.monotonic() < end, state(dlrun)
        time.sleep(0.2)


@pytest.mark.slow
def test_a_job_runs_and_its_directives_are_those_of_bsub(dlrun, tmp_path):
    dlrun("submit", "spec.yaml", "--site", "site.yaml", "--wait")
    assert state(dlrun) == ("completed", None)
    assert "rank" in dlrun("logs", "latest")
    (script,) = (tmp_path / "state").glob("*.sh")
    lines = [line for line in script.read_text("utf-8").splitlines() if line.startswith("#BSUB")]
    assert lines[0] == "#BSUB -J around"
    assert lines[2:] == [
        "#BSUB -rn",
        "#BSUB -n 2",
        '#BSUB -R "span[ptile=2]"',
        "#BSUB -q normal",
        "#BSUB -W 0:05",
    ]


@pytest.mark.slow
def test_a_held_job_is_released_and_cancelled(dlrun, tmp_path):
    (tmp_path / "work.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    dlrun("submit", "spec.yaml", "--site", "site.yaml", "--set", "hold=true")
    assert state(dlrun)[0] == "held"
    dlrun("release", "latest")
    until(dlrun, {"running"})
    dlrun("cancel", "latest")
    assert state(dlrun)[0] == State.CANCELLED


@pytest.mark.slow
def test_what_the_queue_has_forgotten_is_in_the_history(dlrun, tmp_path):
    (tmp_path / "work.py").write_text("raise SystemExit(3)", encoding="utf-8")
    dlrun("submit", "spec.yaml", "--site", "site.yaml", "--set", "on_failure.requeue=0")
    (tmp_path / "state" / "forget").touch()
    until(dlrun, {"failed"})
    (job,) = json.loads(dlrun("status", "--json", "latest"))["jobs"]
    ask = "import subprocess; from dlrun import backends; b = backends.scheduler('lsf'); "
    answer = f"subprocess.run(b.history([{job['job_id']!r}]), capture_output=True, text=True).stdout"
    assert "FAILED" in dlrun.python(f"{ask}print([one.state.name for one in b.parse_history({answer})])")
    killed = "Job <7>, User <me>\\nFri Feb  1 10:52:23: Exited with exit code 140; TERM_RUNLIMIT: job killed."
    assert "TIMED_OUT" in dlrun.python(f"{ask}print([one.state.name for one in b.parse_history('{killed}')])")


@pytest.mark.slow
def test_a_broken_submission_is_found_by_its_directory(dlrun, tmp_path):
    dlrun("submit", "spec.yaml", "--site", "site.yaml", "--wait")
    (job,) = json.loads(dlrun("status", "--json", "latest"))["jobs"]
    find = "import sys; from pathlib import Path; from dlrun.jobs.clusters.batch import find; "
    for directory, found in ((job["directory"], job["job_id"]), (str(tmp_path), None)):
        code = find + f"print(find('lsf', Path({directory!r})))"
        assert dlrun.python(code).strip() == str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("R: 'rusage[mem=4GB]'", "does not allow jobs to set the option `R` (`memory_per_node`)"),
        ("W: '1:00'", "the option `W` is set by dlrun"),
    ],
)
def test_its_table_of_options_serves_errors_and_what_the_site_forbids(dlrun, tmp_path, options, message):
    spec = SPEC.replace("walltime: 5m", f"walltime: 5m, options: {{{options}}}")
    (tmp_path / "spec.yaml").write_text(spec, encoding="utf-8")
    assert message in dlrun("plan", "spec.yaml", "--site", "site.yaml", ok=False)


def test_a_script_of_bsub_is_imported(dlrun, tmp_path):
    (tmp_path / "job.lsf").write_text(
        '#!/bin/bash\n#BSUB -J train -n 8\n#BSUB -R "span[ptile=4]"\n#BSUB -W 2:30 -q gpu\n'
        '#BSUB -gpu "num=4/host" -P mine\n#BSUB -o out.%J\n#BSUB -app deep\nmpirun -n 8 python train.py\n',
        encoding="utf-8",
    )
    found = dlrun("import", "job.lsf")
    for line in (
        "name: train",
        "walltime: 150m",
        "partition: gpu",
        "account: mine",
        "gpus_per_node: 4",
        "app: deep",
    ):
        assert line in found
    assert "nodes: 2" in found
    assert "check this" not in found


def test_the_module_of_its_folder_reads_what_the_table_cannot(dlrun, tmp_path):
    (tmp_path / "job.lsf").write_text(
        '#!/bin/bash\n#BSUB -J "train[1-4:3]%2" -q gpu\n#BSUB -W 2:30\npython train.py --seed $LSB_JOBINDEX\n',
        encoding="utf-8",
    )
    found = dlrun("import", "job.lsf")
    for line in ("name: train", "partition: gpu", "walltime: 150m", "at_once: 2"):
        assert line in found
    assert "[1, 4]" in found
    assert "check this" not in found


def test_its_errors_are_known_to_why(dlrun):
    line = "LSF daemon (LIM) not responding ... still trying"
    code = f"from dlrun.why.matching import Table; print(Table().match({line!r}).pattern.writer)"
    assert dlrun.python(code).strip() == "LSF"


@pytest.mark.slow
def test_a_cluster_is_detected(dlrun):
    found = dlrun("site", "detect")
    assert "type: lsf" in found
    assert "orchid" in found
    assert "normal" in found
    assert "old" not in found
