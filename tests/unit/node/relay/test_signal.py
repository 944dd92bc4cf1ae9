"""Waiting for any change, in one asyncio loop."""

import asyncio

import pytest
from dlrun.node.relay.messages import Signal


@pytest.mark.parametrize("turns", range(4))
def test_who_waits_can_be_cancelled_at_any_moment(turns):
    """Also together with the change, when asyncio.wait_for of Python 3.11 and before would lose it."""
    signal, woken = Signal(), []

    async def waiting():
        while True:
            await signal.wait(60)
            woken.append(True)
            if len(woken) > 1:
                return

    async def run():
        task = asyncio.ensure_future(waiting())
        await asyncio.sleep(0)
        signal.notify()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        signal.notify()  # ends a task that was not cancelled
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


def test_a_wait_ends_by_itself():
    signal = Signal()
    asyncio.run(signal.wait(0.01))
    signal.notify()
