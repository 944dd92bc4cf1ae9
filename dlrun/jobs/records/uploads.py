"""Runs that Weights & Biases has recorded offline in the directories of a job, and that are not uploaded yet."""

from __future__ import annotations

from pathlib import Path

from dlrun.jobs.records.jobs import Job
from dlrun.render.shell import join


def command(job: Job) -> str | None:
    """The command that uploads them all, on a host with internet; None if there are none."""
    found = _not_uploaded(job)
    return join(["wandb", "sync", *map(str, found)]) if found else None


def _not_uploaded(job: Job) -> list[Path]:
    """What `wandb sync` takes: directories with a file `run-ID.wandb`; beside it, `run-ID.wandb.synced` marks an uploaded one.

    Source: https://github.com/wandb/wandb/blob/main/wandb/sync/sync.py
    """
    every = (one for place in job.log_directories() for one in sorted(place.glob("wandb/offline-run-*")))
    return [one for one in every if any(one.glob("*.wandb")) and not any(one.glob("*.wandb.synced"))]
