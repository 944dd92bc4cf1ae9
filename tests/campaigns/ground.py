"""A source that changes and the nodes that stage it, in processes where any system call can be made to go wrong.

What is published is read by name with code of its own (files, `tarfile` or `unsquashfs`), never with that which wrote it.
"""

import hashlib
import mmap
import os
import random
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from dlrun.node import __main__ as node

from tests.ports import free_port

COUNTED = (
    "open", "write", "pwrite", "pread", "readv", "read", "rename", "mkdir", "unlink", "rmdir", "utime", "chmod", "fchmod",
    "ftruncate", "link", "symlink", "listdir", "stat", "fstat", "lstat", "fsync", "fork",
)  # fmt: skip
SHAPES = (
    "copy", "pack", "shard", "slow", "early", "part", "web", "s3", "chain", "chain-early", "chain-pack", "chain-web",
    "archive", "archive-web", "archive-s3", "archive-pack", "chain-archive-pack", "image", "chain-image",
)  # fmt: skip
ARCHIVE = "set.tar.gz"
"""Beside the files that are its content."""
ROOM = 300_000
"""Bytes of what a part may take on a node: about half of the small files."""
TICK = 0.01
"""Seconds between points in time at which a node that waits for a server may be killed."""
_NUMBER = struct.Struct("q")
Content = dict[str, tuple[str, str, int]]


def tree(root: Path) -> Content:
    """The content of a directory by path: kind, hash or target, mode."""
    found: Content = {}
    for directory, below, files in os.walk(root):
        for name in [*below, *files]:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, root)] = ("link", os.readlink(path), 0)
            elif stat.S_ISDIR(status.st_mode):
                found[os.path.relpath(path, root)] = ("directory", "", stat.S_IMODE(status.st_mode))
            else:
                digest = hashlib.md5(Path(path).read_bytes()).hexdigest()
                found[os.path.relpath(path, root)] = ("file", digest, stat.S_IMODE(status.st_mode))
    return found


def packed(path: Path) -> Content:
    """The content of a tar file, which its index must name as well."""
    found: Content = {}
    index = {}
    for record in Path(f"{path}.index").read_bytes().split(b"\0")[:-1]:
        offset, size, name = record.split(b" ", 2)
        index[os.fsdecode(name)] = (int(offset), int(size))
    with tarfile.open(path, errorlevel=2) as archive, open(path, "rb") as raw:
        for member in archive:
            if member.issym():
                found[member.name] = ("link", member.linkname, 0)
            elif member.isdir():
                found[member.name.rstrip("/")] = ("directory", "", member.mode)
            else:
                data = archive.extractfile(member).read()
                raw.seek(index[member.name][0])
                assert raw.read(index[member.name][1]) == data, f"the index of {member.name} is wrong"
                found[member.name] = ("file", hashlib.md5(data).hexdigest(), member.mode)
    return found


def imaged(path: Path) -> Content:
    """The content of a SquashFS image."""
    with tempfile.TemporaryDirectory(prefix="dlrun-campaign-") as directory:
        words = ["unsquashfs", "-no-progress", "-dest", f"{directory}/tree", path]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return tree(Path(directory) / "tree")


class Outcome:
    """How a node's program ended: exit status, negative for a kill, and what it wrote to stderr."""

    def __init__(self, status: int, err: str) -> None:
        self.status, self.err = status, err


class Ground:
    """One source with its versions, and the nodes (three in a chain, else one) that stage it in one shape."""

    def __init__(self, root: Path, seed: int, shape: str, disk: Path | None = None) -> None:
        self.root, self.shape, self.random = root, shape, random.Random(f"{seed} {shape}")
        self.source, self.disk = root / "source", disk or root
        self.nodes = 3 if shape.startswith("chain") else 1
        self.url, self.server = "", None  # type: str, Optional[subprocess.Popen[str]]
        self.counters = mmap.mmap(-1, _NUMBER.size * self.nodes)
        self.version, self.expected = 0, []  # type: int, List[Content]
        self.more: list[str] = []
        for number in range(30):
            self._write(f"d{number % 3}/f{number}", self.random.randbytes(number * 1000))
        self._write("large", self.random.randbytes(5 << 20))
        os.symlink("large", self.source / "link")
        (root / "hosts").write_text("".join(f"127.0.0.{k + 1}\n" for k in range(self.nodes)))
        (root / "secret").write_bytes(b"0123456789abcdef" * 2)
        (root / "secret").chmod(0o600)
        if shape.endswith(("web", "s3")):
            self._serve()
        self.change()

    def _serve(self) -> None:
        """The source is at a web server, or in a bucket for which this host has a client."""
        program = Path(__file__).with_name("server.py")
        words = [sys.executable, "-S", program, "serve", self.source]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        with self.server.stdout as told:
            port = told.readline().strip()
        self.url = f"http://127.0.0.1:{port}/{self._file()}"
        if self.shape.endswith("s3"):
            self.url = "s3://bucket/source" + ("/" + ARCHIVE if "archive" in self.shape else "")
        client = self.root / "bin" / "s5cmd"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec {sys.executable} -S {program} "$@"\n')
        client.chmod(0o755)
        self.settings = {
            "PATH": f"{client.parent}:{os.environ['PATH']}", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "no_proxy": "127.0.0.1",
        }  # fmt: skip

    def _file(self) -> str:
        """The source, if it is one file."""
        return ARCHIVE if "archive" in self.shape else "large"

    def made_by(self, number: int) -> bool:
        """Whether the set can come only from this node."""
        return self.shape == "chain-image" and number == 0

    def breaks(self, answers: int) -> None:
        """So many of the server's next answers break off half-way."""
        Path(f"{self.source}.breaks").write_text(str(answers))

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()

    def _write(self, name: str, data: bytes) -> None:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def change(self) -> None:
        """A new version of the source: a file changed, one rewritten with its old time, one more, one fewer."""
        self.version += 1
        self._write("d0/changing", b"version %d" % self.version)
        if self.shape.endswith("web"):
            self._write("large", self.random.randbytes(5 << 20))
        self._write(f"d1/new{self.version}", self.random.randbytes(3000))
        if self.version > 2:
            (self.source / f"d1/new{self.version - 2}").unlink()
        if self.random.random() < 0.5:
            sly = self.source / "d2/f29"
            times = sly.stat().st_mtime_ns
            sly.write_bytes(self.random.randbytes(29000))
            os.utime(sly, ns=(times, times))
        if "archive" in self.shape:
            (self.source / ARCHIVE).unlink(missing_ok=True)
            with tarfile.open(self.root / ARCHIVE, "w:gz", compresslevel=1) as packed:
                packed.add(self.source, ".")
            os.rename(self.root / ARCHIVE, self.source / ARCHIVE)
        self.expected.append(self._expected())

    def _expected(self) -> Content:
        found = tree(self.source)
        if "archive" in self.shape:
            return {path: entry for path, entry in found.items() if path != ARCHIVE}
        if self.shape.endswith("web"):
            return {"large": found["large"]}
        if self.shape == "s3":  # a bucket has files alone
            return {path: entry for path, entry in found.items() if entry[0] != "link"}
        if self.shape not in ("shard", "part"):
            return found
        reference = (
            self.root / "reference"
        )  # which files are in a shard or part is not for this code to know; their content is
        shutil.rmtree(reference, ignore_errors=True)
        assert self.run([self.words(0, to=reference)])[0].status == 0
        mine = tree(reference / "set" / "data")
        if self.shape == "part":
            links = {path: ("link", str(self.source / path), 0) for path in found}
            away = {path for path, entry in mine.items() if entry == links[path]}
            assert mine.keys() == found.keys(), "a part has other names than the source"
            assert 5 < len(away) < len(mine) - 5, (
                f"a part with {len(away)} of {len(mine)} names elsewhere proves little"
            )
            assert all(found[path][0] == "file" for path in away), "what is no file is elsewhere"
            found = {path: links[path] if path in away else entry for path, entry in found.items()}
        assert mine.items() <= found.items(), "a shard or part holds what the source does not"
        return mine

    def place(self, number: int) -> Path:
        """A node's staging directory."""
        return self.disk / f"node{number}"

    def words(self, number: int, to: Path | None = None) -> list[str]:
        """The arguments of a node's program."""
        source = self.source / ARCHIVE if "archive" in self.shape else self.source
        words = ["stage", "--source", self.url or source, "--to", to or self.place(number), "--name", "set",
                 "--workers", "2", "--recheck", "all", "--lock-timeout", "60s", *self.more]  # fmt: skip
        if "archive" in self.shape:
            words += ["--unpack"]
        if self.shape.endswith(("pack", "image")):
            words += ["--strategy", self.shape.rpartition("-")[2]]
        if self.shape == "shard":
            words += ["--strategy", "shard", "--shard", "1/3"]
        if self.shape == "part":
            words += ["--strategy", "part", "--room", ROOM]
        if self.shape.endswith("early"):
            words += ["--job", "campaign", "--start", "30%"]
        if self.shape == "slow":
            words += ["--rate", "40M"]
        if self.nodes > 1:
            words += ["--hosts", self.root / "hosts", "--index", number, "--port", self.port, "--secret", self.root / "secret",
                      "--dead-after", "4s", "--join-timeout", "4s"]  # fmt: skip
        return [str(word) for word in words]

    def stage(
        self, hurt: "Callable[[], None] | None" = None, point: int = 0, victim: int = 0
    ) -> list[Outcome]:
        """Stage on all nodes; at the victim's call `point`, `hurt` is called in its process."""
        if self.nodes > 1:
            self.port = free_port()
        return self.run([self.words(k) for k in range(self.nodes)], hurt, point, victim)

    def run(
        self,
        commands: list[list[str]],
        hurt: "Callable[[], None] | None" = None,
        point: int = 0,
        victim: int = 0,
    ) -> list[Outcome]:
        """Run commands of the node program at the same time, each in a process group of its own."""
        self.counters[:] = bytes(len(self.counters))
        children = [
            self._fork(k, words, hurt if k == victim else None, point) for k, words in enumerate(commands)
        ]
        found = []
        for number, child in enumerate(children):
            _, status = os.waitpid(child, 0)
            err = (self.root / f"err{number}").read_text(errors="replace")
            found.append(
                Outcome(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), err)
            )
        return found

    def _fork(self, number: int, words: list[str], hurt: "Callable[[], None] | None", point: int) -> int:
        child = os.fork()
        if child:
            return child
        status = 1
        try:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(os.open(self.root / f"err{number}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            os.dup2(0, 1)
            for name in COUNTED:
                setattr(os, name, self._counting(getattr(os, name), number, hurt, point))
            if self.url:
                os.environ.update(self.settings)
                readinto = socket.SocketIO.readinto
                socket.SocketIO.readinto = self._counting(readinto, number, hurt, point)  # type: ignore[method-assign]
                signal.signal(signal.SIGALRM, self._counting(tick, number, hurt, point))
                signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
            status = node.main(words)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)

    def _counting(self, real, number, hurt, point):
        place = slice(_NUMBER.size * number, _NUMBER.size * (number + 1))

        def call(*arguments, **options):
            count = (
                _NUMBER.unpack(self.counters[place])[0] + 1
            )  # a call lost between two processes is no matter
            self.counters[place] = _NUMBER.pack(count)
            if hurt is not None and count >= point:
                hurt(count == point, real.__name__)
            return real(*arguments, **options)

        return call

    def calls(self, number: int = 0) -> int:
        """The calls that a node's processes made in the last run."""
        return int(_NUMBER.unpack_from(self.counters, _NUMBER.size * number)[0])

    def published(self, number: int = 0) -> Content | None:
        """What stands under the set's name on a node now."""
        data = self.place(number) / "set" / "data"
        if not (self.place(number) / "set").exists():
            return None
        if "image" in self.shape:
            return imaged(data / "set.squashfs")
        return packed(data / "set.tar") if "pack" in self.shape else tree(data)

    def begun(self, number: int = 0) -> Content:
        """What a training that began early sees on a node now: files and links."""
        seen = tree(self.place(number) / ".early-campaign" / "set" / "data")
        return {path: entry for path, entry in seen.items() if entry[0] != "directory"}

    def prepare(self) -> None:
        """Now and then a new version, or a node that has lost the set."""
        if self.random.random() < 0.25:
            self.change()
        for number in range(self.nodes):
            if self.random.random() < 0.15:
                shutil.rmtree(self.place(number) / "set", ignore_errors=True)

    def left(self) -> list[str]:
        """What is half-done on any node."""
        return [
            name for number in range(self.nodes) for name in os.listdir(self.place(number) / ".dlrun")
            if name.startswith(("part.", "trash.", "fetch.", "unpack.", "image."))
        ]  # fmt: skip


def tick(*_signal: object) -> None:
    """A point in time, counted as calls are."""


def kill() -> None:
    """End this process and all that it started, at once."""
    os.killpg(0, signal.SIGKILL)
