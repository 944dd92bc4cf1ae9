"""Ctrl-C, and the other signals that end a program, at any moment: one line, the exit code, nothing half done."""

from __future__ import annotations

import itertools
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.test_broken_submissions import Login
from tests.examples import cases

START = (sys.executable, "-c", "from dlrun.cli.start import main; main()")
BEGUN = re.compile(r'File "\S+/dlrun/(?!(cli/)?__init__\.py|cli/(start|signals)\.py", line \d+, in <module>)')
"""Code of dlrun's in a traceback, but for what it takes to come to the lines that set the handlers."""
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
    assert "Exception ignored" not in err, err
    if number == signal.SIGINT and "Traceback" in err and not BEGUN.search(err):
        return  # Python itself had not begun; what interrupts a `.pth` file it prints, and goes on
    assert "Traceback" not in err, err
    assert "bug" not in err, err
    if process.returncode in (0, -number):  # it was over, or had not begun
        return
    assert process.returncode == 128 + number, (process.returncode, out, err)
    lines = [line for line in err.splitlines() if line and not line.startswith(("warning", "kept"))]
    assert len(lines) <= 3, err


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
COMMANDS = [("submit", "spec.yaml"), ("plan", "spec.yaml"), ("list",), ("--help",)]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "number"), cases(itertools.product(COMMANDS, SIGNALS), quick=2))
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


@pytest.mark.parametrize(
    "start", ["from dlrun.cli.start import main", "import runpy; runpy.run_module('dlrun')"]
)
def test_the_handlers_are_there_before_anything_is_imported(login, start):
    """Until then a Ctrl-C leaves a traceback, of whatever Python is just reading."""
    begin = (
        "import runpy, sys, _signal\n"
        "before, plain = {*sys.modules}, _signal.signal\n"
        "def set_it(*words):\n"
        "    print(*sorted({*sys.modules} - before))\n    sys.exit()\n"
        f"_signal.signal = set_it\n{start}"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin], env=login.env, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert {*done.stdout.split()} - {"dlrun.__main__"} == {
        "dlrun",
        "dlrun.cli",
        "dlrun.terminal",
        "dlrun.terminal.signals",
        "dlrun.cli.start",
    }


def test_signal_before_the_handlers_are_there(login):
    begin = (
        "import os, _signal as signal\n"
        "plain = signal.getsignal\n"
        "def cut(one):\n"
        "    signal.getsignal = plain\n    os.kill(os.getpid(), signal.SIGINT)\n    return plain(one)\n"
        "signal.getsignal = cut\n"
        "from dlrun.cli.start import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin], env=login.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_signal_that_a_library_swallows(login):
    """An import that makes another error of it is no bug of ours."""
    begin = (
        "import os, signal\n"
        "from dlrun.system.inputs import spec\n"
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
