"""A job's script below its broker on Flux: one stream of output, and where the broker is killed, the script ends Flux's job."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.library import BASH, LIBRARY, link

JOB = """\
set -euo pipefail
source {library}/job.sh
dlrun_source flux
_dlrun_begin_clock
_dlrun_flux_start
_dlrun_arm
echo "a set-up line fails" >&2
: >"$DLRUN_RUN_DIR/ready"
until [[ -e $DLRUN_RUN_DIR/lost ]]; do sleep 0.05; done
exit 1 # as when `flux run` has lost its connection
"""
FLUX = """\
#!/bin/bash
case $* in
"getattr parent-uri") echo local:///parent ;;
"getattr rank") [[ -e $DLRUN_RUN_DIR/answers ]] ;;
"overlay status"*) if [[ -e $DLRUN_RUN_DIR/parted ]]; then echo partial; else echo full; fi ;;
"job wait-event"*) [[ -e $DLRUN_RUN_DIR/finished ]] ;;
*) printf '%s ' "$FLUX_URI" "$@" >>"$DLRUN_RUN_DIR/asked" ;;
esac
"""
"""Stands in for the client: the broker answers, or does not."""


@pytest.fixture
def broker(tmp_path: Path):
    """A process with the name of the broker, and the script of a job as its child; nobody waits for it."""
    for directory in ("failures", "ended", "logs", "bin"):
        (tmp_path / directory).mkdir()
    link(tmp_path)
    (tmp_path / "job.sh").write_text(JOB.format(library=LIBRARY))
    (tmp_path / "bin/flux").write_text(FLUX)
    (tmp_path / "bin/flux").chmod(0o755)
    (tmp_path / "bin/flux-broker").symlink_to(shutil.which(BASH) or BASH)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    given = {"PATH": path, "_dlrun_path": path, "DLRUN_JOB_DIR": tmp_path, "DLRUN_RUN_DIR": tmp_path, "DLRUN_JOB_ID": "fX",
             "DLRUN_RUN_ID": "fX.0", "DLRUN_RESTART": 0, "DLRUN_HOSTS": tmp_path / "hosts", "_dlrun_host": "n1"}  # fmt: skip
    words = [str(tmp_path / "bin/flux-broker"), "-c", f"{BASH} {tmp_path}/job.sh & wait; :"]
    (tmp_path / "answers").touch()
    (tmp_path / "hosts").write_text("n1\nn2\n")
    with (tmp_path / "log").open("wb") as log, (tmp_path / "errors").open("wb") as errors:
        started = subprocess.Popen(
            words, env={name: str(value) for name, value in given.items()}, stdout=log, stderr=errors
        )
    await_file(tmp_path / "ready", tmp_path)
    yield started
    (tmp_path / "lost").touch()  # the script ends, where no test has ended it, and then its broker
    started.wait(60)


def await_file(path: Path, place: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, (path, (place / "log").read_text())
        time.sleep(0.05)


@pytest.mark.usefixtures("broker")
def test_output_and_errors_are_one_stream(tmp_path):
    """Flux delivers two of them, and an error may come before a line that was written earlier."""
    assert (tmp_path / "log").read_text() == "a set-up line fails\n"
    assert (tmp_path / "errors").read_text() == ""


def test_a_killed_broker_that_flux_has_not_seen_yet(broker, tmp_path):
    """Its parent has not waited for it, so it is still among the processes."""
    broker.kill()
    (tmp_path / "answers").unlink()
    (tmp_path / "lost").touch()
    await_file(tmp_path / "asked", tmp_path)
    assert (tmp_path / "asked").read_text().startswith("local:///parent job raise --type=exec --severity=0 ")
    assert Path(f"/proc/{broker.pid}").exists()


def test_a_broker_that_is_about_to_go(broker, tmp_path):
    """It has closed its sockets, by which the script ended, and is gone only then."""
    (tmp_path / "answers").unlink()
    (tmp_path / "lost").touch()
    time.sleep(0.3)
    broker.kill()
    await_file(tmp_path / "asked", tmp_path)


def test_a_broker_that_answers(broker, tmp_path):
    (tmp_path / "lost").touch()
    broker.wait(60)
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("finished", [False, True])
def test_nodes_that_lost_their_connection_keep_no_job(broker, tmp_path, finished):
    """The first node's broker has left, those without a connection to it have not."""
    (tmp_path / "parted").touch()
    if finished:
        (tmp_path / "finished").touch()
    (tmp_path / "lost").touch()
    broker.wait(60)
    if finished:
        time.sleep(1)
        assert not (tmp_path / "asked").exists()
    else:
        await_file(tmp_path / "asked", tmp_path)
        assert (
            (tmp_path / "asked").read_text().startswith("local:///parent job raise --type=exec --severity=0 ")
        )
