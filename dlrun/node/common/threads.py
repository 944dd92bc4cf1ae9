"""Run blocking work in threads that end with the work: beside an asyncio loop, or several side by side.

Not an executor, like the loop's: its idle threads would still exist when the process forks its workers, and a lock that one of
them holds at that moment stays locked in the child.
"""

import asyncio
import threading
from typing import Any, Callable, List, TypeVar

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
        outcome: Result = await done
    finally:
        # The thread has returned its result and is about to end; a cancelled wait does not block the loop for longer.
        thread.join(1.0)
    return outcome


def side_by_side(work: Callable[[Any], Any], items: List[Any], count: int) -> List[Any]:
    """The results of some work for each item, by up to `count` threads; raises the first exception when all have ended."""
    results, faults = [None] * len(items), []  # type: List[Any], List[BaseException]
    turn, lock = iter(range(len(items))), threading.Lock()

    def run() -> None:
        while not faults:
            with lock:
                number = next(turn, None)
            if number is None:
                return
            try:
                results[number] = work(items[number])
            except BaseException as fault:  # noqa: BLE001 - raised where it is waited for
                faults.append(fault)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(count, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return results
