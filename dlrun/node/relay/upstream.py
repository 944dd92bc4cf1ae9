"""The connection from the previous node: listen, receive announcements, report status, take over from a dead leader."""

import asyncio
import contextlib
import json
import time
from typing import Awaitable, Callable, Optional

from ..common.errors import Damaged
from ..common.threads import in_thread
from ..network import hosts, link as links
from ..network.listener import Listener
from ..source.manifest import unpack
from ..staging.survey_source import Survey
from . import rates
from .messages import ANNOUNCEMENTS, READY, Announcement, deflate_need, demotion, inflate
from .state import RelayState

RECONNECT_TIMEOUT = 2.0  # seconds for the leader to reconnect if only its connection broke


class Upstream:
    """Listens on this node's address; awaits `lead` when no previous node is left."""

    def __init__(self, state: RelayState, bind: str, lead: Callable[[], Awaitable[None]]) -> None:
        self.state, self._lead = state, lead
        self._bind = bind or state.names[state.index]
        self._listener: Optional[Listener] = None
        self._link: Optional[links.Link] = None
        self._node = -1
        self._connected = False

    def listen(self) -> None:
        """Begin to listen."""
        state = self.state
        self._listener = Listener(hosts.listen(hosts.address(self._bind), state.port), state.secret)
        state.spawn(self._listener.serve(lambda link: state.spawn(self._answer(link))))

    async def _answer(self, link: links.Link) -> None:
        caller, state = link.peer, self.state
        if caller["set"] != state.staging.given.name or caller["count"] != len(state.names):
            refusal = "other"
        elif caller["role"] == "worker":
            await self._worker(link)
            return
        elif caller["role"] == "probe":
            with contextlib.suppress(OSError, Damaged, asyncio.TimeoutError):
                await rates.answer(state, link)
            link.close()
            return
        else:
            state.announce(demotion(caller["demoted"]))
            refusal = self._refusal(caller["node"], caller["session"])
        try:
            if refusal:
                await link.send({"do": "refused", "why": refusal})
                link.close()
            else:
                await link.send({"do": "welcome"})
                await self._exchange(link)
        except (OSError, Damaged):
            link.close()

    def _refusal(self, node: int, session: Optional[str]) -> str:
        """The reason to refuse a caller as the previous node; empty if it is accepted."""
        state = self.state
        # A node before the caller has connected here and skipped the caller: the chain continues without it. `bypassed`
        # makes the caller read the rest by itself, so that no node receives the same blocks from two nodes.
        place = state.order().index
        if state.leading or (self._link is not None and place(node) > place(self._node)):
            return "bypassed"
        if session and not state.session and self._link is not None and node != self._node:
            return "later"
        if session and state.session and session != state.session["id"]:
            return "bypassed"
        return ""

    async def _worker(self, link: links.Link) -> None:
        """Hand a data connection to its worker."""
        state = self.state
        try:
            await link.send({"do": "welcome"})
        except (OSError, Damaged):
            link.close()
            return
        # The previous node connects as soon as its own workers run; the workers of this node may not be forked yet.
        await state.until(lambda: state.workers is not None or state.outcome.done())
        current = self._link is not None and link.peer["node"] == self._node and not state.leading
        if current and state.workers is not None and link.peer["session"] == state.session["id"]:
            state.workers.send(
                link.peer["worker"],
                {"do": "receive", "attempt": link.peer["attempt"]},
                (link.socket.fileno(),),
            )
        link.release()

    async def _exchange(self, link: links.Link) -> None:
        state = self.state
        if self._link is not None:
            self._link.close()
        self._link, self._node, self._connected = link, link.peer["node"], True
        state.signal.notify()
        reporting = asyncio.ensure_future(self._report(link))
        try:
            while True:
                message, blob = await link.receive(state.dead_after)
                await self._handle(message, blob)
        except (OSError, Damaged):
            pass
        reporting.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await reporting
        link.close()
        if self._link is link:
            self._link = None
            state.signal.notify()
            await self._lead_unless_reconnected()

    async def _handle(self, message: links.Message, blob: bytes) -> None:
        state = self.state
        if message["do"] == "beat":
            state.upstream_path = message["path"]
            return
        if message["do"] == "over":
            state.may_leave = True
            state.signal.notify()
            raise ConnectionResetError("this node leaves")
        if message["do"] in ANNOUNCEMENTS:
            state.announce(Announcement(message, blob))
        if message["do"] == "session" and state.survey is None:
            state.survey = Survey(await in_thread(lambda: unpack(inflate(blob))))
            state.signal.notify()

    async def _report(self, link: links.Link) -> None:
        state = self.state
        reported, need_sent = "", False
        while True:
            status = state.status()
            message = status.pack()
            text = json.dumps(dict(message, reports=[]))
            blob = b""
            # The needed blocks are sent only once: they can only become fewer, and reading a few too many does no harm.
            if status.phase >= READY and not need_sent and state.prepared is not None:
                blob, need_sent = deflate_need(state.need(), len(state.prepared.task.blocks)), True
            await link.send(message, blob)
            reported = text
            end = time.monotonic() + state.beat
            # The figures in `reports` change all the time and are sent with the next heartbeat; all else is sent at once.
            while time.monotonic() < end and json.dumps(dict(state.status().pack(), reports=[])) == reported:
                await state.signal.wait(max(0.01, end - time.monotonic()))

    async def lead_unless_connected(self) -> None:
        """Become the leader if no previous node connects in time."""
        if not await self.state.until(lambda: self._connected, self.state.join_time):
            self.state.staging.progress.log("no previous node has connected; this node reads the source")
            await self._lead()

    async def _lead_unless_reconnected(self) -> None:
        """Become the leader if the connection was to the leader, or if no other node connects in time."""
        state = self.state

        def settled() -> bool:
            return self._link is not None or state.may_leave or state.outcome.done()

        if settled() or state.leading or state.announced("abort"):
            return
        # After a move the node at the end of the chain will connect to this one.
        moved = state.index in state.demoted
        # If the leader is the only node before this one, no other node can connect: the wait is shorter than for nodes
        # that first have to notice that the node between is dead.
        timeout = RECONNECT_TIMEOUT if len(state.upstream_path) == 1 and not moved else 3 * state.dead_after
        if not await state.until(settled, timeout):
            state.staging.progress.log("the previous node is lost; this node reads the source")
            await self._lead()

    def disconnect_for_move(self) -> None:
        """End the connection to the previous node: this node has moved to the end, so another one will connect."""
        state = self.state
        order = state.order()
        if self._node == order[order.index(state.index) - 1]:
            # This node was the last one already: its previous node stays the same.
            return
        self._node = state.index  # any node that calls is before this one
        if self._link is not None:
            self._link.close()

    async def request_connection(self, worker: int, attempt: int) -> None:
        """Ask the previous node to reconnect a broken data connection, whose failure it may not have noticed."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send({"do": "again", "worker": worker, "attempt": attempt})

    async def fail(self, why: str) -> None:
        """Report this node's failure to the previous node."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send({"do": "failed", "why": why})

    def close(self) -> None:
        """Stop listening."""
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
