"""The last step of `stage`: the complete set is verified and published, its use recorded, and the result reported."""

import sys
from typing import TYPE_CHECKING, Any, Dict, Optional

from ..common import text
from ..common.errors import Damaged, NoSpace, system_errors
from ..source.manifest import Manifest
from ..source.part import left_at_source
from ..source.recheck import Looked
from ..store import uses
from ..transfer.task import COPY, WARM, PreparedSet
from .request import Staging

if TYPE_CHECKING:
    from ..store.build import Build


def publish(staging: Staging, build: "Build") -> None:
    """Complete the set, verify it with --verify, and publish it; a damaged copy is removed, and Damaged raised."""
    try:
        with system_errors(staging.error_prefix()):
            staging.notes += build.complete()
            if staging.given.verify:
                build.verify()
            staging.proof.of(build.layout, build.manifest, build.blocks)
            if staging.early is not None:
                staging.early.finish()
            # First: a set without a record is a copy that somebody made.
            uses.touch(staging.area, staging.name)
            if staging.remote:
                # Before the manifest is written: this changes the ctime of files that it shares with the set.
                staging.remote.remove()
            build.publish(staging.sync != "none")
    except (Damaged, NoSpace) as fault:
        # The next run would trust the journal of the damaged copy.
        staging.abandon(full=isinstance(fault, NoSpace))
        raise


def done(staging: Staging, manifest: Manifest, prepared: Optional[PreparedSet], **more: Any) -> None:
    """Record the use and report the set: a JSON line, the notes and a summary, or its path on stdout.

    prepared: None if the set was there, and nothing was prepared; more: further fields of the JSON line.
    """
    area, name, progress, looked = staging.area, staging.name, staging.progress, staging.looked
    role, board = (prepared.how, prepared.task.board) if prepared is not None else (WARM, None)
    compared = _compared(looked) if role == WARM else ""
    uses.touch(area, name)
    uses.record_given(area, name, staging.given)
    if staging.early is not None:
        staging.early.complete(manifest)
    if staging.remote:
        staging.remote.remove()
    place, left = area.data_path(name), left_at_source(manifest, staging.given.source)
    notes = [*staging.notes, *filter(None, [left, *area.notes, *staging.proof.notes])]
    seconds = progress.seconds()
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
        "checked": {where: look.files for where, look in looked.items() if look is not None},
        **({"digest": staging.proof.digest} if staging.proof.digest else {}),
        "hash": staging.hasher.name,
    }
    count, size = text.count(manifest.files(), "file"), text.size(manifest.size())
    summary = "{} in {}: {}, {}{}".format(how, text.seconds(seconds), count, size, compared)
    for note in notes:
        progress.log(note)
    progress.event("done", **dict(details, **more))
    progress.log(summary)
    if not staging.given.json:
        sys.stdout.write(place + "\n")


def _compared(looked: Dict[str, Optional[Looked]]) -> str:
    """How many files were compared before an existing copy was reused."""
    known = [look for look in (looked.get("source"), looked.get("copy")) if look is not None]
    if not known:
        return ""
    # Of a URL or an archive no file is left at the source: then those of the copy were compared.
    shown = next((look for look in known if look.files), known[0])
    if shown.files == shown.total:
        return "; compared size and time of all files"
    return "; compared size and time of {:,} of {:,} files (`recheck: all`: of all)".format(
        shown.files, shown.total
    )
