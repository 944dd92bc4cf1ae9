"""The side that listens: the node before this one, its facts, and what to do when it is silent."""

import asyncio
import contextlib
import json
import time
from typing import Awaitable, Callable, Optional

from ..common.errors import Damaged
from ..common.threads import in_thread
from ..network import hosts
from ..network import link as links
from ..network.listener import Listener
from ..source.manifest import unpack
from .messages import ANNOUNCEMENTS, READY, Announcement, deflate_need, inflate
from .state import State


class Upstream:
    """Listens on this node's address; `lead` is awaited when no node before this one is left."""

    def __init__(self, state: State, bind: str, lead: Callable[[], Awaitable[None]]) -> None:
        self.state, self._lead = state, lead
        self._bind = bind or state.names[state.index]
        self._listener: Optional[Listener] = None
        self._link: Optional[links.Link] = None
        self._node = -1
        self._heard = False

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
        else:
            refusal = self._refusal(caller["node"], caller["session"])
        try:
            if refusal:
                await link.send({"do": "refused", "why": refusal})
                link.close()
            else:
                await link.send({"do": "welcome"})
                await self._converse(link)
        except (OSError, Damaged):
            link.close()

    def _refusal(self, node: int, session: Optional[str]) -> str:
        """Why a caller is not the node before this one; empty when it is."""
        state = self.state
        if state.leading or (self._link is not None and node > self._node):
            return "bypassed"
        if session and not state.session and self._link is not None and node != self._node:
            return "later"
        if session and state.session and session != state.session["id"]:
            return "bypassed"
        return ""

    async def _worker(self, link: links.Link) -> None:
        """Hand a data connection to its worker."""
        state = self.state
        await state.until(lambda: state.workers is not None or state.outcome.done())
        current = self._link is not None and link.peer["node"] == self._node and not state.leading
        if current and state.workers is not None and link.peer["session"] == state.session["id"]:
            state.workers.send(
                link.peer["worker"], {"do": "up", "attempt": link.peer["attempt"]}, (link.socket.fileno(),)
            )
        link.release()

    async def _converse(self, link: links.Link) -> None:
        state = self.state
        if self._link is not None:
            self._link.close()
        self._link, self._node, self._heard = link, link.peer["node"], True
        state.signal.notify()
        telling = asyncio.ensure_future(self._tell(link))
        try:
            while True:
                message, blob = await link.receive(state.dead_after)
                await self._obey(message, blob)
        except (OSError, Damaged):
            pass
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await telling
        link.close()
        if self._link is link:
            self._link = None
            state.signal.notify()
            await self._orphaned()

    async def _obey(self, message: links.Message, blob: bytes) -> None:
        state = self.state
        if message["do"] == "beat":
            state.upstream_path = message["path"]
            return
        if message["do"] in ANNOUNCEMENTS:
            state.announce(Announcement(message, blob))
        if message["do"] == "session" and state.manifest is None:
            state.manifest = await in_thread(lambda: unpack(inflate(blob)))
            state.signal.notify()

    async def _tell(self, link: links.Link) -> None:
        state = self.state
        told, need_told = "", False
        while True:
            status = state.status()
            message = status.pack()
            text = json.dumps(dict(message, reports=[]))
            blob = b""
            if status.phase >= READY and not need_told and state.prepared is not None:
                blob, need_told = deflate_need(state.need(), len(state.prepared.task.blocks)), True
            await link.send(message, blob)
            told = text
            end = time.monotonic() + state.beat
            while time.monotonic() < end and json.dumps(dict(state.status().pack(), reports=[])) == told:
                await state.signal.wait(max(0.01, end - time.monotonic()))

    async def expect(self) -> None:
        """Lead when no node before this one calls in time."""
        if not await self.state.until(lambda: self._heard, self.state.join_time):
            self.state.staging.progress.log("no previous node has connected; this node reads the source")
            await self._lead()

    async def _orphaned(self) -> None:
        """Lead when the first node is gone, or when none before this one calls in time."""
        state = self.state
        if state.outcome.done() or state.leading or state.announced("abort"):
            return
        if len(state.upstream_path) != 1:
            await state.until(lambda: self._link is not None, 3 * state.dead_after)
        if self._link is None:
            state.staging.progress.log("the previous node is lost; this node reads the source")
            await self._lead()

    async def goodbye(self) -> None:
        """Tell the node before that everything here and after is done."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send(self.state.status().pack())

    async def again(self, worker: int, attempt: int) -> None:
        """Ask for a data connection that broke, if the node before has not seen that by itself."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send({"do": "again", "worker": worker, "attempt": attempt})

    async def fail(self, why: str) -> None:
        """Tell the node before what this one could not do."""
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
