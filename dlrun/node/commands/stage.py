"""`stage`: copy one data set to this node, or with a host list to all nodes of a job, and check its hashes."""

import argparse
import os
import sys
from typing import List, Optional

from ..common.errors import NodeError, NoSpace, system_errors
from ..common.progress import Progress
from ..common.safety import for_this_user
from ..source.subset import shard_of
from ..staging import publishing, survey_source
from ..staging.compare import is_current
from ..staging.request import Staging
from ..store.early import Watch
from .options import stage_arguments


def main(argv: List[str], watch: Optional[Watch] = None) -> None:
    """Run `stage`; raises NodeError if the set was not published. watch: follows a copy, of a set without early files."""
    arguments = stage_arguments(argv)
    # Files get the modes in the manifest; private files and directories are created with mode 0600 or 0700.
    os.umask(0)
    progress = Progress(arguments.name, arguments.json, arguments.quiet, arguments.interval)
    staging: Optional[Staging] = None
    try:
        with system_errors("cannot stage `{}` on {}".format(arguments.name, os.uname().nodename)):
            staging = Staging(arguments, progress, watch)
            _run(staging)
    except NodeError as fault:
        if staging is not None and staging.early is not None:
            # A training that has already begun may wait for files in `dlrun_data.wait`: end its wait, too.
            staging.early.failed(fault.message)
        if not isinstance(fault, NoSpace):
            raise
        if arguments.else_in_place is None:
            raise
        _in_place(arguments, progress, fault)
    finally:
        if staging is not None:
            staging.unlock()


def _run(staging: Staging) -> None:
    if staging.given.hosts is not None:
        # Imported only here: a copy by one node does not need asyncio and sockets.
        from ..relay import member

        member.run(staging)
        return
    staging.shard = shard_of(staging.given, 0, 1)
    staging.lock()
    staging.published.locked = True
    surveyed = survey_source.usable(staging, survey_source.survey(staging))
    surveyed = survey_source.fit(staging, surveyed, survey_source.room_of(staging))
    surveyed = survey_source.plan_delta(staging, surveyed, relayed=False)
    if surveyed.is_current is None:
        surveyed = surveyed._replace(is_current=is_current(staging, surveyed.manifest))
    if surveyed.is_current:  # blocks and a task would be for other nodes
        publishing.done(staging, surveyed.manifest, None)
        return
    from ..staging import copying  # only here, as above

    copying.copy(staging, copying.prepare(staging, surveyed))


def _in_place(arguments: argparse.Namespace, progress: Progress, fault: NoSpace) -> None:
    """Report, in the --else-in-place file and on stdout, that the job reads the source in place."""
    with open(arguments.else_in_place, "w", encoding="utf-8", opener=for_this_user) as file:
        file.write(fault.message + "\n")
    progress.log("read in place: " + fault.message)
    progress.event("in place", why=fault.message, path=arguments.source)
    if not arguments.json:
        sys.stdout.write(arguments.source + "\n")
