"""A deadline for a part of an asyncio program that stays correct when cancelled at any moment."""

import asyncio
import math
from typing import Any, Awaitable, TypeVar

Result = TypeVar("Result")


async def within(patience: float, work: "Awaitable[Result]") -> Result:
    """The result of `work`; after `patience` seconds it is cancelled, and asyncio.TimeoutError raised.

    Not asyncio.wait_for: before Python 3.12 that loses a cancellation that arrives together with the result, and the
    cancelled task then continues for as long as the other node sends.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=None if patience == math.inf else patience)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not task.done():
        await _end(task)
        raise asyncio.TimeoutError
    return task.result()


async def _end(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait until it has released its connection, whose descriptor number may be reused."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # otherwise it would be reported as never looked at
