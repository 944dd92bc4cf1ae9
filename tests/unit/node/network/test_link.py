"""A connection on which nodes agree, in one asyncio loop."""

import asyncio
import socket

import pytest
from dlrun.node.common.deadline import within
from dlrun.node.network.link import Link

KEY = b"k" * 32


@pytest.mark.parametrize("turns", range(12))
def test_who_receives_can_be_cancelled_at_any_moment(turns):
    """Also together with a message: asyncio.wait_for of Python 3.11 and before would lose it and receive on."""

    async def receiving(link):
        while True:
            await link.receive(60)

    async def run():
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        task = asyncio.ensure_future(receiving(Link(ours, KEY, caller=True)))
        for _ in range(6):  # until it waits
            await asyncio.sleep(0)
        await Link(theirs, KEY, caller=False).send({"do": "beat"})
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=60)
        theirs.close()  # ends a task that was not cancelled
        await asyncio.wait([task])
        ours.close()
        return bool(done) and task.cancelled()

    assert asyncio.run(run())


def test_what_takes_too_long_is_cancelled_and_what_fails_raises():
    async def run():
        ended = []

        async def slow():
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(True)

        async def failing():
            raise ConnectionResetError

        with pytest.raises(asyncio.TimeoutError):
            await within(0.01, slow())
        with pytest.raises(ConnectionResetError):
            await within(60, failing())
        return ended

    assert asyncio.run(run()) == [True]
