"""The system's OpenSSH: the user's own configuration, keys, jump hosts and Kerberos, and one connection shared.

Only the first connection may ask for a password or a second factor; everything after it goes through the
shared one in batch mode, so that a hidden question can never hang a command.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dlrun.effects.transport.child import Child
from dlrun.effects.transport.protocol import PATIENCE, Stream, TransportFailed
from dlrun.effects.transport.refusals import AGAIN, explain, last_line
from dlrun.errors import DlrunError, OperationFailed
from dlrun.model.text import visible

PERSIST = "30m"
"""How long a shared connection outlives its last use."""

_ANSWER_WITHIN = 300.0
"""Seconds that a person may take for a second factor."""

_SOCKET_NAME = 1 + 16 + 18
"""Bytes of a socket's name and its slash, with the ending that ssh adds while it makes the socket."""

_MOST = 104
"""Bytes that the path of a Unix socket may have, on every system."""


class OpenSshTransport:
    """Runs programs through `ssh`, sharing one connection with later commands of the same user."""

    def __init__(self, host: str, *, prompt: bool) -> None:
        self.host = host
        self._prompt = prompt
        self._options: list[str] | None = None

    def start(self, command: str, *, patience: float = PATIENCE) -> Stream:
        """Start a command of the login shell."""
        argv = ["ssh", "-oBatchMode=yes", *self._connected(), "--", self.host, command]
        return Child(argv, host=self.host, patience=patience, failure=self._failure)

    def close(self) -> None:
        """The shared connection stays, for the next command."""

    def _failure(self, code: int, said: str) -> DlrunError | None:
        # 255 is also ssh's exit code for a command that a signal ended: nothing more is known then either.
        return explain(self.host, said, asked=False) if code == 255 else None

    def _connected(self) -> Sequence[str]:
        """The options of every command, once there is a connection."""
        if self._options is None:
            said = _configuration(self.host)
            own = ["-T", *_necessary(said)]
            if not _is_shared(self.host, own):  # the user's own shared connection is the best one
                own += ["-oControlMaster=auto", f"-oControlPersist={PERSIST}"]
                own.append(f"-oControlPath={socket_directory()}/{_socket_name(self.host, said)}")
                if not _is_shared(self.host, own):
                    self._connect(own, said.get("proxyjump", "none"))
            self._options = own
        return self._options

    def _connect(self, options: Sequence[str], jumps: str) -> None:
        """Make the shared connection, with the user's help where that is possible."""
        with tempfile.NamedTemporaryFile() as errors:  # ssh itself would drop the messages of its jump hosts
            batch = "no" if self._prompt else "yes"
            proxy = (
                []
                if jumps == "none"
                else [f"-oProxyCommand={_through(jumps.split(','), batch, errors.name)}"]
            )
            argv = ["ssh", f"-oBatchMode={batch}", *options, *proxy, "--", self.host, "true"]
            code, answer = _with_terminal(argv, self.host) if self._prompt else _without_terminal(argv)
            said = f"{errors.read().decode(errors='replace')}\n{answer}"
        if code == 255:
            raise explain(self.host, said, asked=self._prompt)
        if code != 0:
            words = last_line(said) or f"exit code {code}"
            raise OperationFailed(f"`{self.host}` runs no commands for you: {words}")


def socket_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """A directory for the sockets of shared connections that other users cannot enter.

    Where somebody else has taken its known name, it is one with a random name, noted in the user's state directory.
    """
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    short = len(os.fsencode(runtime)) + len("/dlrun") + _SOCKET_NAME <= _MOST
    usable = runtime.is_absolute() and runtime.is_dir() and os.access(runtime, os.W_OK)
    place = runtime / "dlrun" if short and usable else Path(f"/tmp/dlrun-{os.getuid()}")  # noqa: S108
    if _is_mine(place):
        return place
    state = environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111
    note = Path(state) / "dlrun" / "ssh-sockets"
    with suppress(OSError, ValueError):
        noted = Path(note.read_text(encoding="utf-8").strip())
        if noted.is_absolute() and noted.is_dir() and _is_mine(noted):
            return noted
    place = Path(tempfile.mkdtemp(prefix="dlrun-", dir="/tmp"))
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{place}\n", encoding="utf-8")
    return place


def _is_mine(place: Path) -> bool:
    """Whether it is a directory that is the user's alone; made if nothing has its name."""
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        seen = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077


def _configuration(host: str) -> dict[str, str]:
    """The user's configuration for a host; raises OperationFailed if ssh cannot read it."""
    done = subprocess.run(["ssh", "-G", "--", host], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise OperationFailed(f"ssh rejects `{host}`: {last_line(done.stderr)}")
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {key: value for key, _, value in lines}


def _necessary(said: Mapping[str, str]) -> list[str]:
    """Options without which a command could hang, be somebody else's, or clash with an open session."""
    options = ["-oClearAllForwardings=yes", "-oForwardAgent=no", "-oForwardX11=no"]
    if said.get("remotecommand", "none") != "none":
        options.append("-oRemoteCommand=none")
    if said.get("serveraliveinterval", "0") == "0":
        options += ["-oServerAliveInterval=15", "-oServerAliveCountMax=3"]
    if said.get("connecttimeout", "none") in ("none", "0"):
        options.append("-oConnectTimeout=20")
    if said.get("stricthostkeychecking") in ("false", "no", "off"):  # would let a changed key pass
        options.append("-oStrictHostKeyChecking=accept-new")
    return options


def _socket_name(host: str, said: Mapping[str, str]) -> str:
    """A short name for a connection: another way to the same machine is another connection."""
    ways = ("hostname", "port", "user", "proxyjump", "proxycommand", "hostkeyalias")
    text = "\0".join([host, *(said.get(key, "") for key in ways)])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _through(hops: Sequence[str], batch: str, errors: str) -> str:
    """A command that leads through jump hosts; what goes wrong there is written to the file `errors`.

    In batch mode they are asked nothing either: to their questions ssh would answer nothing, three times.
    Ctrl-C ends the command that was running, not the connection that later ones share.
    """
    *before, last = hops
    proxy = f"-oProxyCommand={_through(before, batch, errors).replace('%', '%%')}" if before else ""
    uri = last if last.startswith("ssh://") else f"ssh://{last}"
    words = ["ssh", f"-oBatchMode={batch}", *([proxy] if proxy else []), "-W", "[%h]:%p", uri]
    return shlex.join(
        ["/bin/sh", "-c", f"trap '' INT QUIT HUP; exec {shlex.join(words)} 2>>{shlex.quote(errors)}"]
    )


def _is_shared(host: str, options: Sequence[str]) -> bool:
    """True if there is a live shared connection for these options."""
    argv = ["ssh", *options, "-Ocheck", "--", host]
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _without_terminal(argv: Sequence[str]) -> tuple[int, str]:
    """Run ssh without prompts: exit code and output."""
    with tempfile.TemporaryFile() as errors:  # not a pipe: the connection that stays behind may keep it open
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = 255
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(0)
        return code, errors.read().decode(errors="replace")


def _with_terminal(argv: Sequence[str], host: str) -> tuple[int, str]:
    """Run ssh with the user's terminal; what it prints there is shown, and kept to explain a failure."""
    process = subprocess.Popen(
        list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said: list[str] = []

    def show() -> None:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        with process.stderr as pipe:
            while data := os.read(pipe.fileno(), 4096):
                said.append(data.decode(errors="replace"))
                sys.stderr.write(visible(said[-1], keep="\r\n\t"))
                sys.stderr.flush()

    reader = threading.Thread(target=show, daemon=True)
    reader.start()
    try:
        code = process.wait(_ANSWER_WITHIN)
    except subprocess.TimeoutExpired:
        raise TransportFailed(f"`{host}` waited {_ANSWER_WITHIN:g} s for an answer", help=AGAIN) from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    # Not for ever: the connection that stays behind may hold the pipe open. Where none does, this has the reason.
    reader.join(0.5 if code == 0 else 10.0)
    return code, "".join(said)
