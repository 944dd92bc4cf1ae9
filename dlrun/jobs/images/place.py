"""The place of an image in the store, which is that of `hubs`: by registry, repository and digest."""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlrun.jobs.hubs import store
from dlrun.model.program import ImageSource
from dlrun.model.record import record
from dlrun.model.units import Bytes
from dlrun.system.writing import replace

_FILE = "image.sif"


@record(frozen=True, slots=True, kw_only=True)
class ImageCopy:
    """An image in the store: its source with the digest, the path of its file, and its size."""

    source: ImageSource
    path: str
    size: Bytes


def repository(place: Path, source: ImageSource) -> Path:
    """The directory of an image's versions in a store."""
    return place / source.folder


def find(place: Path, source: ImageSource) -> ImageCopy | None:
    """An image with this digest in a store; None if there is none, or the source has none yet."""
    if source.digest is None:
        return None
    directory = repository(place, source) / key(source)
    facts, path = store.facts_of(directory), directory / _FILE
    with suppress(OSError):
        if facts is not None and (size := path.lstat().st_size) == facts.get("bytes"):
            return ImageCopy(source=source, path=str(path), size=Bytes(size))
    return None


def key(source: ImageSource) -> str:
    """The name of a version; of an index with several architectures, the runtime takes this host's."""
    return f"{(source.digest or 'sha256:latest').partition(':')[2]}-{platform.machine()}"


def keep(source: ImageSource, path: Path, directory: Path) -> ImageCopy:
    """Move a complete file to its place in the directory of its versions; the mark beside it comes last. Raises OSError."""
    version = directory / key(source)
    size = Bytes(path.stat().st_size)
    facts: dict[str, Any] = {
        "version": 1, "image": source.uri, "digest": source.digest, "of_file": source.of_file, "files": 1, "bytes": size,
        "architecture": platform.machine(), "fetched": time.time(),
    }  # fmt: skip
    if find(directory.parent, source) is None:
        path.chmod(0o400)  # ranks read it, and must not change what other jobs read
        with path.open("rb") as file:
            os.fsync(file.fileno())
        new = version.with_name(f".{version.name}.new")
        store.mark_of(version).unlink(missing_ok=True)
        # What an earlier attempt has left: without its mark it is not complete.
        for leftover in (new, version):
            if leftover.exists():
                store.wipe(leftover)
        new.mkdir(mode=0o700)
        path.rename(new / _FILE)
        new.rename(version)
        replace(store.mark_of(version), json.dumps(facts, indent=1) + "\n", mode=0o600, flush=True)
    return ImageCopy(source=source, path=str(version / _FILE), size=size)
