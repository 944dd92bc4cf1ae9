"""Odd names on a real OpenPBS: of the job, its directory, and where it is submitted; it runs, and is found, asked and removed."""

from __future__ import annotations

import json
import time

import pytest

from tests.cluster import why_no_pbs, why_not
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, bash, on_openpbs

_WHY_NOT = why_not() or why_no_pbs()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)]

SITE = {
    "name": "test-names",
    "scheduler": {"type": "openpbs", "gpus": "none"},
    "launcher": {"name": "ssh"},
    "partitions": {"work": {"default": True, "node_type": "n"}},
    "node_types": {"n": {"topology": {"packages": 2, "cores": 4}}},
    "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
}
ODD = (
    "%j-%x-%%", " lead and trail ", "back\\slash", "it's [x]", 'say "x"', "$HOME `id`", "naïve-日本", "a,b", "a:b", "n1:x;b&c|d",
    "*", "{y}~!e", "#h", "+(p)", "-x=y", "--", "^a^ <r>", "a^array_index",
)  # fmt: skip
"""What a shell, a pattern, qsub and its `-o` could take for something else."""
FAILS = """\
echo "in $PWD"
((DLRUN_RANK)) || exec sleep 600
until [ -s "$DLRUN_RUN_DIR/logs/rank-0.log" ]; do sleep 0.2; done
exit 7"""
"""The second rank fails while the first one goes on: the job has to notice."""


@pytest.fixture(scope="module")
def alice():
    with on_openpbs("names", SITE) as user:
        yield user


class Place:
    """A directory in which the user works, and the job directory that is named there."""

    def __init__(self, alice, where, job_dir):
        self.alice, self.where, self.job_dir = alice, where, job_dir
        where.mkdir(exist_ok=True)
        where.chmod(0o777)

    def dlrun(self, *words, code=0):
        line = ["bash", "-c", 'PATH="$0:$PATH" exec dlrun "$@"', str(PYTHON), *words]
        env = {"DLRUN_SITE": str(self.alice.directory / "site.yaml")}
        done = self.alice.cluster.on("login", line, user="alice", env=env, cwd=str(self.where), timeout=120)
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def submit(self, name, script, code=0):
        resources = {"nodes": 1, "ranks_per_node": 2, "cpus_per_rank": 1, "walltime": "5m"}
        spec = {"name": name, "command": bash(script), "resources": resources}
        path = self.alice.write(f"{time.monotonic_ns()}.yaml", spec)
        return self.dlrun("submit", str(path), "--parsable", "--job-dir", str(self.job_dir), code=code)

    def runs(self):
        (job,) = json.loads(self.dlrun("status", str(self.job_dir), "--json").stdout)["jobs"]
        return job["runs"]


def test_a_job_fails_and_is_removed(alice):
    places = {}
    for number, name in enumerate(ODD):
        places[name] = Place(alice, alice.directory / name, alice.directory / name / f"jobs-{number}" / name)
        places[name].submit(name, FAILS)
    for name, place in places.items():
        (run,) = alice.ended(str(place.job_dir), within=180)
        assert (run["state"], run["exit_code"]) == ("failed", 7), name
        assert (place.job_dir / "logs/rank-0.log").read_text() == f"in {place.where}\n"
        assert "first failure: rank 1" in place.dlrun("logs", str(place.job_dir), "--rank", "job").stdout, (
            name
        )
        (answer,) = json.loads(place.dlrun("why", str(place.job_dir), "--json").stdout)["why"]
        assert answer["exit_code"] == 7, name
        place.dlrun("clean", str(place.job_dir), "--all", "--yes")
        assert not place.job_dir.exists(), name


def test_a_job_is_cancelled(alice):
    places = {}
    for number, name in enumerate(ODD[2:8]):
        places[name] = Place(alice, alice.directory / f"at-{number}", alice.directory / f"at-{number}" / name)
        places[name].submit("x", "echo begun; exec sleep 600")
    for name, place in places.items():
        log = place.job_dir / "logs/rank-0.log"
        await_true(lambda log=log: log.exists() and log.read_text() == "begun\n", 120, f"{name!r} to begin")
        place.dlrun("cancel", str(place.job_dir))
        assert alice.ended(str(place.job_dir))[0]["state"] == "cancelled", name
        alice.left_nothing(str(place.job_dir), ["n1", "n2"])


def test_where_qsub_would_put_the_log_elsewhere_the_job_is_refused(alice):
    place = Place(alice, alice.directory / "refused", alice.directory / "refused" / "a^array_index^b")
    done = place.submit("x", "true", code=2)
    assert "^array_index^" in done.stderr
    assert not place.job_dir.exists()
