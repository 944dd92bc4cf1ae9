"""A copy by all nodes of the host list together: this node's part in the chain, from the first call to the report."""

import asyncio

from .member import Member
from .stage import RELAY, Stage


def run(stage: Stage) -> None:
    """Stage together with the other nodes of the host list."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    member = Member(stage)
    try:
        loop.run_until_complete(member.run())
    finally:
        member.close()
        loop.set_exception_handler(lambda _, __: None)  # what is given up by ending is no news
        loop.run_until_complete(asyncio.sleep(0))
    staged = member.staged
    if staged is None:
        return
    if staged.prepared.how == RELAY:  # out of the chain: nobody waits for us while we wait for the other job
        stage.lock()
        stage.copy_here(staged.manifest, **staged.more)
    else:
        stage.done(staged.manifest, staged.prepared, **staged.more)
