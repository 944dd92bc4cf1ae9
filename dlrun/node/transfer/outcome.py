"""The role of a node in a copy, and the final report."""

import argparse
import sys
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from ..common import text
from ..common.progress import Progress
from ..source.manifest import Manifest
from ..source.recheck import Looked
from .task import Task

if TYPE_CHECKING:
    from ..store.build import Build

WARM, COPY, RELAY = "warm", "copy", "relay"


class PreparedSet(NamedTuple):
    """The role of this node: `warm` (has the set), `copy`, or `relay` (only forwards blocks: another job copies the set).

    missing: bytes still to be copied; build: the unfinished set, for `copy` only.
    """

    how: str
    task: Task
    missing: int
    build: "Optional[Build]" = None


def report(
    progress: Progress,
    given: argparse.Namespace,
    manifest: Manifest,
    prepared: Optional[PreparedSet],
    place: str,
    notes: List[str],
    looked: Dict[str, Optional[Looked]],
    **more: Any,
) -> None:
    """Report a published set at `place`: a JSON line, the notes and a summary, or its path on stdout.

    prepared: None if the set was there (`warm`); looked: the files of `source` and `copy` whose status was compared; more:
    further fields of the JSON line.
    """
    for note in notes:
        progress.log(note)
    seconds, role, board = progress.seconds(), WARM, None
    if prepared is not None:
        role, board = prepared.how, prepared.task.board
    how = role if role != COPY else "copied"
    details = {
        "path": place,
        "how": how,
        "bytes": manifest.size(),
        "files": manifest.files(),
        "copied": board.total("bytes") if board else 0,
        "read": board.total("read") if board else 0,
        "seconds": round(seconds, 3),
        "notes": notes,
        "checked": {where: found.files for where, found in looked.items() if found is not None},
    }
    progress.event("done", **dict(details, **more))
    count, size = text.count(manifest.files(), "file"), text.size(manifest.size())
    compared = _compared(looked) if role == WARM else ""
    progress.log("{} in {}: {}, {}{}".format(how, text.seconds(seconds), count, size, compared))
    if not given.json:
        sys.stdout.write(place + "\n")


def _compared(looked: Dict[str, Optional[Looked]]) -> str:
    """How many files were compared before an existing copy was reused."""
    known = [one for one in (looked.get("source"), looked.get("copy")) if one is not None]
    if not known:
        return ""
    # Of a URL or an archive no file is left at the source: then those of the copy were compared.
    found = next((one for one in known if one.files), known[0])
    if found.files == found.total:
        return "; compared size and time of all files"
    return "; compared size and time of {:,} of {:,} files (`recheck: all`: of all)".format(
        found.files, found.total
    )
