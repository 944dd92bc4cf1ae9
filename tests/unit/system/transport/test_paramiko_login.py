"""Logging in by paramiko, against a server of paramiko's that wants one thing after the other."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import paramiko
import pytest

from dlrun.errors import AuthenticationFailed
from dlrun.system.transport import paramiko_login as login


class Server(paramiko.ServerInterface):
    """A server that wants these methods, in this order."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = list(wanted)
        self.seen: list[str] = []

    def get_allowed_auths(self, username):
        return self.wanted[0] if self.wanted else ""

    def _take(self, method, right):
        if not self.wanted or self.wanted[0] != method or not right:
            return paramiko.AUTH_FAILED
        self.seen.append(self.wanted.pop(0))
        return paramiko.AUTH_PARTIALLY_SUCCESSFUL if self.wanted else paramiko.AUTH_SUCCESSFUL

    def check_auth_none(self, username):
        return paramiko.AUTH_FAILED

    def check_auth_password(self, username, password):
        return self._take("password", password == "one")

    def check_auth_interactive(self, username, submethods):
        return paramiko.InteractiveQuery("", "", ("code: ", False))

    def check_auth_interactive_response(self, responses):
        return self._take("keyboard-interactive", responses == ["two"])


@pytest.fixture
def log_in(monkeypatch, tmp_path):
    """Log in to a server, with these answers to what is asked; the server afterwards."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    def run(server: Server, *answers: str) -> list[str]:
        here, there = socket.socketpair()
        other = paramiko.Transport(there)
        other.add_server_key(paramiko.RSAKey.generate(2048))
        other.start_server(event=threading.Event(), server=server)  # which it does not wait for
        transport = paramiko.Transport(here)
        asked: list[str] = []
        rest = list(answers)

        def answer(question=""):
            asked.append(question)
            return rest.pop(0)

        monkeypatch.setattr(login.getpass, "getpass", answer)
        target = login.Target(name="x", host="x", port=22, user="me", keys=(), known_hosts=(), known_as="x")
        try:
            transport.start_client(timeout=60)
            login._authenticate(transport, target, prompt=True)
            assert transport.is_authenticated()
        finally:
            transport.close()
            other.close()
        return asked

    return run


@pytest.mark.parametrize(
    ("wanted", "answers"),
    [
        (("password", "keyboard-interactive"), ("one", "two")),
        (("keyboard-interactive", "password"), ("two", "one")),
        (("keyboard-interactive",), ("two",)),
        (("password",), ("one",)),
    ],
)
def test_a_server_that_wants_one_after_the_other(log_in, wanted, answers):
    server = Server(*wanted)
    assert len(log_in(server, *answers)) == len(wanted)
    assert server.seen == list(wanted)


def test_a_wrong_answer_is_asked_for_once(log_in):
    server = Server("password", "keyboard-interactive")
    with pytest.raises(AuthenticationFailed, match="keyboard-interactive"):
        log_in(server, "one", "wrong")
    assert server.seen == ["password"]


def test_paramikos_own_warnings_are_not_printed():
    code = (
        "import logging, dlrun.system.transport.paramiko_login\n"
        "logging.getLogger('paramiko.transport').warning('Oops, unhandled type 3')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
