"""The errors that dlrun reports to users, each with its exit code.

A message is lower case and has no full stop; `help` is the correction or the command to run next.
"""

from __future__ import annotations

TO_CHECK = 5
"""Exit code of a command whose result the user has to check: `dlrun init --from`."""


class DlrunError(Exception):
    """A failure with a message for the user; never shown as a traceback.

    `exit_code` is the exit code of the process (see `dlrun help exit-codes`).
    """

    exit_code = 1

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


class OperationFailed(DlrunError):
    """A scheduler, a copy, a check or a command failed."""

    exit_code = 1


class Invalid(DlrunError):
    """The spec, site profile or command line is invalid; nothing was done."""

    exit_code = 2


class AuthenticationFailed(DlrunError):
    """Authentication at a login node failed."""

    exit_code = 4


class Interrupted(DlrunError):
    """A signal such as Ctrl-C ended the command; `help` explains what is kept and how to resume."""

    exit_code = 130

    def __init__(self, message: str, *, help: str | None = None, signal: int = 2) -> None:
        super().__init__(message, help=help)
        self.exit_code = 128 + signal
