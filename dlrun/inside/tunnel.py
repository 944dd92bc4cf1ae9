"""`dlrun shell --tunnel`: a port of a job's node on this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.system.transport.protocol import StoppedReading
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_jobs
from dlrun.terminal.printing import echo, emit, notice

if TYPE_CHECKING:
    from dlrun.inside.place import Place
    from dlrun.jobs.queue.selection import Selection
    from dlrun.node.carry import Carrier
    from dlrun.system.transport.protocol import Stream

_RETRY = 5.0
"""Seconds between two attempts to reach the job."""
_LOOK = 2.0
"""Seconds between two looks at the run's own record."""
_ASK = 60.0
"""Seconds between two questions to the scheduler, which has other users."""
_PATIENCE = 60.0
"""Seconds for which a new connection waits while the job is reached again."""
_PORT = click.IntRange(1, 65535)


@click.command(
    epilog=examples(
        "dlrun shell --tunnel latest 6006", "dlrun shell --tunnel --rank 4 --local 9000 llm-20261126 8000"
    )
)
@click.option(
    "--rank", type=click.IntRange(min=0), metavar="N", help="On the node of this rank (default: 0)."
)
@click.option("--node", metavar="HOST", help="On this node of the job.")
@click.option(
    "--local", type=_PORT, metavar="PORT", help="Port here (default: the same one, or else a free one)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as one line of JSON.")
@click.argument("job", shell_complete=complete_jobs, metavar="JOB")
@click.argument("port", type=_PORT, metavar="PORT")
def command(
    job: str, port: int, rank: int | None, node: str | None, local: int | None, as_json: bool
) -> None:
    """Reach PORT of a node of a running JOB from this machine: TensorBoard, Jupyter, a debugger, a server.

    The program may listen on its node's loopback or on its own address. The tunnel waits for a pending job, reconnects after a
    requeue and ends with the job or with Ctrl-C. It listens on loopback only. All users of a login node share its loopback: use
    a port of your own machine instead (`dlrun submit --host`), or a program that asks for a token. `JOB:3` is a point of a sweep.
    """
    from dlrun.jobs.queue.selection import select

    chosen = select(job)
    with _listen(port if local is None else local, exact=local is not None) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        tunnel = Tunnel(chosen, port, rank, node)

        def reached(where: Place) -> None:
            if as_json:
                emit("tunnel", {"address": address, "node": where.host, "port": port}, one_line=True)
            else:
                echo(f"http://{address} is port {port} of {where.host}; Ctrl-C ends it")
            threading.Thread(target=tunnel.accept, args=(listening,), daemon=True).start()

        tunnel.run(reached)


def _listen(port: int, *, exact: bool) -> socket.socket:
    """A socket that listens on loopback; raises Invalid if a port that was given is taken."""
    for number in (port,) if exact else (port, 0):
        try:
            return socket.create_server(("127.0.0.1", number))
        except OSError as error:
            if exact or number == 0:
                raise Invalid(
                    f"port {number} of this machine cannot be used: {error.strerror}",
                    help="leave out `--local` to get a free one",
                ) from None
    raise AssertionError


class Tunnel:
    """Carries connections to a port of a run, over one stream at a time."""

    def __init__(self, chosen: Selection, port: int, rank: int | None, node: str | None) -> None:
        self._chosen, self._port, self._rank, self._node = chosen, port, rank, node
        self._carrier: Carrier | None = None
        self._carries = threading.Event()
        self._noticed = ""

    def run(self, reached: Callable[[Place], object]) -> None:
        """Carry until the job has ended; `reached` is called when its node was reached first.

        Raises NotRunning for a job that has ended before, OperationFailed if its node cannot be reached.
        """
        from dlrun.inside.place import NotRunning

        where, first = self._wait(), True
        while True:
            for carrying in self._carry(where):
                if first and carrying:
                    reached(where)
                    first = False
            if first:
                raise OperationFailed(
                    f"`{where.host}` could not be reached: {self._noticed or 'it gave no reason'}"
                )
            self._notice(f"the connection to {where.host} has ended: connecting again")
            time.sleep(1.0)
            try:
                where = self._wait()
            except NotRunning as error:
                notice(str(error))
                return

    def accept(self, listening: socket.socket) -> None:
        """Hand over each connection to the stream of the moment; while there is none, it waits."""
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return  # this command ends
            self._carries.wait(_PATIENCE)
            carrier = self._carrier
            try:
                if carrier is not None:
                    carrier.begin(link)
                    continue
            except OSError:
                pass  # the stream has just ended, which `run` notices by itself
            link.close()

    def _wait(self) -> Place:
        """The place, once the job runs; raises NotRunning when it has ended."""
        from dlrun.inside.place import NotRunning, place

        while True:
            try:
                return place(self._chosen, self._rank, self._node)
            except NotRunning as error:
                if error.ended:
                    raise
                self._notice(f"{error}: waiting")
            time.sleep(_RETRY)

    def _carry(self, where: Place) -> Iterator[bool]:
        """Carry over one stream until it ends; yields once it has reached the node."""
        from dlrun.inside.way import after_mark
        from dlrun.node.carry import Carrier

        stream = _start(where, self._port)
        try:
            rest = after_mark(stream)
            if rest is None:
                early = stream.finish()
                lines = early.errors.decode(errors="replace").strip().splitlines()
                self._noticed = lines[-1] if lines else f"exit code {early.code}"
                return
            parts = [rest] if rest else []
            carrier = Carrier(
                lambda: parts.pop() if parts else stream.read(),
                partial(_write, stream),
                refused=partial(self._refused, where),
            )
            self._carrier = carrier
            self._carries.set()
            ended = threading.Event()
            threading.Thread(target=self._watch, args=(where, carrier, ended), daemon=True).start()
            yield True
            try:
                carrier.run()
            finally:
                ended.set()
        except (DlrunError, ValueError) as error:
            self._notice(str(error))
        finally:
            self._carries.clear()
            self._carrier = None
            stream.close()

    def _watch(self, where: Place, carrier: Carrier, ended: threading.Event) -> None:
        """End the stream once the run has ended: what came by ssh, or runs on this machine, outlives the job."""
        from dlrun.inside.place import NotRunning, place
        from dlrun.jobs.records.validation import run_state

        asked = time.monotonic()
        while not ended.wait(_LOOK):
            state = run_state(where.directory) if where.job.remote is None else None
            if (state or {}).get("state") != "ended" and time.monotonic() - asked < _ASK:
                continue
            asked = time.monotonic()
            try:
                place(self._chosen, self._rank, self._node)
            except NotRunning:
                with suppress(OSError):
                    carrier.leave()
                return
            except DlrunError:
                continue  # no answer now

    def _refused(self, where: Place, words: str) -> None:
        self._notice(f"port {self._port} of {where.host}: {words}")

    def _notice(self, text: str) -> None:
        """A message, once until another follows."""
        if text != self._noticed:
            self._noticed = text
            notice(text)


def _write(stream: Stream, data: bytes) -> None:
    """Write to the far end; raises OSError, which the threads of connections expect."""
    try:
        stream.write(data)
    except (DlrunError, StoppedReading, ValueError) as error:  # ValueError: it was closed in this moment
        raise OSError(str(error)) from None


def _start(where: Place, port: int) -> Stream:
    from dlrun import node, resources
    from dlrun.inside.way import command as way
    from dlrun.jobs.clusters.login import transport_of
    from dlrun.render.shell import join
    from dlrun.system.transport.local import LocalTransport

    python = resources.text(resources.directory("templates") / "lib" / "python.sh")
    carry = resources.text(Path(node.__file__).parent / "carry.py")
    chosen = where.job.plan().environment.python
    setting = f"DLRUN_NODE_PYTHON={join([chosen])}\n" if chosen else ""
    script = f'{setting}{python}\ndlrun_python -c "$@"\n'
    line = join(
        way(
            where,
            ["bash", "--norc", "-p", "-c", script, "dlrun-tunnel", carry, str(port)],
            "tunnel",
            terminal=False,
        )
    )
    remote = where.job.remote
    there = LocalTransport("this machine") if remote is None else transport_of(remote.host, remote.transport)
    return there.start(line)
