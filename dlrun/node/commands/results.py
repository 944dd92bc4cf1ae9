"""`results`: the directory on a node that a job's program writes its results to, ours alone; made, and removed again.

It stands hidden in the staging directory, where no data set can have its name.
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
        if os.path.isdir(given.to):
            area = Area(given.to, make=False)
            area.discard(area.directory, name)
        return
    area = Area(given.to)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=area.directory)
