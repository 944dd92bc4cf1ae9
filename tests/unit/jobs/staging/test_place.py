"""Where data is staged on this machine is where a job on it looks."""

from __future__ import annotations

import subprocess

import pytest

from dlrun.jobs.staging.plan import expanded
from dlrun.model.text import Shell, Text


@pytest.mark.parametrize("user", [None, "somebody"])
def test_the_directory_is_that_of_a_job_whatever_user_says(monkeypatch, user):
    monkeypatch.delenv("USER", raising=False)
    if user:
        monkeypatch.setenv("USER", user)
    in_a_job = subprocess.run(
        ["bash", "-c", r"user='\u'; printf %s ${user@P}"], capture_output=True, text=True, check=True
    ).stdout
    assert expanded(Text.of("/local/dlrun-", Shell("$DLRUN_USER"))) == f"/local/dlrun-{in_a_job}"
