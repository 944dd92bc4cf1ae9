"""Reasons in words: Slurm's codes, its families of limits, PBS's comments; what is not known stays."""

from __future__ import annotations

import pytest

from dlrun.jobs.clusters.reasons import in_words
from dlrun.schedulers.slurm.reasons import WORDS

CASES = {
    "Resources": "waits for free nodes",
    "Priority": "jobs with a higher priority come first",
    "(Priority)": "jobs with a higher priority come first",
    "ReqNodeNotAvail, UnavailableNodes:n[1-2]": (
        "a node that the job needs is down, drained or reserved (often for maintenance): n[1-2]"
    ),
    "QOSMaxJobsPerUserLimit": "more jobs than the QOS allows",
    "QOSMaxCpuPerUserLimit": "more cores than the QOS allows",
    "QOSMaxNodePerUserLimit": "more nodes than the QOS allows",
    "QOSMaxWallDurationPerJobLimit": "more walltime than the QOS allows",
    "QOSGrpNodeLimit": "the QOS uses all nodes of its limit",
    "QOSGrpCpuLimit": "the QOS uses all cores of its limit",
    "QOSMinGRES": "fewer GPUs than the QOS requires",
    "QOSGrpGRES": "the QOS uses all GPUs of its limit",
    "AssocGrpCPUMinutesLimit": "the account has used up its core-hours",
    "AssocGrpGRESMinutes": "the account has used up its GPU-hours",
    "AssocGrpBillingMinutes": "the account has used up its billing units",
    "AssocGrpCpuLimit": "the account uses all cores of its limit",
    "AssocMaxJobsLimit": "more jobs than the account allows",
    "AssocGrpNodeLimit": "the account uses all nodes of its limit",
    "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 4)": "waits for free nodes (too little `ncpus` is free)",
    "Not Running: Not enough free nodes available": "waits for free nodes",
    "Not Running: User has reached queue workq running job limit.": "you have reached your limit of running jobs",
    "Not Running: Job would conflict with reservation or top job": "would overlap with a reservation",
    "Not Running: Queue not started.": "the queue starts no jobs now",
    "Can Never Run: Not enough total nodes available": "can never run: Not enough total nodes available",
    "Job held by ada on Sat Nov 21": "held: `dlrun hold --release` releases it",
    "something new": "something new",
}


@pytest.mark.parametrize("reason", CASES)
def test_a_reason_in_words(reason):
    assert in_words(reason) == CASES[reason]


def test_forty_and_more_are_known():
    assert len(WORDS) + len(CASES) > 60
    assert all(in_words(name) != name for name in WORDS)
