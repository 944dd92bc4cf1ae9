"""Frameworks that cannot be installed here, started for real with a stand-in that fails unless it is told right."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from tests.cluster import NodeType, why_not
from tests.frameworks.cases import INTELMPI, INTELMPI_HERE, OPENMPI, SSH
from tests.frameworks.hosts import REPOSITORY, Hosts, make_job
from tests.frameworks.test_runs import END, KILLED, WHO, nothing_left

pytestmark = pytest.mark.cluster

STANDINS = REPOSITORY / "tests/frameworks/standins"
BIG = """\
partitions: {work: {node_type: big, exclusive: true, default: true}}
node_types: {big: {topology: {packages: 2, cores: 24}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standin:
    """One row: the environment that the stand-in runs in, its launcher, and what the example's command becomes."""

    row: str
    venv: str = "mpi"
    launcher: str = OPENMPI
    command: str = ""
    role: str = "rank"
    world: int = 2
    setup: str = ""
    slow: bool = False


CASES = [
    Standin(row="nvcaffe"),
    Standin(row="caffe_mpi"),
    Standin(row="torch_mpi"),
    Standin(
        row="theano_mpi",
        command='[python, -u, {0}/theano_worker.py, "cuda{{{{ local_rank }}}}", avg, nccl32, models, AlexNet]',
        world=4,
    ),
    Standin(row="ibm_ddl", command="[python, {0}/ddl_train.py]", world=4),
    Standin(
        row="caffe2",
        launcher=SSH,
        command="[python, {0}/caffe2_trainer.py, --train_data, null]",
        role="shard",
    ),
    *(
        Standin(
            row=row,
            venv="spark",
            launcher=SSH,
            command=f"[python, {{0}}/spark_app.py, {REPOSITORY}/examples/spark/train.py, --workers, 2]",
            role="driver",
            world=0,
            slow=True,
        )
        for row in ("caffeonspark", "deeplearning4j")
    ),
]


@pytest.fixture(scope="module")
def big_hosts():
    """Two hosts of 2 × 24 cores, as far as any program on them can tell."""
    if reason := why_not():
        pytest.skip(reason)
    with Hosts(f"fwbig-{os.getpid()}", node=NodeType(count=2, sockets=2, cores=24)) as running:
        yield running


def job_of(case, hosts, venv, *, more="", steps=60):
    home = venv(case.venv)
    setup = f'export PATH="{STANDINS}:$PATH"'
    sets = [
        f"environment.venv={home}",
        "environment.modules=[]",
        f"environment.variables.STANDIN_STEPS={steps}",
    ]
    sets.append(f"environment.variables.STANDIN_FOR={case.row}")
    sets.append(f"environment.setup=['{setup}'{', ' + case.setup if case.setup else ''}]")
    if case.command:
        sets.append(f"command={case.command.format(STANDINS)}")
    spec = REPOSITORY / "examples" / case.row / "spec.yaml"
    return make_job(hosts, case.row, spec, launcher=case.launcher, sets=sets, more=more)


def check(job, case, hosts):
    assert job.wait(240) == 0, job.said()
    ends = [found for log in job.logs(case.role) for found in END.findall(log)]
    assert ends, job.said()
    assert all(float(last) < float(first) / 5 for first, last, _ in ends), job.said()
    if case.world:
        ranks = {found for log in job.logs(case.role) for found in WHO.findall(log)}
        assert ranks == {(str(rank), str(case.world)) for rank in range(case.world)}, job.said()
        assert len({digest for _, _, digest in ends}) == 1, job.said()
    assert nothing_left(hosts) == []


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.row, marks=[pytest.mark.slow] if c.slow else []) for c in CASES]
)
def test_it_is_told_what_it_wants(case, hosts, venv):
    check(job_of(case, hosts, venv).start(), case, hosts)


INTEL_SETUP = INTELMPI_HERE.partition("[")[2].removesuffix("]")
INTELCAFFE = Standin(row="intelcaffe", venv="intelmpi", launcher=INTELMPI, world=4, setup=INTEL_SETUP)
ONECCL = Standin(
    row="oneccl",
    venv="intelmpi",
    launcher=INTELMPI,
    command="[python, {0}/ccl_program.py]",
    world=4,
    setup=INTEL_SETUP,
)


@pytest.mark.parametrize("case", [INTELCAFFE, ONECCL], ids=["intelcaffe", "oneccl"])
def test_communication_has_cores_of_its_own(case, big_hosts, venv):
    check(job_of(case, big_hosts, venv, more=BIG).start(), case, big_hosts)


def test_a_dead_caffe_ends_the_job(big_hosts, venv):
    job = job_of(INTELCAFFE, big_hosts, venv, more=BIG, steps=100000000).start()
    job.await_text("rank-3", "step 10 ")
    job.kill("rank", 3)
    assert job.wait(60) == KILLED, job.said()
    assert "first failure: rank 3 on n2" in job.output, job.said()
    assert nothing_left(big_hosts) == []


def test_a_wrong_thread_count_fails_the_stand_in(big_hosts, venv):
    """The stand-in itself: it must not pass whatever it is told."""
    job = job_of(INTELCAFFE, big_hosts, venv, more=BIG)
    script = job.directory / "rank.sh"
    script.write_text(script.read_text().replace("KMP_HW_SUBSET=1t", "KMP_HW_SUBSET=2t"))
    assert job.start().wait(60) != 0
    assert "KMP_HW_SUBSET is '2t', and must be '1t'" in "".join(job.logs()), job.said()
