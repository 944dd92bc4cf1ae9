"""`dlrun shell`: a shell, or one command, beside a rank of a running job."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.errors import DlrunError, Invalid
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs

if TYPE_CHECKING:
    from dlrun.system.transport.protocol import Transport

JOIN = Path(__file__).parent / "join.sh"
"""What runs on the node."""
_LONGEST = 30 * 86400.0
"""Seconds that a command of a remote job may be silent: as long as a job may last."""


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "dlrun shell latest", "dlrun shell --rank 3 latest -- nvidia-smi", "dlrun shell --node n2 latest"
    ),
)
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Beside this rank (default: 0), as its program runs.",
)
@click.option("--node", metavar="HOST", help="On this node of the job instead, without a rank's environment.")
@click.argument("job", shell_complete=complete_jobs, metavar="JOB")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(job: str, words: tuple[str, ...], rank: int | None, node: str | None) -> None:
    """Open a shell inside a running JOB, or run COMMAND there: on the node of a rank, with the rank's variables, in its
    directory and its container.

    It is not bound to the rank's cores, but stays within what the job has. On Slurm it is a step of the job, elsewhere it
    comes by ssh, where the site allows ssh to nodes. The exit code is that of COMMAND. `JOB:3` is a point of a sweep.
    """
    from dlrun import resources
    from dlrun.inside.place import place
    from dlrun.inside.way import command as way
    from dlrun.jobs.clusters.login import transport_of
    from dlrun.jobs.queue.selection import select
    from dlrun.render.shell import join
    from dlrun.system.transport.openssh import OpenSshTransport

    where = place(select(job), rank, node)
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not words
    beside = "" if where.rank is None else str(where.rank)
    inner = ["bash", "--norc", "-p", "-c", resources.text(JOIN), "dlrun-shell", where.run, beside, *words]
    arguments = way(where, inner, "shell", terminal=terminal)
    remote = where.job.remote
    if remote is not None:
        transport = transport_of(remote.host, remote.transport)
        if not terminal:
            sys.exit(_run(transport, arguments))
        if not isinstance(transport, OpenSshTransport):
            raise Invalid(
                "a shell of a remote job needs the program `ssh`",
                help="a command after `--` needs none; or install OpenSSH's client",
            )
        arguments = transport.words(join(arguments), terminal=True)
    sys.stdout.flush()
    os.execvp(arguments[0], arguments)  # noqa: S606 - a list of arguments; signals and the terminal are the command's own


def _run(transport: Transport, arguments: list[str]) -> int:
    """Run a command on the login node with this process's standard streams; its exit code."""
    from dlrun.inside.way import after_mark
    from dlrun.node.carry import READY
    from dlrun.render.shell import join
    from dlrun.system.transport.protocol import StoppedReading

    shell, option, line = arguments
    mark = join((READY.decode().replace("\0", r"\0000"),))  # as printf's %b reads it
    stream = transport.start(join((shell, option, f"printf %b {mark}; {line}")), timeout=_LONGEST)

    def give() -> None:
        with suppress(StoppedReading, DlrunError, OSError, ValueError):
            while data := os.read(0, 1 << 16):
                stream.write(data)
            stream.end()

    try:
        threading.Thread(target=give, daemon=True).start()
        part = after_mark(stream)
        while part is not None:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
            part = stream.read() or None
        ended = stream.finish()
        sys.stderr.buffer.write(ended.errors)
        sys.stderr.buffer.flush()
        return ended.code
    finally:
        stream.close()
