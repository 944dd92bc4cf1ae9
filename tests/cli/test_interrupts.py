"""Ctrl-C, and the other signals that end a program, at any moment: one line, the exit code, nothing half done."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.test_broken_submissions import Login

START = (sys.executable, "-c", "from dlrun.cli.start import main; main()")
PREFIX = "interrupted\nended by SIGTERM\nthe terminal was closed"


@pytest.fixture
def login(tmp_path):
    return Login(tmp_path)


def begun(login, *words):
    return subprocess.Popen(
        [*START, *words], cwd=login.place, env=login.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def fair(process, number, out, err):
    """Either the command was through, or it was ended with one line and left nothing half done."""
    assert "Traceback" not in err, err
    assert "bug" not in err, err
    assert "Exception ignored" not in err, err
    if process.returncode in (0, -number):  # it was over, or Python itself had not begun
        return
    assert process.returncode == 128 + number, (process.returncode, out, err)
    lines = [line for line in err.splitlines() if line and not line.startswith(("warning", "kept"))]
    assert len(lines) <= 3, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "words", [("submit", "spec.yaml"), ("plan", "spec.yaml"), ("list",), ("--help",)], ids=lambda w: w[0]
)
def test_signal_at_some_moments(login, words, number):
    """Each moment from the first line of the program on; a longer campaign is a matter of `moments`."""
    chance = random.Random(f"{words}{number}")
    for _ in range(3):
        before = len(login.queue())
        process = begun(login, *words)
        time.sleep(0.06 + chance.random() * 0.5)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        fair(process, number, out, err)
        rows = login.listed()
        assert sum(row[1].isdigit() for row in rows) == len(login.queue())
        assert len(login.queue()) <= before + 1
        assert not list((login.place / "jobs").glob(".*.new")), "half a job directory"


def test_signal_that_a_library_swallows(login):
    """An import that makes another error of it is no bug of ours."""
    begin = (
        "import os, signal\n"
        "from dlrun.effects.inputs import spec\n"
        "def broken(*_, **__):\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException:\n        raise SystemError('an extension failed')\n"
        "spec.load_spec = broken\n"
        "from dlrun.cli.start import main; import sys; sys.argv = ['dlrun', 'plan', 'spec.yaml']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin],
        cwd=login.place,
        env=login.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
