"""Pull an image into the store: once for all submissions, complete or not there at all."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dlrun.errors import OperationFailed
from dlrun.jobs.hubs import store
from dlrun.jobs.images import place as places, registry, runtime
from dlrun.jobs.images.place import ImageCopy
from dlrun.model.program import ImageSource
from dlrun.model.units import Duration

_DAY = 86_400.0


def fetched(
    source: ImageSource, place: Path, *, secrets: Mapping[str, str], notice: Callable[[str], None]
) -> ImageCopy:
    """An image in a store, pulled if it is not there. What has its digest already, and is there, needs no network.

    secrets: variables with credentials for the container runtime. Raises Invalid without that, OperationFailed otherwise.
    """
    if (there := places.find(place, source)) is not None:
        return there
    environment = {**os.environ, **secrets}
    known = source
    if source.digest is None and (digest := registry.digest(source, environment, notice)) is not None:
        known = ImageSource(uri=source.uri, digest=digest)
        if (there := places.find(place, known)) is not None:
            return there
    program = runtime.program(source)
    directory = places.repository(place, source)
    store.make(directory)
    store.report_if_busy(directory, source, notice)
    with store.locked(directory, _DAY):
        try:
            return places.find(place, known) or _pulled(known, directory, program, environment, notice)
        except OSError as error:
            raise runtime.failed(source, error.strerror or str(error)) from None
        except OperationFailed as error:
            raise _with_known(error, source, directory) from None


def _pulled(
    source: ImageSource,
    directory: Path,
    program: str,
    environment: Mapping[str, str],
    notice: Callable[[str], None],
) -> ImageCopy:
    start = time.monotonic()
    work = directory / f".{places.key(source)}.parts"
    work.mkdir(mode=0o700, exist_ok=True)
    for old in work.glob("new-*"):
        with suppress(OSError):
            store.wipe(old)
    # An attempt of its own: what an earlier one left running, after a kill, writes elsewhere.
    path = Path(tempfile.mkdtemp(prefix="new-", dir=work)) / "image.sif"
    notice(f"{source}: pulled and converted once for all jobs, by {program}, into {directory}")
    runtime.pull(source, program, to=path, work=work, inherited=environment, notice=notice)
    if source.digest is None or source.of_file:
        source = _by_content(source, path)
    copy = places.keep(source, path, directory)
    with suppress(OSError):  # `dlrun clean` removes what is left
        store.wipe(work)
    took = Duration(max(1, round(time.monotonic() - start)))
    notice(f"{source}: {copy.size} in the store after {took}, {source.digest}")
    return copy


def _by_content(source: ImageSource, path: Path) -> ImageSource:
    """The source with the digest of its file, where a registry gave none; raises OperationFailed if it had another."""
    digest = sha256()
    with path.open("rb") as content:
        while piece := content.read(1 << 20):
            digest.update(piece)
    actual = f"sha256:{digest.hexdigest()}"
    if source.digest not in (None, actual):
        raise OperationFailed(
            f"`{source}` is not what the job was submitted with: its file is now {actual}",
            help="submit the spec again: the job then has this image",
        )
    return ImageSource(uri=source.uri, digest=actual, of_file=True)


def _with_known(error: OperationFailed, source: ImageSource, directory: Path) -> OperationFailed:
    """The error with the digests that are in the store, which need no network."""
    names = sorted(path.name.partition("-")[0] for path in directory.glob("*.json"))
    if not names or source.registry is None or source.digest is not None:
        return error
    known = ", ".join(f"`@sha256:{name}`" for name in names[:3])
    return OperationFailed(error.message, help=f"{error.help}; in the store: {known}")
