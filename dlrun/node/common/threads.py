"""Run blocking work beside an asyncio loop, in a thread that ends with the work.

Not the loop's executor: its idle threads would still exist when the process forks its workers, and a lock that one of
them holds at that moment stays locked in the child.
"""

import asyncio
import threading
from typing import Any, Callable, TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread without blocking the loop; returns its result or raises its exception."""
    loop = asyncio.get_event_loop()
    done = loop.create_future()

    def settle(result: Any, fault: Any) -> None:
        # The waiting task may have been cancelled in the meantime.
        if not done.done():
            if fault is None:
                done.set_result(result)
            else:
                done.set_exception(fault)

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 - raised again where it is awaited
            fault = caught
        loop.call_soon_threadsafe(settle, result, fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        found: Result = await done
    finally:
        # The thread has returned its result and is about to end; a cancelled wait does not block the loop for longer.
        thread.join(1.0)
    return found
