"""Every framework that can be installed trains on two real hosts, and dies at once when one of its processes does."""

from __future__ import annotations

import re
import time

import pytest

from tests.frameworks.cases import CASES, SRUN, SSH
from tests.frameworks.hosts import REPOSITORY, make_job

pytestmark = pytest.mark.cluster

KILLED = 137
"""Exit code of a process that SIGKILL has ended."""

WHO = re.compile(r"(?:rank|worker|trial) (\d+) of (\d+)")
END = re.compile(r"loss ([0-9.e+-]+) -> ([0-9.e+-]+)(?:, parameters ([0-9a-f]{12}))?")


def parameters(cases):
    return [pytest.param(c, id=c.id, marks=[pytest.mark.slow] if c.slow else []) for c in cases]


def prepared(case, hosts, venv, *more):
    spec = REPOSITORY / "examples" / (case.example or case.row) / "spec.yaml"
    sets = [f"environment.venv={venv(case.row)}", *case.sets, *more]
    return make_job(hosts, case.id, spec, launcher=case.launcher, sets=sets)


def nothing_left(hosts):
    """What still runs on the hosts; processes that are just ending get a minute, what would run on has days."""
    deadline = time.monotonic() + 60
    while (left := hosts.left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.parametrize("case", parameters(CASES))
def test_it_trains_on_two_hosts(case, hosts, venv):
    job = prepared(case, hosts, venv).start()
    assert job.wait(case.seconds) == 0, job.said()
    ends = [found for log in job.logs(case.role) for found in END.findall(log)]
    assert ends, job.said()
    for first, last, _ in ends:
        assert float(last) < float(first) / 4, job.said()
    if case.world:
        ranks = {found for log in job.logs(case.role) for found in WHO.findall(log)}
        assert ranks == {(str(rank), str(case.world)) for rank in range(case.world)}, job.said()
        assert len(ends) >= case.world, job.said()
        assert case.says in job.log(f"{case.role}-0").splitlines() or not case.says, job.said()
        assert not case.replicas or len({digest for _, _, digest in ends}) == 1, job.said()
    assert nothing_left(hosts) == []


@pytest.mark.parametrize("case", parameters(c for c in CASES if c.victim))
def test_one_dead_process_ends_the_job(case, hosts, venv):
    job = prepared(case, hosts, venv, "command+=--steps", "command+=100000000").start()
    deadline = time.monotonic() + case.seconds
    while not any(re.search(r"step [1-9]\d* ", log) for log in job.logs(case.role)):
        assert job.process.poll() is None, job.said()
        assert time.monotonic() < deadline, job.said()
        time.sleep(0.1)
    role, rank = case.victim
    job.kill(role, rank)
    # Without an end the training goes on for days: that the job ends, and with this code, is the victim's doing.
    assert job.wait(240) == KILLED, job.said()
    (line,) = [line for line in job.output.splitlines() if "first failure: " in line]
    assert f"first failure: {role} {rank} on n" in line, job.said()
    assert f"ended with exit code {KILLED}" in line, job.said()
    assert f"logs/{role}-{rank}.log:" in line, job.said()
    assert nothing_left(hosts) == []


@pytest.mark.parametrize("launcher", [SSH, SRUN], ids=["ssh", "srun"])
def test_what_a_program_detaches_ends_with_it(launcher, hosts, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: detach\nframework: torch\nresources: {nodes: 2}\n"
        'command: [bash, -c, "setsid nohup sleep 1000 >/dev/null 2>&1 & echo left $!"]\n'
    )
    job = make_job(hosts, f"detach-{'slurm' if launcher is SRUN else 'ssh'}", spec, launcher=launcher).start()
    assert job.wait(240) == 0, job.said()
    assert all("left " in log for log in job.logs()), job.said()
    assert nothing_left(hosts) == []
