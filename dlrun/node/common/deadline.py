"""A timeout for a part of an asyncio program that stays correct when it is cancelled at any moment."""

import asyncio
import math
from typing import Any, Awaitable, TypeVar

Result = TypeVar("Result")


async def within(timeout: float, work: "Awaitable[Result]") -> Result:
    """The result of `work`; after `timeout` seconds it is cancelled, and asyncio.TimeoutError is raised.

    Not asyncio.wait_for: before Python 3.12 it loses a cancellation that arrives together with the result, and the
    cancelled task then continues as long as the other node sends.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=None if timeout == math.inf else timeout)
    except asyncio.CancelledError:
        await _cancel(task)
        raise
    if not task.done():
        await _cancel(task)
        raise asyncio.TimeoutError
    return task.result()


async def _cancel(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait until it has released its connection, whose descriptor number may be reused."""
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        # Retrieved only so that asyncio does not log "Task exception was never retrieved".
        task.exception()
