"""`stage`: copy one data set to this node, or with a host list to every node, complete and checked."""

import os
import sys
from typing import List

from ..common.errors import NoSpace
from ..transfer.staging import Staging
from .options import stage as arguments


def main(argv: List[str]) -> None:
    """Run `stage`."""
    given = arguments(argv)
    os.umask(0)  # modes are set as the manifest has them; what is ours alone is made 0700 or 0600
    staging = Staging(given)
    try:
        _run(staging)
    except NoSpace as fault:
        if given.else_in_place is None:
            raise
        _in_place(staging, fault)


def _run(staging: Staging) -> None:
    if staging.given.hosts is None:
        staging.alone()
        return
    from ..relay import chain  # asyncio and sockets, which one node by itself does not need

    chain.run(staging)


def _in_place(staging: Staging, fault: NoSpace) -> None:
    """Report that the set is read where it is."""
    with open(staging.given.else_in_place, "w", encoding="utf-8") as file:
        file.write(fault.message + "\n")
    staging.progress.say("read in place: " + fault.message)
    staging.progress.event("in place", why=fault.message, path=staging.given.source)
    if not staging.given.json:
        sys.stdout.write(staging.given.source + "\n")
