"""Back ends outside dlrun: a package with a scheduler, a launcher and a framework is found, and runs a job here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DLRUN = (sys.executable, "-c", "from dlrun.cli.main import main; main()")
PACKAGE = Path(__file__).parent / "backends_plugin"

SITE = """\
name: bench
scheduler: {type: spool}
launcher: {name: forkrun}
partitions: {all: {default: true, node_type: node}}
node_types: {node: {topology: {packages: 1, cores: 2}}}
rendezvous: {address: loopback}
"""

SPEC = """\
name: around
framework: ring
ring: {rounds: 3}
command: [python3, ring.py]
resources: {nodes: 1, ranks_per_node: 3, walltime: 5m}
placement: {bind: none}
"""

RING = """\
import os, socket, time

rank, size = int(os.environ["RING_RANK"]), int(os.environ["RING_SIZE"])
first, rounds = int(os.environ["RING_PORT"]), int(os.environ["RING_ROUNDS"])
listening = socket.create_server(("127.0.0.1", first + rank))
while True:
    try:
        following = socket.create_connection(("127.0.0.1", first + (rank + 1) % size))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
before, _ = listening.accept()
for turn in range(rounds):
    number = 0 if rank == 0 and turn == 0 else int(before.recv(20))
    following.sendall(str(number + 1).encode())
if rank == 0:
    print("the number is", before.recv(20).decode(), flush=True)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The package, installed beside dlrun."""
    target = tmp_path_factory.mktemp("plugin")
    source = target / "source"
    subprocess.run(["cp", "-r", str(PACKAGE), str(source)], check=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", str(target / "lib"), str(source)], check=True)
    return target / "lib"


@pytest.fixture
def dlrun(installed, tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "SPOOL_DIR": str(tmp_path),
    }
    for name, text in (("site.yaml", SITE), ("spec.yaml", SPEC), ("ring.py", RING)):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*DLRUN, *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_a_job_of_external_back_ends_runs(dlrun):
    done = dlrun("submit", "spec.yaml", "--site", "site.yaml", "--wait")
    assert done.returncode == 0, done.stderr
    (known,) = json.loads(dlrun("status", "--json", "latest").stdout)["jobs"]
    assert (known["scheduler"], known["runs"][0]["state"]) == ("spool", "completed")
    assert "the number is 9" in dlrun("logs", "latest", "--rank", "0").stdout


@pytest.mark.slow
def test_a_job_of_an_external_scheduler_is_cancelled(dlrun, tmp_path):
    (tmp_path / "ring.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    done = dlrun("submit", "spec.yaml", "--site", "site.yaml")
    assert done.returncode == 0, done.stderr
    assert dlrun("cancel", "latest").returncode == 0
    (known,) = json.loads(dlrun("status", "--json", "latest").stdout)["jobs"]
    assert known["runs"][0]["state"] == "cancelled"


@pytest.mark.slow
def test_an_external_frameworks_options_are_checked(dlrun, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC.replace("rounds: 3", "round: 3"), encoding="utf-8")
    done = dlrun("plan", "spec.yaml", "--site", "site.yaml")
    assert done.returncode == 2
    assert "unknown key `round`" in done.stderr
    assert "`rounds`" in done.stderr


def test_without_the_package_the_nearest_name_is_given(tmp_path):
    (tmp_path / "site.yaml").write_text(SITE, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(SPEC, encoding="utf-8")
    done = subprocess.run(
        [*DLRUN, "plan", "spec.yaml", "--site", "site.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "`ring`" in done.stderr


@pytest.mark.parametrize(
    "words", [("why", "--log", "job.sh"), ("import", "job.sh"), ("plan", "spec.yaml", "--site", "site.yaml")]
)
def test_a_package_that_cannot_be_imported_is_named(tmp_path, words):
    about = tmp_path / "place" / "broken-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[dlrun.schedulers]\nspool = no_such_package.spool\n")
    (tmp_path / "site.yaml").write_text(
        "name: here\nscheduler: {type: spool}\nlauncher: {name: local}\n", encoding="utf-8"
    )
    (tmp_path / "spec.yaml").write_text("name: a\ncommand: [./train]\n", encoding="utf-8")
    (tmp_path / "job.sh").write_text("#!/bin/bash\npython train.py\n", encoding="utf-8")
    done = subprocess.run(
        [*DLRUN, *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(about.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "`spool` of another package cannot be imported: ModuleNotFoundError" in done.stderr
    assert done.returncode == 2
