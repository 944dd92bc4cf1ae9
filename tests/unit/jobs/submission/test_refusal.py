"""What a refused job's user hears."""

from __future__ import annotations

import pwd
from types import SimpleNamespace

from dlrun import backends
from dlrun.jobs.submission.refusal import refusal_of
from dlrun.system.process import Completed

slurm = backends.scheduler("slurm")


def test_a_user_without_a_name_hears_the_usual_advice(monkeypatch):
    """In some containers a user has a number alone."""

    def nobody(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    said = "sbatch: error: Invalid account or account/partition combination specified"
    plan = SimpleNamespace(request=SimpleNamespace(account="projet"))
    error = refusal_of(slurm, Completed(returncode=1, stdout="", stderr=said), plan)
    assert "Invalid account" in error.message
    assert error.help == slurm.advice(said)
