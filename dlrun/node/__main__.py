"""The node programs by name: `python3 node.pyz stage ...`, or `python3 -m dlrun.node stage ...`."""

import gc
import importlib
import sys
from typing import List, Optional

GARBAGE = 100_000, 50, 100  # objects and rounds between collections: manifests of millions are no garbage
COMMANDS = {
    "stage": ("stage:main", "bring a data set to this node, or to all nodes of a job"),
    "out": ("out:main", "bring results from this node to a shared file system"),
    "list": ("cache_commands:list_sets", "the data sets of this node"),
    "evict": ("cache_commands:evict", "remove data sets that no running job uses"),
    "clean": ("cache_commands:clean", "remove what dead or ended jobs left"),
    "mend": ("mend:main", "make a staged Python environment start its own interpreter"),
    "results": ("results:main", "make or remove the directory for a job's results on this node"),
    "check-rank": ("check_rank:main", "say what this rank is, and whether it reaches the others"),
    "verify": ("cache_commands:verify", "read a data set back and check its hashes"),
}
GOES_ON = {"stage": "what was copied and checked so far stays; the same command goes on from there"}
"""What a command that was interrupted leaves, and how it is resumed."""


def usage() -> str:
    """The list of commands."""
    lines = ["  {:<12} {}".format(name, about) for name, (_, about) in sorted(COMMANDS.items())]
    return "usage: node.pyz COMMAND ...\n\n{}\n".format("\n".join(lines))


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command; its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] not in COMMANDS:
        wants_help = bool(words) and words[0] in ("-h", "--help", "help")
        (sys.stdout if wants_help else sys.stderr).write(usage())
        return 0 if wants_help else 2
    from .errors import Interrupted, NodeError

    gc.set_threshold(*GARBAGE)
    module, _, function = COMMANDS[words[0]][0].partition(":")
    try:
        return int(getattr(importlib.import_module("." + module, __package__), function)(words[1:]) or 0)
    except NodeError as caught:
        fault = caught
    except KeyboardInterrupt:
        fault = Interrupted("interrupted", GOES_ON.get(words[0]))
    sys.stderr.write(fault.report())
    return fault.exit_code


if __name__ == "__main__":
    sys.exit(main())
