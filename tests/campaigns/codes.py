"""Power cuts and full disks while code is stored, and after it: no start of a job lays out a mixed tree.

The job's start is the shell library's own; what it has laid out is read by code of this file.
"""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.code import store
from dlrun.jobs.code.choose import Chosen

from .runs import Disk, insist

ROOT = Path(__file__).parents[2]
START = """
dlrun_log() { printf '%s\\n' "$*"; }
_dlrun_give_up() { dlrun_log "$*"; exit 9; }
_dlrun_on_event() { :; }
export DLRUN_JOB_DIR=$1 DLRUN_RUN_DIR=$1
set -euo pipefail
source "$2/code.sh"
source "$2/snapshot.sh"
dlrun_use_snapshot "$3"
"""
CALLS = ("open", "os.", "shutil.")
"""The begins of events that touch a file."""


class CodePowerCuts:
    """A source that changes, and jobs that store it, on a disk whose power goes, or that is full, at a random call."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random, self.tally = random.Random(seed), Counter()  # type: random.Random, Counter[str]
        self.source = root / "source"
        self.disk = Disk(root / "image", root / "disk")
        self.most = 400
        self.versions: dict[str, dict[str, str]] = {}
        for number in range(20):
            self._write(f"d{number % 3}/f{number}.py", number)
        (self.source / "link").symlink_to("d0/f0.py")

    def _write(self, name: str, number: int) -> None:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.random.randbytes(100 + 700 * number))

    def run(self, count: int) -> None:
        """So many cuts."""
        for number in range(count):
            self.one(self.disk.place / f"job{number}")

    def one(self, job: Path) -> None:
        """A submission, a cut or a full disk within or after it, a start of each job, and the next submission."""
        if self.random.random() < 0.7:
            self._write(f"d1/f{self.random.choice((1, 4, 7))}.py", 4)
        if self.random.random() < 0.3:
            (self.disk.place / "store" / "size").unlink(missing_ok=True)
        full, point = self.random.random() < 0.2, self.random.choice((0, self.random.randint(1, self.most)))
        filler = self.disk.place / "filler"
        if full:
            self._fill(filler)
        status = self._submit(job, 0 if full else point)
        if full:
            filler.unlink()
            self.tally["refused on a full disk" if status else "stored on a full disk"] += 1
        else:
            if status == 0:
                self._commit()
                self.disk.cut()
            self.disk.unmount()
            self.disk.mount()
            self.tally["cut after storing" if status == 0 else "cut while storing"] += 1
        jobs = sorted(self.disk.place.glob("job*"))
        for one in jobs:
            self._start(one)
            shutil.rmtree(one)
        insist(self._submit(job, 0) == 0, "the next submission failed")
        insist(self._start(job), "the next submission stored no whole version")
        if self.random.random() < 0.3:
            shutil.rmtree(job)
            store.use(self.disk.place / "store", prune=True)

    def _commit(self) -> None:
        """Often another program has flushed a file of its own: then the names of files are on the disk, and not their content."""
        if self.random.random() < 0.7:
            with (self.disk.place / "other").open("w") as file:
                file.write("x")
                file.flush()
                os.fsync(file.fileno())

    def _fill(self, filler: Path) -> None:
        size = 0
        with filler.open("wb") as file:
            for step in (16 << 20, 1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), size, step)
                        size += step
            file.truncate(size - self.random.choice((0, 4, 20, 60)) * 1024)

    def _submit(self, job: Path, point: int) -> int:
        """Store the source for a job, in a process whose power goes at its call `point`; 0 if it was stored."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        left = [point]

        def count(event: str, _: object) -> None:
            if event.startswith(CALLS):
                left[0] -= 1
                if left[0] == 0:
                    self._commit()
                    self.disk.cut()
                    os._exit(7)

        sys.addaudithook(count)
        try:
            self._store(job)
        except OperationFailed:
            os._exit(1)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(2)
        os._exit(0)

    def _store(self, job: Path) -> None:
        paths = [path for path in self.source.rglob("*") if path.is_file() and not path.is_symlink()]
        chosen = Chosen(
            root=self.source,
            repository=None,
            files={str(path.relative_to(self.source)): path.lstat() for path in paths},
            links={"link": "d0/f0.py"},
        )
        with store.locked(self.disk.place / "store"):
            version = store.add(self.disk.place / "store", chosen)
            (job / "code").mkdir(parents=True)
            os.link(version.list, job / "code" / "snapshot.sha256")
            with (job / "code" / "snapshot").open("w") as file:
                file.write(f"{version.tree}\n.\n")
                if (
                    self.random.random() < 0.5
                ):  # the file system may have written this one, and not the others
                    file.flush()
                    os.fsync(file.fileno())

    def _start(self, job: Path) -> bool:
        """Start a job; whether it got as far as its program, which then has one whole version."""
        library = ROOT / "templates" / "lib"
        words = ["bash", "-c", START, "start", job, library, self.source]
        done = subprocess.run(words, cwd=job, capture_output=True, text=True, check=False)
        insist(done.returncode in (0, 9), f"a start ended with {done.returncode}: {done.stdout}{done.stderr}")
        if done.returncode:
            insist("code: snapshot: " in done.stdout, f"a start gave no reason: {done.stdout}{done.stderr}")
            self.tally["starts that were refused"] += 1
            return False
        work = job / "work"
        found = {
            str(path.relative_to(work)): sha256(path.read_bytes()).hexdigest()
            for path in work.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        tree = (job / "code" / "snapshot").read_text().splitlines()[0]
        known = self.versions.setdefault(tree, found)
        insist(found == known and (work / "link").is_symlink(), f"{job.name} runs a mixed tree")
        insist(sha256(_listed(found, work)).hexdigest() == Path(tree).name, f"{job.name} runs a mixed tree")
        self.tally["starts of whole versions"] += 1
        return True

    def close(self) -> None:
        """Unmount."""
        subprocess.run(["umount", "--lazy", self.disk.place], check=False)


def _listed(found: dict[str, str], work: Path) -> bytes:
    """The list that such a tree has, whose digest is the version's name."""
    lines = [f'# link ["link", "{(work / "link").readlink()}"]']
    return "".join(
        f"{line}\n" for line in (*lines, *(f"{found[name]}  {name}" for name in sorted(found)))
    ).encode()
