"""The side that listens: the node before this one, its facts, and what to do when it is silent."""

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, List, Optional

from . import hosts, lead
from . import link as links
from .errors import Damaged
from .facts import FACTS, READY, Fact
from .listener import Listener
from .manifest import unpack
from .threads import in_thread

if TYPE_CHECKING:
    from .member import Member


class NodeBefore:
    """Listens on this node's address; `path` are the nodes before this one, as the last of them told."""

    def __init__(self, member: "Member", bind: str) -> None:
        self.member = member
        self.path: List[int] = []
        self._bind = bind or member.names[member.index]
        self._listener: Optional[Listener] = None
        self._link: Optional[links.Link] = None
        self._node = -1
        self._heard = False

    def listen(self) -> None:
        """Begin to listen."""
        member = self.member
        self._listener = Listener(hosts.listen(hosts.address(self._bind), member.port), member.secret)
        member.spawn(self._listener.serve(lambda link: member.spawn(self._answer(link))))

    async def _answer(self, link: links.Link) -> None:
        caller, member = link.peer, self.member
        if caller["set"] != member.stage.given.name or caller["count"] != len(member.names):
            refusal = "other"
        elif caller["role"] == "lane":
            await self._lane(link)
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
        member = self.member
        if member.leading or (self._link is not None and node > self._node):
            return "bypassed"
        if session and not member.session and self._link is not None and node != self._node:
            return "later"
        if session and member.session and session != member.session["id"]:
            return "bypassed"
        return ""

    async def _lane(self, link: links.Link) -> None:
        """Hand a data connection to its lane."""
        member = self.member
        await member.until(lambda: member.crew is not None or member.outcome.done())
        current = self._link is not None and link.peer["node"] == self._node and not member.leading
        if current and member.crew is not None and link.peer["session"] == member.session["id"]:
            member.crew.tell(
                link.peer["lane"], {"do": "up", "attempt": link.peer["attempt"]}, (link.socket.fileno(),)
            )
        link.release()

    async def _converse(self, link: links.Link) -> None:
        member = self.member
        if self._link is not None:
            self._link.close()
        self._link, self._node, self._heard = link, link.peer["node"], True
        member.signal.tell()
        telling = asyncio.ensure_future(self._tell(link))
        try:
            while True:
                message, blob = await link.receive(member.dead_after)
                await self._obey(message, blob)
        except (OSError, Damaged):
            pass
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await telling
        link.close()
        if self._link is link:
            self._link = None
            member.signal.tell()
            await self._orphaned()

    async def _obey(self, message: links.Message, blob: bytes) -> None:
        member = self.member
        if message["do"] == "beat":
            self.path = message["path"]
            return
        if message["do"] in FACTS:
            member.learn(Fact(message, blob))
        if message["do"] == "session" and member.manifest is None:
            member.manifest = await in_thread(lambda: unpack(lead.inflate(blob)))
            member.signal.tell()

    async def _tell(self, link: links.Link) -> None:
        member = self.member
        told, need_told = "", False
        while True:
            standing = member.standing()
            message = standing.pack()
            text = json.dumps(dict(message, reports=[]))
            blob = b""
            if standing.phase >= READY and not need_told and member.prepared is not None:
                blob, need_told = lead.deflate_need(member.need(), len(member.prepared.task.blocks)), True
            await link.send(message, blob)
            told = text
            end = time.monotonic() + member.beat
            while time.monotonic() < end and json.dumps(dict(member.standing().pack(), reports=[])) == told:
                await member.signal.wait(max(0.01, end - time.monotonic()))

    async def expect(self) -> None:
        """Lead when no node before this one calls in time."""
        if not await self.member.until(lambda: self._heard, self.member.join_time):
            self.member.stage.progress.say("no node before this one has called; it leads")
            await lead.lead(self.member)

    async def _orphaned(self) -> None:
        """Lead when the first node is gone, or when none before this one calls in time."""
        member = self.member
        if member.outcome.done() or member.leading or member.fact("abort"):
            return
        if len(self.path) != 1:
            await member.until(lambda: self._link is not None, 3 * member.dead_after)
        if self._link is None:
            member.stage.progress.say("the node before this one is lost; this one leads")
            await lead.lead(member)

    async def goodbye(self) -> None:
        """Tell the node before that everything here and after is done."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send(self.member.standing().pack())

    async def again(self, lane: int, attempt: int) -> None:
        """Ask for a data connection that broke, if the node before has not seen that by itself."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                await self._link.send({"do": "again", "lane": lane, "attempt": attempt})

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
