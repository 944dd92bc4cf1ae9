"""`dlrun completion`: click's completion script for a shell."""

from __future__ import annotations

import click

from dlrun.cli.escapes import echo_data


@click.command(epilog='Example: eval "$(dlrun completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL, to be evaluated in the shell's start-up file."""
    from click.shell_completion import get_completion_class

    from dlrun.cli.main import group

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the three are click's own
    echo_data(kind(group, {}, "dlrun", "_DLRUN_COMPLETE").source() + "\n")
