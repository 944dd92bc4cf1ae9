"""The connection to a following node: connect, send announcements, receive its status, reconnect, give up a dead node."""

import asyncio
import contextlib
import time
from typing import Callable, Dict, Optional

from ..common.deadline import within
from ..common.errors import Damaged
from ..network import hosts, link as links
from .messages import DONE, demotion, inflate_need, unpack_status
from .state import Neighbour, RelayState

LEAVE_TIMEOUT = 2.0  # seconds for an abort to reach the next nodes, and for them to leave
LATE_START_TIMEOUT = 1.0  # seconds for a node that should have started long ago
RETRY_DELAY = 0.1  # seconds between connection attempts to a node that does not answer yet
MAX_BREAKS = 5  # data connections to a node that may break while its control connection lasts


class Downstream(Neighbour):
    """The connection to one following node.

    `on_lost(node, reason)` is called if the node is dead, `on_bypassed()` if the others have continued without this node.
    `joined`: the node is known to run, from a status of the previous node.
    """

    def __init__(
        self,
        state: RelayState,
        node: int,
        on_lost: Callable[[int, str], None],
        on_bypassed: Callable[[], None],
        *,
        joined: bool = False,
    ) -> None:
        super().__init__()
        self.state, self.node = state, node
        self._on_lost, self._on_bypassed = on_lost, on_bypassed
        self._link: Optional[links.Link] = None
        self._breaks = 0
        self._attempts: Dict[int, int] = {}
        self._attached = self._released = False
        self._joined = joined

    async def serve(self) -> None:
        """Stay connected until the node and all nodes after it are done, or the node is dead."""
        known, over = self._joined, False
        timeout = self.state.dead_after if known else LATE_START_TIMEOUT
        end = max(time.monotonic() + timeout, 0.0 if known else self.state.join_end)
        why = "it did not answer"
        while not over:
            try:
                why = await self._exchange(await self._call())
                known, end = True, time.monotonic() + self.state.dead_after
            except ConnectionRefusedError:
                why = "its node program has exited" if known else "no node program listens there"
                # If the node had answered before, its program has ended; if it never has, it may still be starting.
                over = known
            except (OSError, Damaged) as fault:
                why = str(fault)
            if self.gone or self._released or self.abort_sent:
                self.has_left = True
                self.state.signal.notify()
                return
            over = over or time.monotonic() > end
            if not over:
                await asyncio.sleep(RETRY_DELAY)
        self.gone = True
        self._on_lost(self.node, self.state.failures.get(self.node, why))

    def disconnect(self) -> None:
        """End the connection: that node has another upstream node now."""
        self.gone = True
        if self._link is not None:
            self._link.close()

    async def hand_over(self) -> None:
        """Announce to a node that another node sends to it from now on, and end the connection."""
        # The announcement goes first: a connection that just ends would make the node wait, or lead a chain of its own.
        self.gone, link = True, self._link
        if link is None:
            return
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await within(self.state.dead_after, link.send(demotion(self.state.moves()).message))
        link.close()

    async def _call(self, role: str = "control", worker: int = 0, attempt: int = 0) -> links.Link:
        state = self.state
        where = hosts.address(state.names[self.node])
        link = await links.connect(
            where, state.port, state.secret, state.introduction(role, worker, attempt), state.dead_after
        )
        answer, _ = await link.receive(state.dead_after)
        if answer["do"] != "welcome":
            link.close()
            if answer["why"] == "bypassed" and not self.gone:
                self._on_bypassed()
            message = (
                "it is staging another data set"
                if answer["why"] == "other"
                else "it already receives data from another node"
            )
            raise ConnectionAbortedError(message)
        return link

    async def _exchange(self, link: links.Link) -> str:
        """Send and receive until the connection ends; returns the reason."""
        if self.gone:
            link.close()
            return "it already receives data from another node"
        self._link, self._attached = link, False
        # Sending may block on a full connection, so heartbeats and receiving are separate tasks: otherwise a slow node
        # would be taken for dead.
        works = (self._announce, self._receive, self._beat, self._release)
        tasks = _, receiving, _, _ = [asyncio.ensure_future(work(link)) for work in works]
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if any(isinstance(task.exception(), ConnectionError) for task in ended):
            # A node that fails reports why and exits. If sending finds that first, its report has still to be read.
            await asyncio.wait([receiving], timeout=LEAVE_TIMEOUT)
        why = "the connection ended"
        for task in tasks:
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            except (OSError, Damaged) as fault:
                why = str(fault)
        self._link = None
        link.close()
        self.state.signal.notify()
        return why

    async def _announce(self, link: links.Link) -> None:
        state = self.state
        sent = 0
        while True:
            while sent < len(state.announcements):
                announcement = state.announcements[sent]
                await link.send(announcement.message, announcement.blob)
                sent += 1
                if announcement.message["do"] == "abort":
                    self.abort_sent = True
                    return
            # Data connections follow the control connection and end with it, so that a node is lost or connected as a whole.
            if state.workers is not None and not self._attached and not state.staging.shard:
                self._attached = True
                for worker in range(len(state.workers.channels)):
                    await self._attach_with_retries(link, worker)
            await state.signal.wait(state.beat)

    async def _beat(self, link: links.Link) -> None:
        while True:
            await link.send({"do": "beat", "path": self.state.path()})
            await asyncio.sleep(self.state.beat)

    async def _receive(self, link: links.Link) -> None:
        state = self.state
        while True:
            message, blob = await link.receive(state.dead_after)
            if message["do"] == "status":
                self.status = unpack_status(message)
                if blob:
                    state.needs[self.node] = inflate_need(blob)
                state.signal.notify()
            elif message["do"] == "failed":
                state.failures[self.node] = message["why"]
            elif message["do"] == "again":
                self.broken(message["worker"], message["attempt"])

    async def _release(self, link: links.Link) -> None:
        """Once all nodes are done, allow this one to leave, and wait until it has closed the connection."""
        await self.state.until(lambda: self.state.over)
        await link.send({"do": "over"})
        self._released = True
        # Keep receiving its reports until then: closing a connection with unread data resets it, and the message is lost.
        await asyncio.sleep(LEAVE_TIMEOUT)

    async def _attach_with_retries(self, link: links.Link, worker: int) -> None:
        """Connect a worker, with retries while the node answers: other programs may have filled the port's accept queue.

        Raises OSError or Damaged after `dead_after` seconds without success.
        """
        end = time.monotonic() + self.state.dead_after
        while True:
            try:
                return await self._attach(worker)
            except (OSError, Damaged):
                if time.monotonic() > end or link is not self._link:
                    raise
            await asyncio.sleep(RETRY_DELAY)

    async def _attach(self, worker: int) -> None:
        """Connect to the node's worker and pass the connection to this node's worker process."""
        attempt = self._attempts[worker] = self._attempts.get(worker, 0) + 1
        link = await self._call("worker", worker, attempt)
        if self.state.workers is not None:
            order = {
                "do": "send",
                "node": self.node,
                "attempt": attempt,
                "detached": self.node in self.state.demoted,
            }
            self.state.workers.send(worker, order, (link.socket.fileno(),))
        link.release()

    def broken(self, worker: int, attempt: int) -> None:
        """One end has reported a broken data connection: reconnect it while the node answers."""
        old = attempt != self._attempts.get(worker)
        if old or self._link is None or self.gone or self.status.phase == DONE:
            return
        # Both ends report the same failure: the new number makes the second report an old one.
        self._attempts[worker] = attempt + 1
        self._breaks += 1
        self.state.spawn(self._reattach(worker))

    async def _reattach(self, worker: int) -> None:
        await asyncio.sleep(RETRY_DELAY)
        link, workers = self._link, self.state.workers
        if link is None or workers is None:
            return
        workers.send(worker, {"do": "drop", "node": self.node})
        try:
            # Retries do not help a node whose data connections keep breaking: closing the link counts it as lost.
            if self._breaks > MAX_BREAKS:
                raise ConnectionAbortedError
            await self._attach_with_retries(link, worker)
        except (OSError, Damaged):
            link.close()
