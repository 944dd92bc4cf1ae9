"""`dlrun help --completion`: click's completion script for a shell."""

from __future__ import annotations

import click

from dlrun.terminal.help_page import examples
from dlrun.terminal.printing import echo_data


@click.command(epilog=examples('eval "$(dlrun help --completion bash)"'))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL; evaluate it in the shell's start-up file, such as ~/.bashrc."""
    from click.shell_completion import get_completion_class

    from dlrun.cli.main import group

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - the three are click's own
    echo_data(kind(group, {}, "dlrun", "_DLRUN_COMPLETE").source() + "\n")
