"""What ssh's last words mean."""

from __future__ import annotations

import pytest

from dlrun.errors import AuthenticationFailed
from dlrun.system.transport.connection_errors import explain
from dlrun.system.transport.protocol import TransportFailed

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/ada/.ssh/known_hosts:7
Host key for login has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (
            CHANGED,
            AuthenticationFailed,
            "the host key of `login` has changed (/home/ada/.ssh/known_hosts line 7)",
        ),
        (
            "No ED25519 host key is known for login.\nHost key verification failed.\n",
            AuthenticationFailed,
            "the host key of `login` is not known here",
        ),
        (
            "ada@login: Permission denied (publickey,keyboard-interactive).\n",
            AuthenticationFailed,
            "`login` refused the login: ada@login: Permission denied (publickey,keyboard-interactive)",
        ),
        (
            "ada@gate: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535\n",
            AuthenticationFailed,
            "`login` refused the login: ada@gate: Permission denied (publickey)",
        ),
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\n",
            AuthenticationFailed,
            "`login` refused the login",
        ),
        (
            "ssh: Could not resolve hostname logni: Name or service not known\n",
            TransportFailed,
            "there is no host `login`",
        ),
        ("ssh: connect to host login port 22: Connection refused\n", TransportFailed, "Connection refused"),
        ("", TransportFailed, "no connection to `login`: it was closed"),
        ("dlrun-37e2e0b052622975\n", TransportFailed, "no connection to `login`: it was closed"),
        (
            "Permission denied to nobody\ndlrun-37e2e0b0",
            TransportFailed,
            "no connection to `login`: it was closed",
        ),
        (
            "hello\ndlrun-37e2e0b052622975\nclient_loop: send disconnect: Broken pipe\n",
            TransportFailed,
            "`login`: client_loop: send",
        ),
    ],
)
def test_kind_and_words(said, kind, words):
    error = explain("login", said, asked=False)
    assert type(error) is kind
    assert words in error.message
    assert error.help


def test_advice_depends_on_whether_there_was_somebody_to_ask():
    said = "Permission denied (keyboard-interactive).\n"
    assert "in a terminal" in (explain("login", said, asked=False).help or "")
    assert "in a terminal" not in (explain("login", said, asked=True).help or "")
