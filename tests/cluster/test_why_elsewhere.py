"""`dlrun why` and `status` on a real Grid Engine, OpenPBS and Flux: jobs that wait, and jobs that somebody else touched."""

# ruff: noqa: E501 - a table
from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import (
    Cluster,
    ClusterSpec,
    NodeType,
    Partition,
    gridengine,
    test_flux,
    test_gridengine,
    why_no_flux,
    why_no_gridengine,
    why_no_pbs,
    why_not,
)
from tests.cluster.hosts import await_true
from tests.cluster.jobs import PYTHON, User, bash
from tests.examples import cases

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

WORK = {"work": {"default": True, "node_type": "n"}}
NODES = {"n": {"topology": {"packages": 2, "cores": 4}}}
SITES: dict[str, dict[str, Any]] = {
    "gridengine": {**test_gridengine.SITE, "partitions": WORK},
    "pbs": {
        "name": "test-pbs",
        "scheduler": {"type": "openpbs"},
        "launcher": {"name": "ssh"},
        "partitions": WORK,
        "node_types": NODES,
        "fabric": {"name": "ethernet", "interfaces": ["eth0"]},
    },
    "flux": {**test_flux.SITE, "partitions": WORK},
}
MISSING = {"gridengine": why_no_gridengine(), "pbs": why_no_pbs(), "flux": why_no_flux()}
QUOTA = "printf '%s\\n' '{' 'name lim' 'description NONE' 'enabled TRUE' 'limit users {*} to slots=1' '}' >/tmp/rqs; qconf -Arqs /tmp/rqs"
CLOSED = {
    "gridengine": ("qmod -d work", "qmod -e work", "queue work on n[1-3] is disabled", "none while the partition work is down"),
    "pbs": ("qmgr -c 'set queue work started=False'", "qmgr -c 'set queue work started=True'", "the queue starts no jobs now",
            "queue `work` is stopped"),
    "flux": ("flux queue stop -m dinner work", "flux queue start work", "queue work is stopped: dinner", "queue work is stopped: dinner"),
}  # fmt: skip
"""How a queue is closed and opened; what `why` and `submit --check` answer."""
DRAINED = {
    "gridengine": ("qmod -d '*@n2'", "qmod -e '*@n2'", "queue work on n2 is disabled"),
    "pbs": ("pbsnodes -o n2", "pbsnodes -r n2", "a host that it names is in use, offline or down"),
    "flux": ("flux resource drain n2 fan", "flux resource undrain n2", "n2 is drained: fan"),
}
LIMITED = {
    "gridengine": (QUOTA, "qconf -drqs lim", "it exceeds the resource quota `lim/1` of `alice`"),
    "pbs": (
        "qmgr -c 'set queue work max_run_res.ncpus=[u:PBS_GENERIC=1]'",
        "qmgr -c 'unset queue work max_run_res.ncpus'",
        "you have reached your limit of `ncpus`",
    ),
}
WIDE = {
    "gridengine": "the parallel environment `mpi-1` only offers 3 slots for it",
    "pbs": "Not enough total nodes available",
}
SIGNALS = {"pbs": "qsig -s USR1 {}", "flux": "flux job kill -s USR1 {}"}
FORCED = {"gridengine": "qdel -f {}", "pbs": "qdel -W force {}"}

CLIENTS = {"gridengine": "qsub", "pbs": "qsub", "flux": "flux"}
SERVERS = {"gridengine": "sge_qmaster", "pbs": "pbs_server.bin", "flux": "flux-broker-0"}
"""What submits, and the daemon that answers."""


@pytest.fixture(scope="module", params=list(SITES))
def kind(request):
    if MISSING[request.param]:
        pytest.skip(MISSING[request.param])
    return request.param


@pytest.fixture(scope="module")
def cluster(kind):
    spec = ClusterSpec(
        scheduler=kind,
        node_types=(NodeType(count=3),),
        partitions=(
            Partition(name="work", default=True, max_time="1-00:00:00"),
            Partition(name="short", max_time="00:10:00"),
        ),
        sshd=True,
    )
    with Cluster(spec, name=f"why-{kind}-{os.getpid()}") as running:
        yield running


@pytest.fixture(scope="module")
def alice(cluster, kind):
    return User(cluster, SITES[kind])


@pytest.fixture
def administer(cluster, kind):
    """Run commands as who may: the instance's owner on Flux, root elsewhere; of a pair the second one when the test ends."""
    user, back = (cluster.spec.users[0] if kind == "flux" else "root"), []

    def run(line: str, undo: str = "") -> None:
        back.append(undo)
        cluster.on("login", line, user=user, check=True)

    yield run
    for line in filter(None, back):
        cluster.on("login", line, user=user)


def one(command: str = "true", **more: Any) -> dict[str, Any]:
    given = {"nodes": 1, "cpus_per_rank": 1, "ranks_per_node": 1, "walltime": "5m", **more}
    return {"command": bash(command), "resources": given}


def asked(alice: User, job: str, words: str, within: float = 60) -> dict[str, Any]:
    """What `why` answers, as soon as it has these words; `status` must have them, too."""
    found: dict[str, Any] = {}

    def known() -> bool:
        found.update(alice.why(job))
        return words in found["means"]

    await_true(known, within, f"`why` has {words!r}")
    await_true(lambda: words in alice.dlrun("status", job).stdout, 20, f"`status` has {words!r}")
    return found


def test_a_queue_that_starts_no_jobs(alice, kind, administer):
    close, reopen, words, expected = CLOSED[kind]
    administer(close, reopen)
    path = alice.write("check.yaml", {"name": "x", "framework": "torch", **one()})
    assert expected in alice.dlrun("submit", str(path), "--check").stdout
    job = alice.submit(one())
    found = asked(alice, job, words)
    assert (found["cause"], "ask the centre" in found["next"]) == ("open", True)
    alice.dlrun("cancel", job)


def test_a_drained_host_that_the_job_names(alice, kind, administer):
    close, reopen, words = DRAINED[kind]
    administer(close, reopen)
    job = alice.submit(one(hosts=["n2"]))
    assert "ask the centre" in asked(alice, job, words)["next"]
    alice.dlrun("cancel", job)


def test_a_limit_of_its_user(alice, kind, administer):
    if kind not in LIMITED:
        pytest.skip("Flux refuses what is over a limit")
    close, reopen, words = LIMITED[kind]
    administer(close, reopen)
    job = alice.submit(one(nodes=2))
    assert "request less" in asked(alice, job, words)["next"]
    alice.dlrun("cancel", job)


def test_more_nodes_than_there_are(alice, kind):
    if kind == "flux":
        path = alice.write("wide.yaml", {"name": "x", "framework": "torch", **one(nodes=8)})
        done = alice.dlrun("submit", str(path), code=1)
        assert "request fewer nodes" in done.stderr
        return
    job = alice.submit(one(nodes=8))
    found = asked(alice, job, WIDE[kind])
    assert (found["cause"], "request less" in found["next"]) == ("never-starts", True)
    alice.dlrun("cancel", job)


def test_holds_of_its_user_and_of_an_administrator(alice, kind, administer):
    job = alice.submit(one() | {"hold": True})
    assert "dlrun hold --release" in asked(alice, job, "held")["next"]
    if kind != "flux":  # there a held job has the urgency 0, whoever gave it that
        administer(f"qhold -h o {job}")
        assert "ask the centre" in asked(alice, job, "held by an administrator or operator")["next"]
        assert "only the centre can release it" in alice.dlrun("release", job).stderr
        administer(f"qrls -h o {job}")
    alice.dlrun("release", job)
    assert alice.ended(job)[0]["state"] == "completed"


def test_a_rank_that_left_while_the_other_waits(alice, kind):
    job = alice.submit(one("[ $RANK = 1 ] || sleep 300", nodes=2))
    alice.running(job)
    if kind == "flux":  # its shell ends what a rank has left for half a minute (`exit-timeout`)
        assert alice.ended(job)[0]["state"] == "failed"
        assert alice.why(job)["cause"] == "left-early"
        return
    found = asked(alice, job, "rank 1 ended with exit code 0")
    assert found["cause"] == "left-early"
    assert "rank 1 ended with exit code 0" in alice.dlrun("list").stdout
    assert "rank 1 ended with exit code 0" in alice.dlrun("top", job, "--once").stdout
    alice.dlrun("cancel", job)


def test_a_signal_that_somebody_sent(alice, kind, administer):
    if kind not in SIGNALS:
        pytest.skip("Grid Engine's clients send no signals")
    job = alice.submit(one("sleep 600"))
    alice.running(job)
    time.sleep(5)
    administer(SIGNALS[kind].format(job))
    alice.ended(job)
    found = alice.why(job)
    assert (found["cause"], "find its sender" in found["next"]) == ("user-signal", True), found


def test_what_an_administrator_deletes(alice, kind, administer):
    if kind not in FORCED:
        pytest.skip("the user is the owner of the instance")
    job, forced = alice.submit(one("sleep 600")), alice.submit(one("sleep 600"))
    alice.running(job)
    alice.running(forced)
    time.sleep(5)
    administer(f"qdel {job}")
    administer(FORCED[kind].format(forced))
    alice.ended(job)
    assert "administrator" in alice.why(job)["means"]
    assert alice.ended(forced)[0]["state"] == "cancelled"
    assert "by whom (its user's own command, an administrator) is not recorded" in alice.why(forced)["means"]


def test_an_end_is_kept_and_what_is_over_cannot_be_cancelled(alice):
    waits = alice.submit(one("exit 3") | {"hold": True})
    alice.dlrun("release", waits)
    (run,) = alice.ended(waits)
    assert (run["state"], run["exit_code"], run["reason"]) == ("failed", 3, None)
    for word in ("cancel", "release", "hold"):
        assert "has ended (failed)" in alice.dlrun(word, waits).stderr


def test_a_job_whose_directory_is_gone(alice):
    job = alice.submit(one("sleep 600"))
    alice.running(job)
    time.sleep(2)
    shutil.rmtree(alice.job_dir(job))
    assert "running" in alice.dlrun("status", job).stdout
    found = alice.why(job)
    assert (found["state"], "its job directory" in found["means"]) == ("running", True)
    assert "cancel requested" in alice.dlrun("cancel", job).stderr
    await_true(lambda: "running" not in alice.dlrun("status", job, code=None).stdout, 60, "its end")


def test_an_end_is_kept_while_the_scheduler_does_not_answer(alice, kind, cluster):
    """What was known of the end stays, and what is not known is not guessed."""
    ended, runs = alice.submit(one("exit 3")), alice.submit(one("sleep 600"))
    (before,) = alice.ended(ended)
    alice.running(runs)
    time.sleep(2)
    cluster.on("login", f"pkill -STOP -x {SERVERS[kind]}", user="root", check=True)
    try:
        (after,) = alice.state(ended)
        kept = ("state", "exit_code", "nodes", "reason")
        assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
        assert "rank 0 ended with exit code 3" in alice.why(ended)["means"]
        shown = alice.dlrun("status", runs).stdout
        assert "does not answer" in shown or "did not answer" in shown
    finally:
        cluster.on("login", f"pkill -CONT -x {SERVERS[kind]}", user="root", check=True)
    alice.dlrun("cancel", runs)
    alice.ended(runs)


def test_a_wrapper_that_keeps_the_signal_of_the_checkpoint(alice, kind):
    command = "trap '' USR1 TERM; (trap - USR1 TERM; exec sleep 600) & while :; do wait; done"
    job = alice.submit(one(command, walltime="1m") | {"checkpoint": {"signal": "USR1", "before_end": "30s"}})
    alice.ended(job)
    found = alice.why(job)
    assert (found["cause"], "must pass the signal of `checkpoint` on" in found["next"]) == (
        "walltime",
        True,
    ), found


def test_what_a_wrapper_of_the_client_prints(alice, kind, cluster):
    name = CLIENTS[kind]
    real = cluster.on("login", f"command -v {name}", user="alice", check=True).stdout.strip()
    wrapper = cluster.home("alice") / "bin" / name
    wrapper.parent.mkdir(exist_ok=True)
    words = "[ \"$1\" = jobs ] || echo 'your project has 3 hours left' >&2"
    wrapper.write_text(f'#!/bin/sh\n{words}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    alice.write("wrapped.yaml", {"name": "wrapped", "framework": "torch", **one()})
    line = f"PATH={wrapper.parent}:{PYTHON}:$PATH DLRUN_SITE=site.yaml dlrun submit wrapped.yaml --parsable"
    done = cluster.on("login", line, user="alice", cwd=str(alice.directory), check=True)
    assert "your project has 3 hours left" in done.stderr
    assert "your project has 3 hours left" in alice.dlrun("status", done.stdout.strip()).stderr
    alice.ended(done.stdout.strip())


HOOK = """\
import pbs
e = pbs.event()
e.job.queue = pbs.server().queue("short")
e.job.Resource_List["walltime"] = pbs.duration(120)
e.accept()
"""
VERIFIER = """\
#!/bin/bash
while read -r word rest; do
  case $word in
    START) echo STARTED ;;
    BEGIN) printf '%s\\n' 'PARAM q_hard short' 'PARAM l_hard h_rt=120' 'RESULT STATE CORRECT moved to short' ;;
    QUIT) exit ;;
  esac
done
"""


def test_what_the_scheduler_changed(alice, kind, cluster, administer):
    """A hook of OpenPBS, and a server's submission verifier (JSV) of Grid Engine."""
    if kind == "flux":
        pytest.skip("its plug-ins are compiled")
    place = Path(cluster.shared / "changes")
    place.write_text(HOOK if kind == "pbs" else VERIFIER)
    place.chmod(0o755)
    if kind == "pbs":
        administer("qmgr -c 'create hook move event=queuejob'", "qmgr -c 'delete hook move'")
        administer(f"qmgr -c 'import hook move application/x-python default {place}'")
    else:
        set_to = "qconf -sconf | sed 's|^jsv_url .*|jsv_url {}|' >/tmp/global; cd /tmp; qconf -Mconf global"
        administer(set_to.format(place), set_to.format("none"))
    job = alice.submit(one())
    shown = alice.dlrun("status", job).stderr
    assert "partition `short`, not `work`" in shown
    assert "walltime 2m, not 5m" in shown
    alice.ended(job)


@pytest.mark.parametrize("which", cases([0, 1], quick=1))
def test_a_host_that_does_not_answer(alice, kind, cluster, which):
    """Grid Engine counts its jobs as running, or as being deleted, for good."""
    if kind != "gridengine":
        pytest.skip(
            "the others end such a job: `test_a_mom_that_is_killed`, `test_a_node_that_dies_is_named`"
        )
    job = alice.submit(one("sleep 600", nodes=2))
    alice.running(job)
    host = alice.hosts(job)[which]
    time.sleep(4)
    cluster.on(host, "kill -9 $(pgrep -x sge_execd)", user="root", check=True)
    try:
        found = asked(alice, job, f"{host} does not answer")
        assert found["cause"] == "node-silent"
        assert f"{host} does not answer" in alice.dlrun("list").stdout
        assert f"{host} does not answer" in str(json.loads(alice.dlrun("status", job, "--json").stdout))
    finally:
        gridengine.start_node(cluster, host)
        gridengine.await_ready(cluster)
    alice.dlrun("cancel", job)
    alice.ended(job)
