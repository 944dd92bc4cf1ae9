"""kill -9 at random system calls of a copy, over and over on one staging directory: nothing torn is ever published.

    python -m tests.unit.node.kills --count 1000 --seed 1

A point is a number of calls that change or read files, counted over all processes of the copy, so that the points
do not depend on how fast the machine is. Between kills the source changes now and then, so that new versions
replace published ones.
"""

import argparse
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
from pathlib import Path

from dlrun.node import __main__ as node

from .trees import snapshot, write

COUNTED = (
    "open", "write", "pwrite", "readv", "rename", "mkdir", "unlink", "rmdir", "utime", "chmod", "fchmod", "ftruncate",
    "link", "symlink", "fork",
)  # fmt: skip
_NUMBER = struct.Struct("q")


class Campaign:
    """One staging directory and its source, killed again and again; `problems` are what must never be."""

    def __init__(self, root: Path, seed: int) -> None:
        self.source, self.local, self.random = root / "source", root / "local", random.Random(seed)
        self.counter = mmap.mmap(-1, _NUMBER.size)
        self.version = 0
        self.versions = []
        self.kills = self.ends = 0
        for number in range(30):
            write(os.fsencode(self.source / f"d{number % 3}" / f"f{number}"), os.urandom(number * 1000))
        write(os.fsencode(self.source / "large"), os.urandom(5 << 20))
        os.symlink("large", self.source / "link")
        self.change()

    def change(self) -> None:
        """A new version of the source: a file changed, one more, one fewer."""
        self.version += 1
        write(os.fsencode(self.source / "d0" / "changing"), b"version %d" % self.version)
        write(os.fsencode(self.source / "d1" / f"new{self.version}"), os.urandom(3000))
        if self.version > 2:
            os.unlink(self.source / "d1" / f"new{self.version - 2}")
        self.versions.append(snapshot(self.source))

    def stage(self, point: int) -> int:
        """Stage, and be killed at a call; the exit status, negative for the kill, and the calls are in `counter`."""
        self.counter[:] = _NUMBER.pack(0)
        child = os.fork()
        if child == 0:
            os.setsid()
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            self._count_calls(point)
            status = 1
            try:
                status = node.main(
                    ["stage", "--source", str(self.source), "--to", str(self.local), "--name", "set", "--workers", "2",
                     "--recheck", "all", "--lock-timeout", "60s"]
                )  # fmt: skip
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def _count_calls(self, point: int) -> None:
        for name in COUNTED:
            setattr(os, name, self._counting(getattr(os, name), point))

    def _counting(self, real, point):
        def call(*arguments, **options):
            count = _NUMBER.unpack(self.counter[:])[0] + 1  # a call lost between two processes is no matter
            self.counter[:] = _NUMBER.pack(count)
            if count == point:
                os.killpg(0, signal.SIGKILL)
            return real(*arguments, **options)

        return call

    def published(self) -> "dict | None":
        """What stands under the set's name now."""
        data = self.local / "set" / "data"
        return snapshot(data) if (self.local / "set").exists() else None

    def one(self, most: int) -> None:
        """Stage once with a kill at a random point; AssertionError when what is published is no whole version."""
        if self.random.random() < 0.2:
            self.change()
        if self.random.random() < 0.1:
            shutil.rmtree(self.local / "set", ignore_errors=True)
        point = self.random.randint(1, most)
        status = self.stage(point)
        assert status in (0, -signal.SIGKILL), f"exit status {status} at call {point}"
        found = self.published()
        self.kills += status != 0
        self.ends += status == 0
        if status == 0:
            assert found == self.versions[-1], f"another version than the source's, at call {point}"
        else:
            assert found is None or found in self.versions, f"torn at call {point}"

    def run(self, count: int) -> None:
        """So many kills or ends, and at last a run that must bring the newest version."""
        assert self.stage(0) == 0
        most = _NUMBER.unpack(self.counter[:])[0]
        shutil.rmtree(self.local / "set")
        for _ in range(count):
            self.one(most)
        assert self.stage(0) == 0
        assert self.published() == self.versions[-1]
        left = [name for name in os.listdir(self.local / ".dlrun") if name.startswith(("part.", "trash."))]
        assert left == [], "the last run leaves nothing half-done behind"


def main() -> None:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        campaign = Campaign(Path(root), given.seed)
        campaign.run(given.count)
    sys.stdout.write(
        f"{campaign.kills} kills, {campaign.ends} runs to the end, {campaign.version} versions: nothing torn\n"
    )


if __name__ == "__main__":
    main()
