"""Log in with paramiko: ssh's configuration, strict host keys, the user's keys, then prompts on a terminal."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from dlrun.errors import Invalid
from dlrun.model.text import digits
from dlrun.system import paths
from dlrun.system.transport import connection_errors
from dlrun.system.transport.protocol import TransportFailed

# Without a handler Python prints paramiko's warnings ("Oops, unhandled type 3") into a command's output.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_CONFIGURATIONS = ("~/.ssh/config", "/etc/ssh/ssh_config")
_GLOBAL_KEYS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_METHODS = ("publickey", "keyboard-interactive", "password")
"""Authentication methods in the order of the attempts, each once if the server allows it."""
_RSA = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
"""Signature algorithms of RSA host keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host with its ssh configuration."""

    name: str
    host: str
    port: int
    user: str
    keys: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    known_as: str
    """Its name in known_hosts."""
    jumps: tuple[str, ...] = ()
    proxy: str | None = None
    timeout: float = 20.0
    alive: tuple[int, int] = (15, 3)


@dataclass(slots=True, kw_only=True)
class Connection:
    """A live connection, and those to its jump hosts."""

    transport: paramiko.Transport
    through: list[paramiko.Transport] = field(default_factory=list)

    def close(self) -> None:
        """Close it, then the jump hosts' connections."""
        for transport in (self.transport, *reversed(self.through)):
            transport.close()


def connect(name: str, *, prompt: bool) -> Connection:
    """Log in to a host, through its jump hosts; raises TransportFailed or AuthenticationFailed."""
    configuration = _configuration()
    target = look_up(name, configuration)
    hops = [*(look_up(jump, configuration) for jump in target.jumps), target]
    open_: list[paramiko.Transport] = []
    try:
        for hop in hops:
            stream = _through(open_[-1], hop) if open_ else _reach(hop)
            open_.append(_log_in(hop, stream, prompt=prompt))
    except BaseException:
        for transport in reversed(open_):
            transport.close()
        raise
    return Connection(transport=open_.pop(), through=open_)


def look_up(name: str, configuration: paramiko.SSHConfig) -> Target:
    """The target of `[user@]name[:port]`, with the user's ssh configuration."""
    user, _, rest = name.rpartition("@")
    alias, port = rest, ""
    if rest.count(":") == 1:
        alias, _, port = rest.partition(":")
    configured = configuration.lookup(alias)
    home = (paths.home() or paths.NO_HOME) / ".ssh"
    identity_files = [paths.expanded(p) for p in configured.get("identityfile", ())]
    jumps = configured.get("proxyjump", "none")
    proxy = configured.get("proxycommand", "none")
    known = configured.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    host, number = configured.get("hostname", alias), _number(port or configured.get("port", "22"), name)
    return Target(
        name=name,
        host=host,
        port=number,
        user=user or configured.get("user") or getpass.getuser(),
        keys=tuple(identity_files) or tuple(home / key for key in _DEFAULT_KEYS),
        known_hosts=tuple(paths.expanded(p) for p in (*known.split(), *_GLOBAL_KEYS)),
        known_as=configured.get("hostkeyalias", host if number == 22 else f"[{host}]:{number}"),
        jumps=() if jumps == "none" else tuple(jump.strip() for jump in jumps.split(",")),
        proxy=None if proxy == "none" else proxy,
        timeout=float(_number(configured.get("connecttimeout", "20"), name)),
        alive=(
            _number(configured.get("serveraliveinterval", "0"), name) or 15,
            _number(configured.get("serveralivecountmax", "3"), name),
        ),
    )


def _number(text: str, name: str) -> int:
    """A number of a host's name or of the configuration."""
    if not digits(text) or len(text) > 9:
        raise Invalid(
            f"`{text}` is not a number, which the connection to `{name}` needs", help="see `~/.ssh/config`"
        )
    return int(text)


def _configuration() -> paramiko.SSHConfig:
    text = ""
    for name in _CONFIGURATIONS:
        path = paths.expanded(name)
        if path.is_file():
            text += path.read_text(encoding="utf-8", errors="replace") + "\nMatch all\n"
    return paramiko.SSHConfig.from_text(text)


def _reach(target: Target) -> socket.socket | paramiko.ProxyCommand:
    """Connect to a host directly or with its ProxyCommand."""
    if target.proxy is not None:
        return paramiko.ProxyCommand(target.proxy)
    try:
        wire = socket.create_connection((target.host, target.port), target.timeout)
    except socket.gaierror as error:
        raise TransportFailed(
            f"there is no host `{target.name}`: {error.strerror}", help="name the login node as ssh knows it"
        ) from None
    except OSError as error:
        raise connection_errors.lost(target.name, error.strerror or str(error)) from None
    wire.settimeout(None)
    # Like ServerAliveInterval × ServerAliveCountMax of ssh: the kernel ends a connection whose data is not acknowledged.
    interval, count = target.alive
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, interval * count * 1000)
    return wire


def _through(jump: paramiko.Transport, target: Target) -> paramiko.Channel:
    """Connect to a host through its jump host."""
    try:
        return jump.open_channel(
            "direct-tcpip", (target.host, target.port), ("127.0.0.1", 0), timeout=target.timeout
        )
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise connection_errors.lost(target.name, str(error)) from None


def _log_in(
    target: Target, stream: socket.socket | paramiko.Channel | paramiko.ProxyCommand, *, prompt: bool
) -> paramiko.Transport:
    known = _known_keys(target)
    transport = paramiko.Transport(stream)
    try:
        if known:
            # Request a type of host key that is in known_hosts: the server may have keys of several types.
            options = transport.get_security_options()
            kinds = [k for key in known for k in (_RSA if key.get_name() == "ssh-rsa" else (key.get_name(),))]
            options.key_types = [k for k in options.key_types if k in kinds]
        transport.set_keepalive(target.alive[0])
        transport.start_client(timeout=target.timeout)
        _check_key(target, transport.get_remote_server_key(), known)
        _authenticate(transport, target, prompt=prompt)
    except (paramiko.SSHException, OSError, EOFError) as error:
        transport.close()
        if isinstance(error, paramiko.ssh_exception.IncompatiblePeer) and known:
            raise connection_errors.key_changed(target.name, None) from None
        raise connection_errors.lost(target.name, str(error)) from None
    except BaseException:
        transport.close()
        raise
    return transport


def _known_keys(target: Target) -> list[paramiko.PKey]:
    keys = paramiko.HostKeys()
    for path in target.known_hosts:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        for line in lines:
            # Like ssh, skip lines that cannot be parsed.
            with suppress(paramiko.SSHException, InvalidHostKey):
                if entry := HostKeyEntry.from_line(line.strip()):
                    for name in entry.hostnames or ():
                        keys.add(name, entry.key.get_name(), entry.key)
    known = keys.lookup(target.known_as)
    return list(known.values()) if known else []


def _check_key(target: Target, key: paramiko.PKey, known: Sequence[paramiko.PKey]) -> None:
    if not known:
        raise connection_errors.key_unknown(target.name)
    if key not in known:
        raise connection_errors.key_changed(target.name, None)


def _authenticate(transport: paramiko.Transport, target: Target, *, prompt: bool) -> None:
    """Authenticate with keys first, then with prompts, as long as the server requires further methods."""
    wanted = list(_METHODS)
    try:
        transport.auth_none(target.user)
    except paramiko.BadAuthenticationType as answer:
        wanted = answer.allowed_types
    tried: list[str] = []
    while not transport.is_authenticated():
        method = next(
            (candidate for candidate in _METHODS if candidate in wanted and candidate not in tried), None
        )
        if method is None:
            raise connection_errors.denied(target.name, f"it requires {' or '.join(wanted)}", asked=prompt)
        tried.append(method)
        wanted = _answer(transport, target, method, prompt=prompt) or wanted


def _answer(transport: paramiko.Transport, target: Target, method: str, *, prompt: bool) -> list[str]:
    """Try one method; returns the methods still required, empty if it was refused (or done)."""
    if method == "publickey":
        return _try_keys(transport, target, prompt=prompt)
    if not prompt:
        raise connection_errors.denied(target.name, f"it asks for {method}", asked=False)
    with suppress(paramiko.AuthenticationException):
        if method == "password":
            password = getpass.getpass(f"password of {target.user} on {target.host}: ")
            return list(transport.auth_password(target.user, password, fallback=False))
        return list(transport.auth_interactive(target.user, _ask))
    return []


def _try_keys(transport: paramiko.Transport, target: Target, *, prompt: bool) -> list[str]:
    """Offer keys until one is accepted; returns the methods still required, empty if none was accepted (or done)."""
    for key in _keys(target, prompt=prompt):
        with suppress(paramiko.AuthenticationException):
            return list(transport.auth_publickey(target.user, key))
    return []


def _keys(target: Target, *, prompt: bool) -> Iterator[paramiko.PKey]:
    """The agent's keys, then those of files."""
    yield from paramiko.Agent().get_keys()
    for path in target.keys:
        if path.is_file() and (key := _read_key(path, None, prompt=prompt)):
            yield key


def _read_key(path: Path, passphrase: str | None, *, prompt: bool) -> paramiko.PKey | None:
    """A private key; None if paramiko cannot use it or its passphrase cannot be requested."""
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key_file(str(path), passphrase)
        except paramiko.PasswordRequiredException:
            if not prompt or passphrase is not None:
                return None
            return _read_key(path, getpass.getpass(f"passphrase of {path}: "), prompt=prompt)
        except (paramiko.SSHException, ValueError, OSError):
            continue
    return None


def _ask(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
    """Answer the server's prompts (keyboard-interactive) on the terminal."""
    preamble = "\n".join(text for text in (title, instructions) if text)
    answers = []
    for question, echo in prompts:
        shown = f"{preamble}\n{question}" if preamble else question
        answers.append(input(shown) if echo else getpass.getpass(shown))
        preamble = ""
    return answers
