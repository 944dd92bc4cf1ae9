"""What a running Flux and a running Grid Engine reported, read into facts of a cluster and drafts of a profile."""

from __future__ import annotations

import re

import pytest

from dlrun.backends import SCHEDULERS
from dlrun.errors import Invalid, OperationFailed
from dlrun.schedulers.flux import detection as flux
from dlrun.schedulers.gridengine import detection as gridengine
from dlrun.site.profile import detect as site_detect
from dlrun.site.profile.query import ask_cluster
from dlrun.system.inputs.profiles import Machine
from dlrun.system.process import Completed
from tests.fakebin import CAPTURED

FLUX, CELL = CAPTURED / "flux", CAPTURED / "gridengine"
R = (FLUX / "resource-R.json").read_text()
QUEUES = (FLUX / "queue-list.txt").read_text()
HOSTS = (FLUX / "resource-list.txt").read_text()
TABLE = (CELL / "complexes.txt").read_text()
PE = (CELL / "environment.txt").read_text()
QHOST = (CELL / "qhost.xml").read_text()


def test_a_flux_instance():
    found = flux.facts(R, QUEUES, HOSTS)
    assert found.name == "tuo"
    (kind,) = found.nodes
    assert (kind.name, kind.count, kind.cpus, kind.gpus, kind.hosts) == (
        "tuo",
        3,
        96,
        4,
        ("tuo2", "tuo3", "tuo4"),
    )
    debug, batch = found.queues
    assert (debug.name, debug.max_walltime, debug.default_walltime, debug.max_nodes) == (
        "pdebug",
        "01:00:00",
        "00:30:00",
        2,
    )
    assert (batch.name, batch.default, batch.max_walltime, batch.max_nodes) == ("pbatch", True, None, None)
    assert debug.kinds == batch.kinds == ("tuo",)
    assert not batch.exclusive


def test_a_policy_of_whole_nodes():
    settings = '{"sched-fluxion-resource": {"match-policy": "lonodex"}}'
    assert all(queue.exclusive for queue in flux.facts(R, QUEUES, HOSTS, settings).queues)
    assert not any(queue.exclusive for queue in flux.facts(R, QUEUES, HOSTS, "not json").queues)


def cell(pes=PE, table=TABLE, **given):
    queues = (CELL / "queues.txt").read_text()
    known = {"name": "login", "version": "8.1.9", "gpus": {"n1": 2, "n2": 2}, **given}
    return gridengine.facts(QHOST, queues, pes, table, **known)


def test_a_cell():
    found = cell()
    (kind,) = found.nodes
    assert (kind.name, kind.count, kind.packages, kind.cores, kind.smt, kind.gpus) == ("n", 2, 2, 4, 1, 2)
    assert kind.memory_mib > 1000
    assert [(queue.name, queue.max_walltime, queue.kinds) for queue in found.queues] == [
        ("work", "24:00:00", ("n",)),
        ("short", "00:10:00", ("n",)),
    ]
    assert found.settings == {
        "parallel_environment": "mpi-{slots}",
        "complexes": {"gpu": "gpu", "gpus_counted": "slot", "memory": "h_vmem", "memory_counted": "slot",
                      "exclusive": "exclusive"},
    }  # fmt: skip
    assert (found.launcher, found.unseen) == ("qrsh", ())


@pytest.mark.parametrize(
    ("name", "rule", "expected", "open_"),
    [("orte8", "8", "orte{slots}", 0), ("mpi", "16", "mpi", 0), ("smp", "$pe_slots", "smp", 1), ("mpi", "$fill_up", None, 1)],
)  # fmt: skip
def test_parallel_environments(name, rule, expected, open_):
    text = PE.replace("mpi-1", name).replace("allocation_rule    1", f"allocation_rule    {rule}")
    found = cell(text)
    assert found.settings.get("parallel_environment") == expected
    assert len(found.unseen) == open_


def test_what_a_cell_does_not_count_is_left_open():
    plain = re.sub(r"^(gpu|h_vmem|exclusive) .*\n", "", TABLE, flags=re.MULTILINE)
    found = cell(table=plain)
    assert "complexes" not in found.settings
    assert [line.partition(":")[0] for line in found.unseen] == [
        "scheduler.complexes.gpu", "scheduler.complexes.memory", "scheduler.complexes.exclusive",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "<a", "<!DOCTYPE x><a/>"])
def test_other_answers_of_a_cell(text):
    with pytest.raises(ValueError, match="qhost"):
        gridengine.facts(text, "", "", "", name=None, version=None, gpus={})


ANSWERS = {
    "flux getattr version": "0.88.0\n",
    "flux resource R": R,
    "flux queue list": QUEUES,
    "flux resource list": HOSTS,
}


def runner(answers):
    def run(argv):
        line = " ".join(argv)
        found = next((text for start, text in answers.items() if line.startswith(start)), None)
        return Completed(returncode=found is None, stdout=found or "", stderr="" if found else "refused")

    return run


class Here(Machine):
    """A login node with these programs."""

    def has(self, program: str) -> bool:
        return program == "flux"


def test_a_draft_names_what_answered_and_what_did_not():
    found = ask_cluster(Here(environment={}), runner(ANSWERS))
    draft = site_detect.detect("tuo", found, site_detect.CollectedFacts())
    assert draft.values["scheduler"] == {
        "type": "flux",
        "version": "0.88.0",
        "account": {"option": "--bank"},
        "gpus": "gpus_per_node",
    }
    assert draft.values["recognise"] == {"cluster_name": "tuo"}
    assert draft.values["launcher"] == {"name": "flux"}
    assert "`flux config get` did not answer: refused" in draft.unseen


def test_answers_that_cannot_be_read():
    with pytest.raises(OperationFailed, match="cannot be read"):
        ask_cluster(Here(environment={}), runner({**ANSWERS, "flux resource R": "{}"}))


def test_no_client_at_all():
    class Bare(Machine):
        def has(self, program: str) -> bool:
            return False

    with pytest.raises(Invalid, match="no scheduler"):
        ask_cluster(Bare(environment={}), runner({}))


def test_a_soft_limit_of_time_is_the_limit():
    queues = (CELL / "queues.txt").read_text().replace("INFINITY", "20:00:00", 1)
    assert [gridengine._longest(queue) for queue in gridengine.blocks(queues)] == ["20:00:00", "00:10:00"]


def test_each_folder_of_a_scheduler_is_asked_and_flux_last():
    """A user may have an instance of Flux, and its client, in a job of another scheduler."""
    looked_for = []

    class Bare:
        def has(self, program: str) -> bool:
            looked_for.append(program)
            return False

    with pytest.raises(Invalid, match="no scheduler that dlrun supports is installed here"):
        ask_cluster(Bare())
    assert looked_for[:4] == ["scontrol", "pbsnodes", "qconf", "flux"]
    assert len({path.rpartition(".")[0] for path in SCHEDULERS.values()}) - 1 == 4  # `local` has no folder
