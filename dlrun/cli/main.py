"""The `dlrun` program: a table of commands loaded when used, and the one place where errors become messages."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from dlrun import __version__
from dlrun.errors import DlrunError

COMMANDS: dict[str, tuple[str, str]] = {
    "submit": ("submit", "Submit the job that a training spec describes."),
    "plan": ("plan", "Show what would be submitted: layout, placement, variables, cost."),
    "render": ("render", "Print the job script, or write the whole job directory."),
    "explain": ("explain", "Say where a value comes from and why, or what a problem code means."),
    "status": ("status", "Show what has become of jobs."),
    "logs": ("logs", "Show what a job printed."),
    "why": ("why", "Say why a job ended, and what to do next."),
    "verify": ("verify", "Check on the real nodes that ranks run as planned."),
    "fetch": ("fetch", "Bring back what a job on a login node has written."),
    "cancel": ("cancel", "End jobs."),
    "hold": ("hold", "Keep waiting jobs from starting."),
    "release": ("release", "Let held jobs go."),
    "resubmit": ("resubmit", "Submit a job's plan once more, or only what failed."),
    "results": ("results", "Show what each run of a job gave: parameters, state, time, metrics."),
    "scale": ("scale", "Measure how a training scales: speed-up and efficiency against nodes."),
    "list": ("list", "List your jobs."),
    "stage-data": ("stage_data", "Bring data sets to the nodes' own storage, and look after them there."),
    "tune-affinity": ("tune_affinity", "Place ranks on the cores, memory, GPUs and NICs of a node."),
    "site": ("site", "List, show and check site profiles."),
    "schema": ("schema", "Print the JSON Schema of specs or site profiles."),
    "completion": ("completion", "Print the shell completion script."),
    "help": ("topics", "Explain exit codes and environment variables."),
}
"""Command name -> module of `dlrun.cli` with a click object `command`, and its line of help."""


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command runs or shows its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"dlrun.cli.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)  # noqa: S101 - the table names click commands only
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; an unknown one is an error that names the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from dlrun.model.nearest import nearest

            near = nearest(name, COMMANDS)
            hint = (
                f"a command with a similar name exists: `{near}`"
                if near
                else "`dlrun --help` lists the commands"
            )
            message = f"no such command: `{name}`"
            raise UsageError(message, help=hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; click itself would call a broken pipe a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _reader_left()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table's own lines, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


class UsageError(DlrunError):
    """A command line that cannot be understood."""

    exit_code = 2


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: dlrun submit spec.yaml --wait",
)
@click.version_option(__version__, "--version", message="dlrun %(version)s")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour the output."
)
@click.option(
    "--error-format",
    type=click.Choice(["text", "concise", "json"]),
    default="text",
    help="How problems in files are shown.",
)
@click.pass_context
def group(ctx: click.Context, color: str, error_format: str) -> None:
    """Launch deep-learning training on HPC clusters: a spec and a site profile in, a job that is placed right out."""
    ctx.obj = {"color": color, "error_format": error_format}


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit with a code that means something (see `dlrun help exit-codes`)."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run one command line; every error becomes a message on stderr and an exit code."""
    try:
        result = group.main(arguments, prog_name="dlrun", standalone_mode=False, terminal_width=_help_width())
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:  # noqa: BLE001 - the one boundary: no traceback leaves it
        from dlrun.cli.failure import report

        return report(error, arguments)


def _reader_left() -> int:
    """The reader of our output went away (`dlrun list | head`): nothing is wrong."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _help_width() -> int:
    """Columns of help pages; to find them, click imports `shutil` and with it three compression libraries."""
    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
    except (OSError, ValueError):
        columns = 80
    return max(50, min(100, columns or 80) - 2)
