"""The three campaigns: each hurts a staging at a random call, then lets the next run repair it, and counts."""

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from .ground import Ground, kill

FAULTS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EROFS, errno.EACCES)
UNHARMED = ("fork", "stat", "fstat", "lstat", "read", "tick")
"""Calls that no disk refuses in this way, or that other parts of Python make as well."""

TRIES = 10
"""Runs for each hurt: after a change of a few files, a run makes fewer calls than the first, and may end before its hurt."""

HURTS = ("killed", "failed", "survived", "cut while copying", "cut after publishing")
"""The counts in a tally that are hurts."""

_SHUTDOWN = 0x8004587D  # linux: FS_IOC_SHUTDOWN (ext4, xfs, f2fs)
_NO_FLUSH = (2).to_bytes(4, "little")  # what is in memory is lost, the journal's part as well
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Wrong(AssertionError):
    """What must never be."""


def insist(so: bool, what: str) -> None:
    """Raise Wrong unless something is so."""
    if not so:
        raise Wrong(what)


class Campaign:
    """Repeats one kind of hurt on one ground; `tally` counts what came of it."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.random = ground, ground.random
        self.tally: Counter[str] = Counter()
        insist(all(o.status == 0 for o in ground.stage()), "the first run failed")
        self.most = [ground.calls(k) for k in range(ground.nodes)]

    def run(self, count: int) -> None:
        """So many hurts, and at last a run that must leave the newest version and nothing else."""
        for _ in range(TRIES * count):
            if self.hurts() == count:
                break
            self.ground.prepare()
            self.one()
        insist(self.hurts() == count, f"{self.hurts()} hurts of {count} in {TRIES * count} runs")
        self.repair()

    def hurts(self) -> int:
        """The hurts until now; a run that ended before its hurt came counts as none."""
        return sum(self.tally[name] for name in HURTS)

    def one(self) -> None:
        """One hurt."""
        raise NotImplementedError

    def whole(self, when: str) -> None:
        """Whatever is published is one whole version."""
        for number in range(self.ground.nodes):
            found = self.ground.published(number)
            insist(found is None or found in self.ground.expected, f"torn on node {number} {when}")
            for entry in self.ground.begun(number).items():
                known = any(entry in version.items() for version in self.ground.expected)
                insist(known, f"{entry[0]} appeared too early on node {number} {when}")

    def repair(self) -> None:
        """The next run brings the newest version to every node."""
        ended = self.ground.stage()
        for number, outcome in enumerate(ended):
            insist(outcome.status == 0, f"the next run failed on node {number}: {outcome.err}")
            insist(
                self.ground.published(number) == self.ground.expected[-1],
                f"wrong after the next run on node {number}",
            )
        insist(self.ground.left() == [], f"left behind: {self.ground.left()}")
        self.tally["repaired"] += 1


class Kills(Campaign):
    """kill -9 of one node's processes."""

    def one(self) -> None:
        ground = self.ground
        victim = self.random.randrange(ground.nodes)
        point = self.random.randint(1, self.most[victim])
        ended = ground.stage(lambda first, _: kill() if first else None, point, victim)
        when = f"killed node {victim} at call {point}"
        for number, outcome in enumerate(ended):
            insist("Traceback" not in outcome.err, f"{when}: {outcome.err}")
            hurt = number == victim
            # Another image of the same directory is not the same, so without the node that made it the others end, too.
            alone = not hurt and ground.made_by(victim) and "had made the image of" in outcome.err
            expected = -signal.SIGKILL if hurt else int(alone)
            insist(
                outcome.status in (0, expected),
                f"{when}: node {number} ended with {outcome.status}: {outcome.err}",
            )
            if outcome.status == 0:
                insist(
                    ground.published(number) == ground.expected[-1],
                    f"{when}: another version on node {number}",
                )
        self.tally["killed" if ended[victim].status else "ended before"] += 1
        self.whole(when)
        if self.random.random() < 0.3:
            self.repair()


class Faults(Campaign):
    """A system call that fails, once or from then on."""

    def one(self) -> None:
        ground = self.ground
        number, lasting = self.random.choice(FAULTS), self.random.random() < 0.5
        victim = self.random.randrange(ground.nodes)
        point = self.random.randint(1, self.most[victim])
        state = {"name": ""}

        def hurt(first: bool, name: str) -> None:
            if name in UNHARMED or state["name"] not in ("", name):
                return
            if not state["name"] or lasting:
                state["name"] = name
                raise OSError(number, os.strerror(number))

        if ground.url and self.random.random() < 0.4:  # the server's fault beside this node's
            ground.breaks(self.random.choice((1, 3, 1000)))
        ended = ground.stage(hurt, point, victim)
        if ground.url:
            ground.breaks(0)
        when = f"{errno.errorcode[number]} at call {point} of node {victim}"
        for one, outcome in enumerate(ended):
            insist("Traceback" not in outcome.err, f"{when}: {outcome.err}")
            insist(outcome.status in (0, 1), f"{when}: node {one} ended with {outcome.status}: {outcome.err}")
            if outcome.status == 0:
                insist(ground.published(one) == ground.expected[-1], f"{when}: another version on node {one}")
        self.tally["failed" if any(o.status for o in ended) else "survived"] += 1
        self.whole(when)
        self.repair()


class Disk:
    """An ext4 file system in a file, whose power can go; needs root and a mount namespace of its own."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place
        with image.open("wb") as file:
            file.truncate(256 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        place.mkdir()
        self.mount()

    def mount(self) -> None:
        """The power is there again."""
        subprocess.run(["mount", "-o", "loop", self.image, self.place], check=True)

    def unmount(self) -> None:
        """Unmount, once those that were killed are gone."""
        for _ in range(200):
            done = subprocess.run(["umount", self.place], check=False, stderr=subprocess.DEVNULL)
            if done.returncode == 0:
                return
            time.sleep(0.05)
        insist(False, "the file system stays busy")

    def cut(self) -> None:
        """The power goes, now."""
        descriptor = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(descriptor, _SHUTDOWN, _NO_FLUSH)
        os.close(descriptor)


class PowerCuts(Campaign):
    """The file system stops in the middle of everything, and what was in memory alone is gone.

    Needs root and a mount namespace of its own: `unshare --mount`.
    """

    def __init__(self, ground: Ground) -> None:
        self.boots = 1
        self.boot_id = ground.root / "boot-id"
        self.boot_id.write_text("boot 1\n")
        subprocess.run(["mount", "--bind", self.boot_id, BOOT_ID], check=True)
        self.disk = Disk(ground.root / "image", ground.disk)
        super().__init__(ground)

    def one(self) -> None:
        ground = self.ground
        keep = self.random.choice(["job", "cache"])
        ground.more = ["--keep", keep]
        point = self.random.randint(1, self.most[0])
        at_end = self.random.random() < 0.5

        def hurt(first: bool, _: str) -> None:
            if first:
                self.disk.cut()
                kill()

        ended = ground.stage(None if at_end else hurt, point)
        published = ended[0].status == 0
        if published:
            time.sleep(self.random.choice([0, 0, 0.2]))
            self.disk.cut()
        self.disk.unmount()
        self.boots += 1
        self.boot_id.write_text(f"boot {self.boots}\n")
        self.disk.mount()
        if published and keep == "cache":
            insist(ground.published() == ground.expected[-1], "a kept set was harmed by a power cut")
            self.tally["kept sets whole at once"] += 1
        self.tally["cut after publishing" if published else "cut while copying"] += 1
        self.repair()

    def close(self) -> None:
        """Unmount."""
        subprocess.run(["umount", self.ground.disk], check=False)
        subprocess.run(["umount", BOOT_ID], check=False)
        shutil.rmtree(self.ground.disk, ignore_errors=True)
