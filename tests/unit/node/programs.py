"""Run a node program as a batch job does: another process, its output and status."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("DLRUN_NODE_PYTHON") or sys.executable
"""The interpreter of the node programs: these tests run once with each that a node may have (`test_pythons.py`)."""


def environment():
    """The environment in which `python3 -m dlrun.node` finds this checkout."""
    return dict(os.environ, PYTHONPATH=str(ROOT))


def command(*arguments):
    """The argument list of a node program."""
    return [PYTHON, "-m", "dlrun.node", *map(str, arguments)]


HELD_READER = """
import os, time
from dlrun.node.transfer.read_blocks import BlockReaders
real = BlockReaders._read_block
def held(self, number, *arguments):
    while number > 1 and not os.path.exists({gate!r}):
        time.sleep(0.01)
    return real(self, number, *arguments)
BlockReaders._read_block = held
"""
# By number, not by count: at a source that is slow, or looks slow on a loaded machine, threads read in any order.

HELD_DISK = """
import os, time
from dlrun.node.blocks.writer import Writer, Written
def held(real):
    def write(self, block, view):
        while not os.path.exists({gate!r}):
            time.sleep(0.01)
        return real(self, block, view)
    return write
Writer.write, Written.write = held(Writer.write), held(Written.write)
"""  # nothing is written before the gate is open


NO_SPARE = """
from dlrun.node.store import space
space.SPARE = 0
"""  # strategy `part` without the share of the disk that is left to others: the machine's own disk may be fuller than that


def prepared(words, prelude):
    """The command of a node program that runs some Python before it in its process."""
    if not prelude:
        return words
    begin = prelude + "\nimport sys; from dlrun.node.__main__ import main; sys.exit(main(sys.argv[1:]))"
    return [PYTHON, "-c", begin, *words[3:]]


def staging(source, to, name="set"):
    """The words that stage a source below a directory, by default as the set `set`."""
    return ("stage", "--source", source, "--to", to, "--name", name)


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


def start_held(gate, *arguments, prelude=""):
    """Start a node program that reads the first two blocks, and the rest once the file `gate` is there."""
    return start(*arguments, prelude=prelude + HELD_READER.format(gate=str(gate)))


def run(*arguments, prelude=None, **options):
    """Run a node program to its end; `prelude` is Python that runs before it."""
    found = subprocess.run(
        prepared(command(*arguments), prelude),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
        **options,
    )
    assert "Traceback" not in found.stderr, found.stderr
    return Result(found.returncode, found.stdout, found.stderr)


def start(*arguments, prelude=None):
    """Start a node program in a process group of its own; `prelude` is Python that runs before it."""
    return subprocess.Popen(
        prepared(command(*arguments), prelude),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
