"""Runs that Weights & Biases has recorded offline in the directories of a job, and that are not uploaded yet."""

from __future__ import annotations

from pathlib import Path

from dlrun.jobs.records.jobs import Job
from dlrun.render.shell import join


def command(job: Job) -> str | None:
    """The command that uploads them all, on a host with internet; None if there are none."""
    runs = _not_uploaded(job)
    return join(["wandb", "sync", *map(str, runs)]) if runs else None


def _not_uploaded(job: Job) -> list[Path]:
    """What `wandb sync` takes: directories with a file `run-ID.wandb`; beside it, `run-ID.wandb.synced` marks an uploaded one.

    Source: https://github.com/wandb/wandb/blob/main/wandb/sync/sync.py
    """
    every = (run for place in job.log_directories() for run in sorted(place.glob("wandb/offline-run-*")))
    return [run for run in every if any(run.glob("*.wandb")) and not any(run.glob("*.wandb.synced"))]
