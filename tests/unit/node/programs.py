"""Run a node program as a batch job does: another process, its output and status."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def environment():
    """The environment in which `python3 -m dlrun.node` finds this checkout."""
    return dict(os.environ, PYTHONPATH=str(ROOT))


def command(*arguments):
    """The argument list of a node program."""
    return [sys.executable, "-m", "dlrun.node", *map(str, arguments)]


class Result:
    """What a node program said and its exit status."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def events(self):
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def done(self):
        """The last JSON line, which must say that the set is there."""
        assert self.status == 0, self.err
        last = self.events()[-1]
        assert last["event"] == "done"
        return last


def run(*arguments, **options):
    """Run a node program to its end."""
    found = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
        **options,
    )
    assert "Traceback" not in found.stderr, found.stderr
    return Result(found.returncode, found.stdout, found.stderr)


def start(*arguments):
    """Start a node program in a process group of its own."""
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
