"""Whether a waiting job can ever start, by the reason that its scheduler reports."""

from __future__ import annotations

import pytest

from dlrun.model.job import UNMET
from dlrun.schedulers.gridengine import gridengine
from dlrun.schedulers.outlook import _SLURM, outlook
from dlrun.schedulers.reasons import in_words


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
        ('no suitable queues: cannot run in PE "mpi" because it only offers 3 slots', True, "request less"),
        ('cannot run on host "n2" until clean up of a previous run has finished', False, "other nodes"),
    ],
)
def test_the_outlook_of_a_reason(reason, never, step):
    found = outlook(reason)
    assert (found.never, step in found.next) == (never, True), found
    assert found.words == in_words(reason)


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
            'no suitable queues: cannot run in PE "mpi" because it only offers 3 slots',
        ),
        ("verification: no suitable queues\n", "no suitable queues"),
        ("verification: found suitable queue(s)\nscheduling info:   queue instance \"all.q@n1\" dropped because it is full\n",
         'queue instance "all.q@n1" dropped because it is full'),
        ("verification: found suitable queue(s)\nscheduling info:            (Collecting of information is turned off)\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_grid_engine_reports_about_a_pending_job(text, reason):
    assert gridengine.parse_pending(text) == reason
