"""Check plain TCP between the ranks of a job; `dlrun verify` does this before it tests a communication library.

Over the rendezvous address the ranks compute a sum with rank 0 and compare clocks; over the plan's interface each rank
sends 1 MiB to rank 0 and back. Rank 0 listens on all addresses of its node, and accepts only callers with the secret
that it wrote to the run's directory, in a file of mode 0600.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import time
from typing import Any, Awaitable, Callable, Dict, List, Optional, Tuple

from ..common.errors import NodeError
from ..network import hosts, link as links
from ..network.listener import Listener

TIMEOUT = 60.0
"""Seconds that a rank waits for the others."""
SIZE = 1 << 20
SIOCGIFADDR = 0x8915  # linux/sockios.h
BULK, NUMBER = "bulk", "number"
"""Requests of a rank to rank 0."""

Place = Tuple[str, int, bytes]
"""Address, port and secret of rank 0's listener."""


def number(name: str) -> int:
    """An integer variable: `RANK` as set by the framework's agent, else the job's `DLRUN_RANK`."""
    return int(os.environ.get(name, os.environ["DLRUN_" + name]))


def publish(name: str, *words: object) -> None:
    """Write words, such as rank 0's port, for all ranks of this run: a file of mode 0600 in the run's directory."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], name)
    with open(path + ".new", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
        stream.write(" ".join(map(str, (os.environ["DLRUN_RUN_ID"], *words))))
    os.rename(path + ".new", path)


def published(name: str, timeout: float) -> List[str]:
    """The words that rank 0 of this run has published; OSError after `timeout` seconds without them."""
    path = os.path.join(os.environ["DLRUN_RUN_DIR"], name)
    deadline = time.time() + timeout
    while time.time() < deadline:
        try:
            with open(path) as stream:
                run, *words = stream.read().split()
            # A requeued job has the same run directory: the file may be that of the earlier run.
            if run == os.environ["DLRUN_RUN_ID"]:
                return words
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    raise OSError("rank 0 did not publish its address")


def addresses() -> Dict[str, str]:
    """The IPv4 address of each network interface that has one."""
    by_interface = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # the interface has no IPv4 address
                continue
            by_interface[name] = socket.inet_ntoa(answer[20:24])
    return by_interface


def planned(over: List[str]) -> str:
    """This node's IPv4 address on the first of these interfaces that has one; empty if none has."""
    have = addresses()
    return next((have[name] for name in over if name in have), "")


def in_words(error: Exception) -> str:
    """The text of a system error without its number."""
    return getattr(error, "strerror", None) or str(error)


def listen() -> socket.socket:
    """A listening socket on the job's rendezvous port, or on any free port if the framework's agent uses that."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("", int(os.environ["DLRUN_MASTER_PORT"])))
    except OSError:
        server.bind(("", 0))
    server.listen(1024)
    return server


def first(world: int, over: List[str]) -> int:
    """Rank 0: echo the 1 MiB of each rank, send the sum of all numbers; OSError if a rank does not connect."""
    server, secret = listen(), os.urandom(32)
    publish("check-port", server.getsockname()[1], planned(over) or "-", secret.hex())
    return int(_run(_add_up(server, secret, world)))


def _run(work: Awaitable[Any]) -> Any:
    """Run a coroutine in an event loop of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(work)
    finally:
        # Without this, asyncio would log the tasks that still wait for callers when the loop is closed.
        loop.set_exception_handler(lambda *_: None)
        loop.close()


async def _add_up(server: socket.socket, secret: bytes, world: int) -> int:
    listener = Listener(server, secret)
    numbers: Dict[int, Tuple[int, links.Link]] = {}
    all_came = asyncio.get_event_loop().create_future()
    tasks = []

    def take(link: links.Link) -> None:
        if link.peer["wants"] == BULK:
            tasks.append(asyncio.ensure_future(_send_back(link)))
            return
        numbers[link.peer["rank"]] = (link.peer["number"], link)
        if len(numbers) == world - 1 and not all_came.done():
            all_came.set_result(None)

    # A reference to the task: the loop has only a weak one, and the task could be collected.
    tasks.append(asyncio.ensure_future(listener.serve(take)))
    try:
        if world > 1:
            await asyncio.wait_for(all_came, TIMEOUT)
        total = 1 + sum(number for number, _ in numbers.values())
        for _, link in numbers.values():
            # A rank that has gone reports that itself.
            with contextlib.suppress(OSError):
                await link.send({"sum": total, "time": time.time()})
    except asyncio.TimeoutError:
        missing = [str(rank) for rank in range(1, world) if rank not in numbers]
        raise OSError(
            "rank {} did not connect within {:.0f} s".format(", ".join(missing[:8]), TIMEOUT)
        ) from None
    finally:
        listener.close()
        for _, link in numbers.values():
            link.close()
    return total


async def _send_back(link: links.Link) -> None:
    loop = asyncio.get_event_loop()
    try:
        data = await links.exactly(link.socket, SIZE, TIMEOUT)
        await loop.sock_sendall(link.socket, data)
    except OSError:
        # The other side reports it.
        pass
    finally:
        link.release()


async def _with_rank_0(
    place: Place, wants: Dict[str, Any], source: str, do: Callable[[links.Link], Awaitable[Any]]
) -> Any:
    """Connect to rank 0 and run `do`.

    Reconnects if the connection ends before it is authenticated: rank 0 drops the oldest such ones under a flood.
    """
    where, deadline = hosts.address(place[0]), time.monotonic() + TIMEOUT
    link = None  # type: Optional[links.Link]
    while link is None:
        left = deadline - time.monotonic()
        try:
            link = await links.connect(where, *place[1:], wants, timeout=left, source=source)
        except (ConnectionResetError, ConnectionAbortedError, BrokenPipeError):
            if left < 1.0:
                raise
            await asyncio.sleep(0.1)
    try:
        return await do(link)
    finally:
        link.close()


async def _bulk(link: links.Link) -> Tuple[float, str, str]:
    begun = time.time()
    await asyncio.get_event_loop().sock_sendall(link.socket, b"x" * SIZE)
    await links.exactly(link.socket, SIZE, TIMEOUT)
    taken = time.time() - begun
    return taken, link.socket.getsockname()[0], link.socket.getpeername()[0]


def bulk(place: Place, source: str) -> Dict[str, Any]:
    """Send 1 MiB to rank 0 and back.

    Returns `round_trip` (seconds) and `interface` (`lo` inside a node), or `unsent` (the reason) and `unsent_to`.
    """
    try:
        taken, mine, other = _run(_with_rank_0(place, {"wants": BULK}, source, _bulk))
    except (OSError, NodeError) as error:
        return {"unsent": in_words(error), "unsent_to": place[0]}
    names = {address: name for name, address in addresses().items()}
    return {"round_trip": taken, "interface": "lo" if mine == other else names.get(mine)}


def another(rank: int, over: List[str]) -> Dict[str, Any]:
    """Any other rank: the result of `bulk`, `clock` (seconds ahead of rank 0), and `sum`."""
    port, fabric, secret = published("check-port", TIMEOUT)
    rendezvous = os.environ["DLRUN_MASTER_ADDR"]
    place = (fabric if fabric != "-" else rendezvous, int(port), bytes.fromhex(secret))
    report = bulk(place, planned(over) if fabric != "-" else "")
    wants = {"wants": NUMBER, "rank": rank, "number": rank + 1}

    async def receive_sum(link: links.Link) -> None:
        answer, _ = await link.receive(TIMEOUT)
        report.update(clock=time.time() - answer["time"], sum=answer["sum"])

    meet = (rendezvous, int(port), bytes.fromhex(secret))
    _run(_with_rank_0(meet, wants, "", receive_sum))
    return report


def exchange(rank: int, world: int, over: List[str]) -> Dict[str, Optional[Any]]:
    """The result of one rank; `unreached` has the reason if rank 0, or for rank 0 another rank, was not reached."""
    try:
        if rank == 0:
            return {"sum": first(world, over), "clock": 0.0}
        return another(rank, over)
    except (OSError, NodeError) as error:
        return {"unreached": in_words(error), "rendezvous": os.environ["DLRUN_MASTER_ADDR"]}
