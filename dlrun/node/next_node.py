"""One node after this one: called, told what is known, heard, called again, and left behind when it is dead."""

import asyncio
import time
from typing import TYPE_CHECKING, Dict, Optional

from . import hosts, lead
from . import link as links
from .errors import Damaged
from .facts import DONE, Standing, standing

if TYPE_CHECKING:
    from .member import Member

GRACE = 1.0  # seconds for a node that should have been there long ago
RETRY = 0.1  # seconds between calls to a node that does not answer yet
MOST_BREAKS = 5  # times that a node's data connections may break while the node itself answers


class NextNode:
    """The connection to one node after this one. `phase` and `standing` are what it told last."""

    def __init__(self, member: "Member", node: int) -> None:
        self.member, self.node = member, node
        self.standing = Standing()
        self.gone = False
        self.told_abort = False
        self._link: Optional[links.Link] = None
        self._breaks = 0
        self._attempts: Dict[int, int] = {}
        self._attached = False

    @property
    def settled(self) -> int:
        """The phase that the nodes from here on have reached; a node that is gone holds nobody up."""
        return DONE if self.gone else self.standing.phase

    async def serve(self) -> None:
        """Stay connected until the node and all after it are done, or it is dead."""
        end = max(self.member.join_end, time.monotonic() + GRACE)
        known, over = False, False
        why = "it did not answer"
        while not over:
            try:
                why = await self._converse(await self._call())
                known, end = True, time.monotonic() + self.member.dead_after
            except ConnectionRefusedError:
                why = "its node program has ended" if known else "no node program listens there"
                over = known
            except (OSError, Damaged) as fault:
                why = str(fault)
            if self.gone or self.standing.phase == DONE or self.told_abort:
                return
            over = over or time.monotonic() > end
            if not over:
                await asyncio.sleep(RETRY)
        self.gone = True
        self.member.leave(self.node, self.member.failures.get(self.node, why))

    def dismiss(self) -> None:
        """End the connection: another node is before that one now."""
        self.gone = True
        if self._link is not None:
            self._link.close()

    async def _call(self, role: str = "control", lane: int = 0, attempt: int = 0) -> links.Link:
        member = self.member
        where = hosts.address(member.names[self.node])
        link = await links.call(
            where, member.port, member.secret, member.introduction(role, lane, attempt), member.dead_after
        )
        if role == "lane":
            return link
        answer, _ = await link.receive(member.dead_after)
        if answer["do"] != "welcome":
            link.close()
            if answer["why"] == "bypassed" and not self.gone:
                member.cut_off()
            message = (
                "it works on another data set"
                if answer["why"] == "other"
                else "it has another node before it"
            )
            raise ConnectionAbortedError(message)
        return link

    async def _converse(self, link: links.Link) -> str:
        """Tell and hear until the connection ends; why it ended."""
        if self.gone:
            link.close()
            return "another node is before it"
        self._link, self._attached = link, False
        tasks = [asyncio.ensure_future(work(link)) for work in (self._tell, self._hear, self._beat)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
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
        self.member.signal.tell()
        return why

    async def _tell(self, link: links.Link) -> None:
        member = self.member
        told = 0
        while True:
            while told < len(member.facts):
                fact = member.facts[told]
                await link.send(fact.message, fact.blob)
                told += 1
                if fact.message["do"] == "abort":
                    self.told_abort = True
                    return
            if member.crew is not None and not self._attached and not member.stage.part:
                self._attached = True
                for lane in range(len(member.crew.channels)):
                    await self._attach(lane)
            await member.signal.wait(member.beat)

    async def _beat(self, link: links.Link) -> None:
        while True:
            await link.send({"do": "beat", "path": self.member.path()})
            await asyncio.sleep(self.member.beat)

    async def _hear(self, link: links.Link) -> None:
        member = self.member
        while self.standing.phase != DONE:
            message, blob = await link.receive(member.dead_after)
            if message["do"] == "standing":
                self.standing = standing(message)
                if blob:
                    member.needs[self.node] = lead.inflate_need(blob)
                member.signal.tell()
            elif message["do"] == "failed":
                member.failures[self.node] = message["why"]
            elif message["do"] == "again":
                self.broken(message["lane"], message["attempt"])

    async def _attach(self, lane: int) -> None:
        """Connect a lane to the node's lane and hand the connection over."""
        attempt = self._attempts[lane] = self._attempts.get(lane, 0) + 1
        link = await self._call("lane", lane, attempt)
        if self.member.crew is not None:
            order = {"do": "down", "node": self.node, "attempt": attempt}
            self.member.crew.tell(lane, order, (link.socket.fileno(),))
        link.release()

    def broken(self, lane: int, attempt: int) -> None:
        """A data connection broke, as one of its ends says: connect it again while the node answers."""
        old = attempt != self._attempts.get(lane)
        if old or self._link is None or self.gone or self.standing.phase == DONE:
            return
        self._attempts[lane] = attempt + 1  # the other end says the same: once is enough
        self._breaks += 1
        self.member.spawn(self._reattach(lane))

    async def _reattach(self, lane: int) -> None:
        await asyncio.sleep(RETRY)
        link, crew = self._link, self.member.crew
        if link is None or crew is None:
            return
        crew.tell(lane, {"do": "drop", "node": self.node})
        try:
            if self._breaks > MOST_BREAKS:
                raise ConnectionAbortedError
            await self._attach(lane)
        except (OSError, Damaged):
            link.close()
