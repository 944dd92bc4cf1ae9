"""`results`: create or remove the node-local directory, of mode 0700, for the results of a job.

It is a hidden name in the staging directory: names of data sets do not begin with a dot.
"""

import contextlib
import os
from typing import List

from ..store.area import Area, set_name
from .options import Parser, store_options

PREFIX = b".results-"


def main(argv: List[str]) -> None:
    """Run `results`."""
    parser = Parser(
        "results", "Create or remove the directory for a job's results on this node, DIR/.results-NAME."
    )
    store_options(parser)
    parser.add_argument("--name", required=True, help="of the job's run")
    parser.add_argument("--remove", action="store_true", help="remove it: the results have been copied")
    given = parser.parse_args(argv)
    name = PREFIX + set_name(given.name)
    if given.remove:
        # Area(make=False) fails without the staging directory, but then there is nothing to remove.
        if os.path.isdir(given.to):
            area = Area(given.to, make=False)
            area.discard(area.directory, name)
        return
    area = Area(given.to)
    # A restarted job continues with the results that are here.
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=area.directory)
