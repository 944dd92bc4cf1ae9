"""The connection to the next node, with a link that fails as told."""

import asyncio
from types import SimpleNamespace

from dlrun.node.relay.downstream import Downstream


class BrokenLink:
    """Sending fails at once; what the node reported before it exited arrives a moment later."""

    def __init__(self):
        self.reports = [{"do": "failed", "why": "the disk filled up"}]

    async def send(self, message, blob=b""):
        raise BrokenPipeError

    async def receive(self, timeout):
        await asyncio.sleep(0.05)
        if not self.reports:
            raise ConnectionResetError
        return self.reports.pop(), b""

    def close(self):
        pass


async def _never(*_):
    await asyncio.Event().wait()


def test_the_reason_of_a_node_that_exits_is_read_also_where_sending_fails_first():
    state = SimpleNamespace(
        beat=1.0, dead_after=5.0, announcements=[], workers=None, failures={}, path=list, until=_never,
        signal=SimpleNamespace(wait=_never, notify=lambda: None),
    )  # fmt: skip

    async def exchange():
        await Downstream(state, 1, lambda *_: None, lambda: None)._exchange(BrokenLink())

    asyncio.run(exchange())
    assert state.failures == {1: "the disk filled up"}
