"""The server of `tests/cli`, for properties of commands."""

from tests.cli.conftest import preloaded

__all__ = ["preloaded"]
