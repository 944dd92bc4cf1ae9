"""`results`: create or remove the node-local directory, with mode 0700, for the results of a job.

Its name in the staging directory begins with a dot, which names of data sets cannot.
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
    arguments = parser.parse_args(argv)
    name = PREFIX + set_name(arguments.name)
    if arguments.remove:
        # Without the staging directory there is nothing to remove, and Area(make=False) would fail.
        if os.path.isdir(arguments.to):
            area = Area(arguments.to, make=False)
            area.discard(area.directory, name)
        return
    area = Area(arguments.to)
    # A restarted job finds its earlier results here, and continues with them.
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=area.directory)
