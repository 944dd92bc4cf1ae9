"""Whether a waiting job can ever start, by the reason that its scheduler reports."""

from __future__ import annotations

import pytest

from dlrun.jobs.clusters.outlook import _SLURM, outlook
from dlrun.jobs.clusters.reasons import in_words
from dlrun.model.job import HELD_BY_CENTRE, UNMET
from dlrun.schedulers.gridengine import gridengine


@pytest.mark.parametrize(
    ("reason", "never", "step"),
    [
        ("Resources", False, "by itself"),
        ("Priority", False, "by itself"),
        ("QOSMaxNodePerJobLimit", True, "request less"),
        ("QOSMaxWallDurationPerJobLimit", True, "request less"),
        ("AssocMaxCpuPerJobLimit", True, "request less"),
        ("QOSGrpCpuLimit", False, "same account or QOS"),
        ("QOSMaxJobsPerUserLimit", False, "same account or QOS"),
        ("AssocGrpCPUMinutesLimit", False, "ask the centre"),
        ("PartitionDown", False, "centre"),
        ("PartitionNodeLimit", True, "resources.nodes"),
        ("PartitionTimeLimit", True, "resources.walltime"),
        ("JobHeldUser", True, "dlrun hold --release"),
        ("JobHeldAdmin", True, "administrator"),
        ("(ReqNodeNotAvail, UnavailableNodes:n[1-2])", False, "sinfo -R"),
        ("Can Never Run: Insufficient amount of resource: ncpus (R: 999 A: 8 T: 8)", True, "request less"),
        ("Not Running: Not enough free nodes available", False, "by itself"),
        ("Job held by alice on Sat Nov 21", True, "dlrun hold --release"),
        (UNMET, True, "after"),
        (
            "no suitable queues: the parallel environment `mpi` only offers 3 slots for it",
            True,
            "request less",
        ),
        ("the parallel environment `mpi` only offers 3 slots for it", False, "by itself"),
        ("it exceeds the resource quota `lim/1` of `alice`", False, "qquota"),
        ("queue work on n[1-3] is disabled", False, "ask the centre"),
        ("queue work on n2 is temporarily not available", False, "ask the centre when"),
        (HELD_BY_CENTRE, True, "only an administrator"),
        ("AssocGrpNodeLimit", False, "this one alone is over the limit"),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            False,
            "if they are only reserved, it starts by itself",
        ),
        ("queue all.q on n[1-2] is full; queue all.q on n3 is disabled", False, "by itself"),
        (
            "queues all.q on n1, work on n2 are disabled; queue all.q on n3 is suspended",
            False,
            "ask the centre",
        ),
        ("queue work on n2 is disabled; it exceeds the resource quota `lim/1` of `alice`", False, "qquota"),
        ("it exceeds the resource quota `lim/1`; queue work on n[1-3] is disabled", False, "qquota"),
        ("queue all.q on n1 is temporarily not available; queue all.q on n2 is full", False, "by itself"),
        (
            "queue work on n1 is disabled; queue work on n2 is temporarily not available",
            False,
            "ask the centre",
        ),
        ("Not Running: Insufficient amount of resource: host ", False, "ask the centre when"),
        (
            "Not Running: Queue work per-user limit reached on resource ncpus",
            False,
            "count towards that limit",
        ),
        ("Not Running: User has reached queue work running job limit.", False, "count towards that limit"),
        ('cannot run on host "n2" until clean up of a previous run has finished', False, "other nodes"),
    ],
)
def test_the_outlook_of_a_reason(reason, never, step):
    found = outlook(reason)
    assert (found.never, step in found.next) == (never, True), found
    assert found.words == in_words(reason)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "(often for maintenance): n[1-2]"),
        ("(ReqNodeNotAvail, UnavailableNodes:)", "(often for maintenance)"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", "nodes that it needs"),
        ("Not Running: Insufficient amount of resource: host ", "a host that it names is in use, offline or down"),
        ("Not Running: Queue work per-user limit reached on resource ncpus", "you have reached your limit of `ncpus`"),
    ],
)  # fmt: skip
def test_words_name_the_node_and_whose_limit(reason, words):
    assert words in in_words(reason)


def test_every_reason_with_advice_has_words():
    assert all(in_words(name) != name for name in _SLURM)


@pytest.mark.parametrize(("held", "never"), [(True, True), (False, False)])
def test_no_reason_at_all(held, never):
    assert outlook(None, held=held).never is never


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'Job 15 cannot run in PE "mpi" because it only offers 3 slots\nverification: no suitable queues\n',
            "no suitable queues: the parallel environment `mpi` only offers 3 slots for it",
        ),
        ("verification: no suitable queues\n", "no suitable queues"),
        ("verification: found suitable queue(s)\nscheduling info:   queue instance \"all.q@n1\" dropped because it is full\n",
         "queue all.q on n1 is full"),
        ("verification: found suitable queue(s)\nscheduling info:            (Collecting of information is turned off)\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_grid_engine_reports_about_a_pending_job(text, reason):
    assert gridengine.parse_pending(text) == reason


def test_remarks_about_other_queues_and_hosts_are_left_out():
    """As `qstat -j` prints them for a job of the queue `work` and the host n2, which is disabled (seen with 8.1.9)."""
    text = """\
hard_queue_list:            work
scheduling info:            queue instance "work@n2" dropped because it is disabled
                            queue instance "short@n2" dropped because it is disabled
                            (-l h_rt=300,hostname=n2) cannot run in queue "work@n1" because it offers only qf:hostname=n1
                            cannot run in queue "short" because it is not contained in its hard queue list (-q)
                            cannot run in PE "mpi-1" because it only offers 0 slots
"""
    assert gridengine.parse_pending(text) == "queue work on n2 is disabled"


def test_a_quota_is_named_with_whose_it_is():
    text = 'scheduling info:            cannot run because it exceeds limit "alice/////" in rule "lim/1"\n'
    assert gridengine.parse_pending(text) == "it exceeds the resource quota `lim/1` of `alice`"
