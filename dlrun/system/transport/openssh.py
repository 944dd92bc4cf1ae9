"""Transport over the system's OpenSSH, with the user's configuration, keys, jump hosts and Kerberos.

Only the first connection may request a password or second factor; all commands use it as a shared connection
(ControlMaster) in batch mode, so that a hidden prompt cannot block a command.
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

from dlrun.errors import DlrunError, OperationFailed
from dlrun.model.text import visible
from dlrun.system import private
from dlrun.system.process import not_started
from dlrun.system.transport.child import Child
from dlrun.system.transport.connection_errors import RETRY, explain, last_line
from dlrun.system.transport.protocol import TIMEOUT, Ended, Stream, TransportFailed
from dlrun.system.writing import replace

PERSIST = "30m"
"""Lifetime of an unused shared connection (ControlPersist)."""

_PROMPT_TIMEOUT = 300.0
"""Seconds for the user's answer to prompts, such as a second factor."""

_SOCKET_NAME = 1 + 16 + 18
"""Bytes of `/` and a socket's name, with the suffix of ssh's temporary name."""

_MOST = 104
"""Maximum bytes of a Unix socket's path on all systems (unix(7): 108 on Linux, 104 on BSD)."""


class OpenSshTransport:
    """Runs programs through `ssh`, over a connection shared with later commands."""

    def __init__(self, host: str, *, prompt: bool) -> None:
        self.host = host
        self._prompt = prompt
        self._options: list[str] | None = None

    def start(self, command: str, *, timeout: float = TIMEOUT) -> Stream:
        """Start a command in the login shell."""
        argv = ["ssh", "-oBatchMode=yes", *self._connected(), "--", self.host, command]
        return Child(argv, host=self.host, timeout=timeout, failure=self._failure)

    def words(self, command: str, *, terminal: bool) -> list[str]:
        """The arguments that run a command with this process's standard streams; terminal: it gets one there."""
        # After the options of all commands: the last of -T and -t counts.
        asked = ("-t", "-t") if terminal else ()
        return ["ssh", "-oBatchMode=yes", *self._connected(), *asked, "--", self.host, command]

    def close(self) -> None:
        """Nothing to close: the shared connection stays for later commands."""

    def _failure(self, code: int, message: str) -> DlrunError | None:
        # 255 is also ssh's exit code for a command ended by a signal, about which nothing is known either.
        return explain(self.host, message, asked=False) if code == 255 else None

    def _connected(self) -> Sequence[str]:
        """Connect, if needed, and return the ssh options of all commands."""
        if self._options is None:
            configuration = _configuration(self.host)
            # -T: a pseudo-terminal would change line ends of binary data.
            own = ["-T", *_necessary(configuration)]
            if not _is_shared(self.host, own):  # prefer a live shared connection of the user's configuration
                own += _sharing(self.host, configuration)
                if not _is_shared(self.host, own):
                    self._connect(own, configuration.get("proxyjump", "none"))
            self._options = own
        return self._options

    def _connect(self, options: Sequence[str], jumps: str) -> None:
        """Open the shared connection, with prompts if possible; raises TransportFailed, AuthenticationFailed."""
        with tempfile.NamedTemporaryFile() as errors:  # ssh itself drops its jump hosts' messages
            batch = "no" if self._prompt else "yes"
            proxy = (
                []
                if jumps == "none"
                else [f"-oProxyCommand={_through(jumps.split(','), batch, errors.name)}"]
            )
            argv = ["ssh", f"-oBatchMode={batch}", *options, *proxy, "--", self.host, "true"]
            ended = _with_terminal(argv, self.host) if self._prompt else _without_terminal(argv)
            message = b"\n".join((errors.read(), ended.errors)).decode(errors="replace")
        if ended.code == 255:
            raise explain(self.host, message, asked=self._prompt)
        if ended.code != 0:
            reason = last_line(message) or f"exit code {ended.code}"
            raise OperationFailed(f"cannot run commands on `{self.host}`: {reason}")


def _sharing(host: str, configuration: Mapping[str, str]) -> list[str]:
    """The options of a connection that later commands share; without a directory for its socket each has its own."""
    directory = socket_directory()
    if directory is None:
        return ["-oControlMaster=no"]
    path = f"-oControlPath={directory}/{_socket_name(host, configuration)}"
    return ["-oControlMaster=auto", f"-oControlPersist={PERSIST}", path]


def socket_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """A private directory for the sockets of shared connections; None if there is none.

    If another user has created its usual name, a random name is used and recorded in the user's state directory.
    """
    runtime = Path(environment.get("XDG_RUNTIME_DIR", ""))
    short = len(os.fsencode(runtime)) + len("/dlrun") + _SOCKET_NAME <= _MOST
    usable = short and runtime.is_absolute() and os.access(runtime, os.W_OK)
    place = runtime / "dlrun" if usable else Path(f"/tmp/dlrun-{os.getuid()}")  # noqa: S108
    if _is_mine(place):
        return place
    # /tmp is shared: another user may have created the known name to deny it.
    state = private.state_directory(environment)
    note = None if state is None else state / "ssh-sockets"
    with suppress(OSError, ValueError):
        noted = Path(note.read_text(encoding="utf-8").strip() if note is not None else "")
        if noted.is_absolute() and noted.is_dir() and _is_mine(noted):
            return noted
    try:
        place = Path(tempfile.mkdtemp(prefix="dlrun-", dir="/tmp"))
    except OSError:
        return None
    if note is not None:
        with suppress(OSError):
            replace(note, f"{place}\n")
    return place


def _is_mine(place: Path) -> bool:
    """Whether a path is a directory that only this user can enter and change; created if missing."""
    return private.fault(place) is None and stat.S_IMODE(place.lstat().st_mode) == 0o700


def _configuration(host: str) -> dict[str, str]:
    """The user's configuration for a host; raises OperationFailed if ssh cannot read it, or cannot be started."""
    argv = ["ssh", "-G", "--", host]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except OSError as error:
        fault = not_started("ssh", error)
        raise OperationFailed(f"no connection to `{host}`: {fault}", help=fault.help) from None
    except subprocess.TimeoutExpired:
        raise OperationFailed(
            f"`{shlex.join(argv)}` has not ended within 30 s",
            help="it prints ssh's configuration, and must do so in this shell",
        ) from None
    if done.returncode != 0:
        raise OperationFailed(f"ssh rejects `{host}`: {last_line(done.stderr)}")
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {key: value for key, _, value in lines}


def _necessary(configuration: Mapping[str, str]) -> list[str]:
    """Options that prevent hanging commands, forwarded agents and ports, and silently changed host keys."""
    options = ["-oClearAllForwardings=yes", "-oForwardAgent=no", "-oForwardX11=no"]
    if configuration.get("remotecommand", "none") != "none":
        options.append("-oRemoteCommand=none")
    if configuration.get("serveraliveinterval", "0") == "0":
        options += ["-oServerAliveInterval=15", "-oServerAliveCountMax=3"]
    if configuration.get("connecttimeout", "none") in ("none", "0"):
        options.append("-oConnectTimeout=20")
    if configuration.get("stricthostkeychecking") in ("false", "no", "off"):  # would accept a changed key
        options.append("-oStrictHostKeyChecking=accept-new")
    return options


def _socket_name(host: str, configuration: Mapping[str, str]) -> str:
    """A short name for a connection, different for other routes to the same host."""
    ways = ("hostname", "port", "user", "proxyjump", "proxycommand", "hostkeyalias")
    text = "\0".join([host, *(configuration.get(key, "") for key in ways)])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _through(hops: Sequence[str], batch: str, errors: str) -> str:
    """A ProxyCommand through jump hosts, with their errors in the file `errors`.

    Batch mode applies to them, too: ssh would else answer their prompts with nothing, three times. Ctrl-C ends the running
    command, not the shared connection.
    """
    *before, last = hops
    proxy = f"-oProxyCommand={_through(before, batch, errors).replace('%', '%%')}" if before else ""
    uri = last if last.startswith("ssh://") else f"ssh://{last}"
    words = ["ssh", f"-oBatchMode={batch}", *([proxy] if proxy else []), "-W", "[%h]:%p", uri]
    return shlex.join(
        ["/bin/sh", "-c", f"trap '' INT QUIT HUP; exec {shlex.join(words)} 2>>{shlex.quote(errors)}"]
    )


def _is_shared(host: str, options: Sequence[str]) -> bool:
    """Whether there is a live shared connection for these options."""
    argv = ["ssh", *options, "-Ocheck", "--", host]
    try:
        done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=10)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _without_terminal(argv: Sequence[str]) -> Ended:
    """Run ssh without prompts."""
    with tempfile.TemporaryFile() as errors:  # not a pipe, which the background connection may keep open
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            code = 255
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(0)
        return Ended(code, errors.read())


def _with_terminal(argv: Sequence[str], host: str) -> Ended:
    """Run ssh with the user's terminal; its messages are shown, too."""
    process = subprocess.Popen(
        list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    parts: list[bytes] = []

    def show() -> None:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        with process.stderr as pipe:
            while data := os.read(pipe.fileno(), 4096):
                parts.append(data)
                sys.stderr.write(visible(data.decode(errors="replace"), keep="\r\n\t"))
                sys.stderr.flush()

    reader = threading.Thread(target=show, daemon=True)
    reader.start()
    try:
        code = process.wait(_PROMPT_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise TransportFailed(f"`{host}` waited {_PROMPT_TIMEOUT:g} s for an answer", help=RETRY) from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    # With a time limit: a background connection may keep the pipe open. After a failure there is none, and the pipe has
    # the reason.
    reader.join(0.5 if code == 0 else 10.0)
    return Ended(code, b"".join(parts))
