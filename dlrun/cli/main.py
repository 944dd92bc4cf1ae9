"""The `dlrun` program: a table of commands, each imported when it is used, and the error boundary."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from dlrun import __version__
from dlrun.cli import imports
from dlrun.cli.forms import FORMER, FORMS, chosen, with_options
from dlrun.errors import DlrunError, OperationFailed
from dlrun.terminal import signals, streams

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "submit": ("dlrun.cli.submit", "Submit a job from a training spec."),
        "run": ("dlrun.cli.run", "Run a training here: in this shell's allocation, or on this machine."),
        "init": ("dlrun.cli.specs.init", "Write a training spec, from five questions or a batch script."),
        "plan": ("dlrun.cli.specs.plan", "Show what would be submitted and its cost, or the job script."),
        "resubmit": ("dlrun.cli.jobs.resubmit", "Submit a job again, or only its failed sweep points."),
        "cancel": ("dlrun.cli.jobs.control:cancel", "Cancel jobs."),
        "hold": (
            "dlrun.cli.jobs.control:hold",
            "Hold pending jobs, so that they do not start, or release them.",
        ),
    },
    "Look": {
        "status": ("dlrun.cli.jobs.status", "Show the state of jobs, or list the latest ones."),
        "logs": ("dlrun.cli.jobs.logs", "Show or follow the logs of a job."),
        "why": ("dlrun.why.command", "Find out why a job failed, and what to do next."),
        "usage": ("dlrun.usage.command", "Show used cores, memory, GPUs and time: live, or as a page."),
        "results": (
            "dlrun.cli.jobs.results",
            "Tabulate the runs of a job, or fetch its files.",
        ),
        "diff": ("dlrun.cli.jobs.diff", "Compare two jobs, or a job and today; list the code of one."),
        "explain": ("dlrun.cli.specs.explain", "Explain a value of a plan, a variable or a problem code."),
        "shell": ("dlrun.inside.shell", "Open a shell, or reach a port, beside a rank of a running job."),
    },
    "Data and placement": {
        "stage-data": (
            "dlrun.cli.stage_data",
            "Copy data sets to node-local storage, list them, evict them.",
        ),
        "tune-affinity": (
            "dlrun.affinity.command",
            "Find, print or apply the binding of ranks on a node.",
        ),
        "verify": ("dlrun.site.verify.command", "Run a short job that checks binding and network."),
        "scale": ("dlrun.trials.scale.command", "Measure speed-up and efficiency over node counts."),
        "tune": ("dlrun.trials.tune.command", "Measure which settings make a training faster."),
    },
    "Admin": {
        "site": ("dlrun.site.command", "List, show, check, detect and write site profiles."),
        "keys": ("dlrun.cli.specs.keys", "List the keys of specs or site profiles, or print their schema."),
        "clean": ("dlrun.cli.jobs.clean", "List and remove the directories of jobs that ended."),
        "help": ("dlrun.cli.topics", "Explain exit codes and environment variables."),
    },
}
"""Heading -> command name -> location of its click command (`module` or `module:attribute`), and summary."""

COMMANDS = {name: location for rows in GROUPS.values() for name, (location, _) in rows.items()} | {
    form.former: form.location for forms in FORMS.values() for form in forms.values()
}
"""Command name -> location; also of those that are now forms of others, whose names still work."""

ALIASES = {
    "ps": "status", "queue": "status", "tail": "logs", "stop": "cancel", "kill": "cancel", "delete": "clean",
}  # fmt: skip
"""Names of these commands in other programs."""
_ELSEWHERE = {
    **dict.fromkeys(
        ("validate", "check", "lint", "test", "dry-run"),
        "`dlrun plan SPEC` checks a spec and starts nothing; `dlrun site check FILE` checks a site profile",
    ),
    "version": "`dlrun --version` prints it",
    **dict.fromkeys(("start", "launch", "exec", "sbatch", "qsub"), "`dlrun submit SPEC` submits a job, `dlrun run` starts one"),
    **dict.fromkeys(("config", "convert"), "`dlrun init` writes a spec, `dlrun init --from SCRIPT` converts a batch script"),
    **dict.fromkeys(("output", "cat", "show"), "`dlrun logs JOB` shows the logs, `plan SPEC` the plan, `status JOB` the state"),
}  # fmt: skip
"""Commands of other programs, for which no command here stands alone -> the way out."""


class LazyGroup(click.Group):
    """A group that imports the module of a command only when the command runs or shows its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table, then the former ones, which are hidden."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), attribute or "command")
        assert isinstance(command, click.Command)  # noqa: S101 - the table names click commands only
        command.hidden = cmd_name in FORMER
        return with_options(cmd_name, command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or the form of it that an option selects; the error for an unknown one names the nearest."""
        name = args[0]
        if name not in COMMANDS and name not in ALIASES and not name.startswith("-"):
            from dlrun.model.nearest import nearest

            near = nearest(name, COMMANDS)
            hint = _ELSEWHERE.get(name) or (
                f"a command with a similar name exists: `{near}`"
                if near
                else "`dlrun --help` lists the commands"
            )
            raise UsageError(f"no such command: `{name}`", help=hint)
        command_name, command, rest = super().resolve_command(ctx, args)
        name = ALIASES.get(name, name)
        if command is not None and (place := chosen(name, command, rest)) is not None:
            option, equals, value = rest[place].partition("=")
            rest[place : place + 1] = [value] if equals else []
            return f"{command_name} {option}", self.get_command(ctx, FORMS[name][option].former), rest
        return command_name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; unlike click, do not treat a broken pipe as a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _reader_left()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the table: `--help` must not import every command."""
        width = max(len(name) for rows in GROUPS.values() for name in rows)
        for heading, rows in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in rows.items()])


class UsageError(DlrunError):
    """An invalid command line."""

    exit_code = 2


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExamples:\n  dlrun init\n  dlrun submit spec.yaml --wait\n  dlrun logs latest",
)
@click.version_option(__version__, "--version", message="dlrun %(version)s")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour of the output; auto: on a terminal.",
)
@click.option(
    "--error-format",
    type=click.Choice(["text", "concise", "json"]),
    default="text",
    help="Format of error messages.",
)
@click.pass_context
def group(ctx: click.Context, color: str, error_format: str) -> None:
    """Generate and submit deep-learning training jobs on HPC clusters, from a training spec and a site profile.

    Ranks are bound to cores, memory, GPUs and NICs. `dlrun explain` shows the reason for every value.
    """
    ctx.obj = {"color": color, "error_format": error_format}


def main(arguments: list[str] | None = None) -> None:
    """Run the program and exit with its exit code (see `dlrun help exit-codes`)."""
    signals.begin()
    streams.begin()
    os.umask(os.umask(0o077) & 0o077)  # who may not read his own files has set it by mistake
    try:
        code = streams.flushed(run(sys.argv[1:] if arguments is None else arguments))
    except BaseException:  # a signal while an error was reported
        if not signals.received():
            raise
        code = signals.report()
    signals.ignore()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every error becomes a message on stderr."""
    try:
        result = group.main(arguments, prog_name="dlrun", standalone_mode=False, terminal_width=_help_width())
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, KeyboardInterrupt) as end:
        # Of an EOFError, too, click makes an Abort; without a signal, one may come from an import.
        if isinstance(end.__cause__, EOFError) and not signals.received():
            return _failed(end.__cause__, arguments)
        return signals.report()
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:  # noqa: BLE001 - no traceback may reach the user
        if signals.received() and not isinstance(error, DlrunError):
            # Imports and libraries convert the KeyboardInterrupt of a signal to exceptions of their own.
            return signals.report()
        return _failed(error, arguments)


def _failed(error: Exception, arguments: list[str]) -> int:
    if not isinstance(error, (DlrunError, click.ClickException)) and (foreign := imports.foreign()):
        error = OperationFailed(foreign[0], help=foreign[1])
    try:
        from dlrun.terminal.failure import report
    except Exception as fault:
        # The report's own modules met what the error is about, or no file can be read, not even dlrun's own.
        if isinstance(error, OperationFailed):
            sys.stderr.write(f"error: {error.message}\n   = help: {error.help}\n")
        elif isinstance(fault, (OSError, EOFError)):
            sys.stderr.write(f"error: {getattr(fault, 'strerror', None) or fault}\n")
        else:
            raise
        return 1
    return report(error, arguments)


def _reader_left() -> int:
    """The reader of the output has exited (`dlrun status --recent | head`), which is not an error; returns the exit code."""
    from dlrun.terminal.failure import name_submitted

    streams.discard()
    name_submitted()
    return 0


def _help_width() -> int:
    """Width of help pages. click would import `shutil` for it, and `shutil` three compression libraries."""
    try:
        columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
    except (OSError, ValueError):
        columns = 80
    return max(50, min(100, columns or 80) - 2)
