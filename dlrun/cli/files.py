"""Writing of result files of commands, with errors for users."""

from __future__ import annotations

from pathlib import Path

from dlrun.errors import DlrunError, Invalid, OperationFailed


def save(path: Path, text: str, *, errors: str = "strict") -> None:
    """Write a text to a file, replacing it; raises OperationFailed if that fails."""
    try:
        path.write_text(text, encoding="utf-8", errors=errors)
    except OSError as error:
        raise OperationFailed(f"cannot write `{path}`: {error.strerror}") from None


def write_new(path: Path, text: str, *, help: str, error: type[DlrunError] = Invalid) -> None:
    """Write a text to a file that must not exist; raises `error` if it exists or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise error(f"`{path}` already exists", help=help) from None
    except OSError as fault:
        raise error(f"cannot write `{path}`: {(fault.strerror or str(fault)).lower()}") from None
