"""dlrun in a fork of this process: with streams, surroundings and ends that a shell can give it, in milliseconds."""

from __future__ import annotations

import io
import mmap
import os
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlrun.cli.main import main


@dataclass(frozen=True)
class Ended:
    """How a run ended: the exit code, or minus the number of the signal; what it printed; seconds; seconds of CPU."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    cpu: float


def run(
    words: list[str],
    place: Path,
    variables: dict[str, str | None] | None = None,
    *,
    before: Callable[[], None] = lambda: None,
    seconds: float = 120.0,
) -> Ended:
    """Run dlrun in a directory; variables: changes of the environment; before: called in the child, with its streams in place.

    A child that has not ended after `seconds` is killed.
    """
    begun = time.monotonic()
    # Pipes: a limit of a file's size does not apply to them.
    pipes = [os.pipe() for _ in range(2)]
    child = os.fork()
    if child == 0:
        _become(words, place, variables or {}, pipes[0][1], pipes[1][1], before)
    texts = ["", ""]

    def read(index: int) -> None:
        with os.fdopen(pipes[index][0], encoding="utf-8", errors="replace") as stream:
            texts[index] = stream.read()

    readers = [threading.Thread(target=read, args=(index,), daemon=True) for index in (0, 1)]
    for (_, write), reader in zip(pipes, readers, strict=True):
        os.close(write)
        reader.start()
    code, cpu = _waited(child, begun + seconds)
    for reader in readers:
        reader.join(seconds)
    return Ended(code, *texts, time.monotonic() - begun, cpu)


def _waited(child: int, deadline: float) -> tuple[int, float]:
    pause = 0.001
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.05, 2 * pause)


def _become(
    words: list[str],
    place: Path,
    variables: dict[str, str | None],
    out: int,
    errors: int,
    before: Callable[[], None],
) -> None:
    code = 99
    try:
        warnings.simplefilter("ignore")  # which pytest makes errors
        # Limits of a child would leave half a file beside dlrun's own (https://github.com/python/cpython/issues/126606).
        sys.dont_write_bytecode = True
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (errors, 2)):
            os.dup2(source, target)
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        os.chdir(place)
        before()
        # As Python does when it starts; it has no object for a descriptor that is closed.
        sys.stdin, sys.stdout, sys.stderr = (_stream(number) for number in (0, 1, 2))
        main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        code = _flushed(code)
    except BaseException:  # noqa: BLE001 - it is for the parent to see
        os.write(errors, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _stream(number: int) -> io.TextIOWrapper | None:
    try:
        os.fstat(number)
    except OSError:
        return None
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    if number == 0:
        return io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        "utf-8",
        "strict" if number == 1 else "backslashreplace",
        line_buffering=number == 2,
    )


def _flushed(code: int) -> int:
    """The exit code after the last flush, whose failure Python reports at its end with 120."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        return 120
    return code


class Steps:
    """Counts the events of the file system and of programs that Python reports (PEP 578) in a child, and kills it at one."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def done(self) -> int:
        """The events of the last child."""
        return int.from_bytes(self._shared[:], "little")

    def until(self, last: int | None) -> Callable[[], None]:
        """Kill the child at its event of that number; None: only count."""

        def install() -> None:
            seen = 0

            def count(event: str, _: tuple[object, ...]) -> None:
                nonlocal seen
                if event == "open" or event.startswith(("os.", "shutil.", "subprocess.")):
                    seen += 1
                    self._shared[:] = seen.to_bytes(8, "little")
                    if seen == last:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)

        return install


def with_space(size: int) -> Callable[[], None]:
    """Let no file grow beyond `size` bytes, which ends a write in its middle as a full disk does (setrlimit(2))."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    return limit


def killed_at(call: str, then: Callable[[], None]) -> None:
    """Run a function in a child that is killed at its first call of the operating system with this name."""
    child = os.fork()
    if child == 0:
        sys.addaudithook(lambda event, _: os.kill(os.getpid(), signal.SIGKILL) if event == call else None)
        with suppress(BaseException):
            then()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
