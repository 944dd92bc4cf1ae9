"""The errors that dlrun reports to users, each with its exit code.

A message is lower case and has no full stop; `help` is the way to correct it or the command to run next.
"""

from __future__ import annotations


class DlrunError(Exception):
    """A failure with a message for the user; never shown as a traceback.

    `exit_code` is what the process ends with (see `dlrun help exit-codes`).
    """

    exit_code = 1

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


class OperationFailed(DlrunError):
    """The outside world refused: a scheduler, a copy, a check, a command."""

    exit_code = 1


class Invalid(DlrunError):
    """What the user wrote (spec, profile, flag) is not valid; nothing was done."""

    exit_code = 2


class AuthenticationFailed(DlrunError):
    """A login node would not let us in."""

    exit_code = 4


class Interrupted(DlrunError):
    """The user asked to end what ran, by Ctrl-C; `help` is what is kept and how to resume."""

    exit_code = 130

    def __init__(self, message: str, *, help: str | None = None, signal: int = 2) -> None:
        super().__init__(message, help=help)
        self.exit_code = 128 + signal
