"""The scheduler itself: `spool submit SCRIPT`, `spool status ID…`, `spool cancel ID…`; jobs run on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PREFIX = "#SPOOL "


def main() -> int:
    """One of its three commands."""
    command, *rest = sys.argv[1:]
    return {"submit": submit, "status": status, "cancel": cancel, "run": run}[command](rest)


def submit(words: list[str]) -> int:
    """Start a script behind this process and print the job's id."""
    spool = Path(os.environ["SPOOL_DIR"])
    number = len(list(spool.glob("*.json"))) + 1
    record(number, state="RUNNING")
    subprocess.Popen(
        [sys.argv[0], "run", str(number), words[0]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(f"spooled {number}")
    return 0


def run(words: list[str]) -> int:
    """Run a script with what its directives ask for, and note how it ends."""
    number, script = int(words[0]), words[1]
    lines = Path(script).read_text(encoding="utf-8").splitlines()
    asked = dict(line.removeprefix(PREFIX).split("=", 1) for line in lines if line.startswith(PREFIX))
    record(number, state="RUNNING", pid=os.getpid())
    limit = int(asked.get("seconds", "0")) or None
    with Path(asked["output"]).open("ab") as log:
        job = subprocess.Popen(
            ["bash", script], stdout=log, stderr=log, env={**os.environ, "SPOOL_JOB_ID": str(number)}
        )
        try:
            code = job.wait(limit)
        except subprocess.TimeoutExpired:
            job.kill()
            code = job.wait()
    record(number, state="DONE", code=code)
    return 0


def status(words: list[str]) -> int:
    """`ID STATE [CODE]` for each."""
    for number in words:
        known = json.loads((Path(os.environ["SPOOL_DIR"]) / f"{number}.json").read_text("utf-8"))
        print(number, known["state"], known.get("code", ""))
    return 0


def cancel(words: list[str]) -> int:
    """End each with all that it started."""
    for number in words:
        path = Path(os.environ["SPOOL_DIR"]) / f"{number}.json"
        while "pid" not in (known := json.loads(path.read_text("utf-8"))):
            time.sleep(0.05)
        os.killpg(known["pid"], signal.SIGTERM)
        record(int(number), state="CANCELLED")
    return 0


def record(number: int, **known: object) -> None:
    """Write down what is known of a job, whole or not at all."""
    path = Path(os.environ["SPOOL_DIR"]) / f"{number}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(known), encoding="utf-8")
    new.rename(path)
