"""A copy by all nodes of the host list together: what one node does, from the first connection to the report."""

import asyncio

from ..transfer.outcome import RELAY
from ..transfer.staging import Staging
from .member import Member


def run(staging: Staging) -> None:
    """Stage this node's copy together with the other nodes of the host list; raises NodeError if it fails."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    member = Member(staging)
    try:
        loop.run_until_complete(member.run())
    finally:
        member.close()
        # Without this, asyncio would log the tasks that are cancelled at the end.
        loop.set_exception_handler(lambda _, __: None)
        # One more turn of the loop: cancelled tasks release their connections in it.
        loop.run_until_complete(asyncio.sleep(0))
    staged = member.staged
    if staged is None:
        return
    # After the end of the chain, so that no other node waits for this one while it waits for the other job's lock.
    if staged.prepared.how == RELAY:
        staging.lock()
        staging.copy_here(staged.manifest, **staged.more)
    else:
        staging.done(staged.manifest, staged.prepared, **staged.more)
