"""Frameworks that cannot be installed here, started for real with a stand-in that fails unless it is told right."""

from __future__ import annotations

import os

import pytest

from tests.cluster import NodeType, why_not
from tests.frameworks.cases import ON_BIG_HOSTS, STANDINS
from tests.frameworks.hosts import REPOSITORY, Hosts, make_job
from tests.frameworks.test_runs import END, KILLED, WHO, nothing_left

pytestmark = pytest.mark.cluster

PROGRAMS = REPOSITORY / "tests/frameworks/standins"
BIG = """\
partitions: {work: {node_type: big, exclusive: true, default: true}}
node_types: {big: {topology: {packages: 2, cores: 24}}}
"""


@pytest.fixture(scope="module")
def big_hosts():
    """Two hosts of 2 × 24 cores, as far as any program on them can tell."""
    if reason := why_not():
        pytest.skip(reason)
    with Hosts(f"fwbig-{os.getpid()}", node=NodeType(count=2, sockets=2, cores=24)) as running:
        yield running


def job_of(case, hosts, venv, *, more="", steps=60):
    home = venv(case.venv)
    setup = f'export PATH="{PROGRAMS}:$PATH"'
    sets = [
        f"environment.venv={home}",
        "environment.modules=[]",
        f"environment.variables.STANDIN_STEPS={steps}",
    ]
    sets.append(f"environment.variables.STANDIN_FOR={case.row}")
    sets.append(f"environment.setup=['{setup}'{', ' + case.setup if case.setup else ''}]")
    if case.command:
        sets.append(f"command={case.command.format(PROGRAMS)}")
    spec = REPOSITORY / "examples" / case.row / "spec.yaml"
    return make_job(hosts, case.row, spec, launcher=case.launcher, sets=sets, more=more)


def check(job, case, hosts):
    assert job.wait(360) == 0, job.said()
    ends = [found for log in job.logs(case.role) for found in END.findall(log)]
    assert ends, job.said()
    assert all(float(last) < float(first) / 5 for first, last, _ in ends), job.said()
    if case.world:
        ranks = {found for log in job.logs(case.role) for found in WHO.findall(log)}
        assert ranks == {(str(rank), str(case.world)) for rank in range(case.world)}, job.said()
        assert len({digest for _, _, digest in ends}) == 1, job.said()
    assert nothing_left(hosts) == []


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.row, marks=[pytest.mark.slow] if c.slow else []) for c in STANDINS]
)
def test_it_is_told_what_it_wants(case, hosts, venv):
    check(job_of(case, hosts, venv).start(), case, hosts)


@pytest.mark.parametrize("case", ON_BIG_HOSTS, ids=lambda case: case.row)
def test_communication_has_cores_of_its_own(case, big_hosts, venv):
    check(job_of(case, big_hosts, venv, more=BIG).start(), case, big_hosts)


def test_a_dead_caffe_ends_the_job(big_hosts, venv):
    job = job_of(ON_BIG_HOSTS[0], big_hosts, venv, more=BIG, steps=100000000).start()
    job.await_text("rank-3", "step 10 ")
    job.kill("rank", 3)
    assert job.wait(240) == KILLED, job.said()
    assert "first failure: rank 3 on n2" in job.output, job.said()
    assert nothing_left(big_hosts) == []


def test_a_wrong_binding_fails_the_stand_in(big_hosts, venv):
    """The stand-in itself: it must not pass whatever it is told."""
    job = job_of(ON_BIG_HOSTS[0], big_hosts, venv, more=BIG)
    script = job.directory / "rank.sh"
    script.write_text(
        script.read_text().replace("KMP_AFFINITY=granularity=fine,", "KMP_AFFINITY=granularity=core,")
    )
    assert job.start().wait(240) != 0
    assert "KMP_AFFINITY is 'granularity=core," in "".join(job.logs()), job.said()
