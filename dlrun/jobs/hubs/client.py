"""Requests to the hub with its own library: the files of a revision, and the content of each, with patience and a limit to it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from hashlib import sha1, sha256
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from dlrun.errors import DlrunError, Invalid, OperationFailed
from dlrun.model.data import HubSource
from dlrun.model.text import visible
from dlrun.model.units import Duration

T = TypeVar("T")

_PIECE = 1 << 20
_SECONDS = 30.0
"""Without an answer, or without data."""
_TRIES = 5
"""Requests that fail one after another, without data in between."""
_MOST_WAITING = 900.0
"""Seconds that a submission waits for a hub which limits requests."""
_LIMITED = 429
_TOKEN = "give a token that may read it: `secrets: {HF_TOKEN: {file: PATH}}`, or the variable `HF_TOKEN`"  # noqa: S105 - advice


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file of a revision: path, bytes, and the digest of its content (`sha256`), or of its git object (`sha1`)."""

    name: str
    size: int
    digest: str


class Damaged(Exception):
    """What has come is not what the hub lists."""


class Revision(NamedTuple):
    """The commit of a source, and its files."""

    commit: str
    files: list[File]


class Client:
    """The hub, for one repository; token: None for that of `HF_TOKEN` or of the user's login.

    `notice` is called with each reason to wait. Raises Invalid without the library.
    """

    def __init__(self, source: HubSource, token: str | None, notice: Callable[[str], None]) -> None:
        try:
            self._hub: Any = import_module("huggingface_hub")
            self._errors: Any = import_module("huggingface_hub.errors")
            self._utils: Any = import_module("huggingface_hub.utils")
        except ImportError:
            raise Invalid(
                f"`{source}` is fetched with the Python package huggingface_hub, which is not installed beside dlrun",
                help="`pip install 'dlrun[hub]'`",
            ) from None
        self._source, self._token, self._notice = source, token, notice
        self._until, self._lock = 0.0, Lock()
        self.faults: tuple[type[Exception], ...] = (self._errors.HTTPError, OSError, ValueError)

    def revision(self) -> Revision:
        """The revision of the source; raises DlrunError."""
        source = self._source
        api = self._hub.HfApi(token=self._token)

        def asked() -> Any:
            return api.repo_info(
                source.repository,
                repo_type=source.kind,
                revision=source.commit or source.revision,
                files_metadata=True,
                timeout=_SECONDS,
            )

        try:
            info = self._patiently(asked, lambda: 0, 2)
        except self.faults as error:
            raise self.fault(error) from None
        files = [
            File(
                name=sibling.rfilename,
                size=sibling.size or 0,
                digest=sibling.lfs.sha256 if sibling.lfs else sibling.blob_id or "",
            )
            for sibling in info.siblings or ()
        ]
        for file in files:
            if file.name.startswith("/") or "\0" in file.name or {"", ".", ".."} & set(file.name.split("/")):
                raise OperationFailed(
                    f"`{source}` has a file with a name that leads elsewhere: `{visible(file.name)}`"
                )
        return Revision(info.sha, files)

    def download(self, file: File, commit: str, to: Path) -> None:
        """Download a file to a path, from where an earlier attempt ended; raises the `faults`, or Damaged."""
        source = self._source
        url = self._hub.hf_hub_url(source.repository, file.name, repo_type=source.kind, revision=commit)
        # Without compression, so that a part is a part of the file.
        headers = {**self._utils.build_hf_headers(token=self._token), "Accept-Encoding": "identity"}

        def more() -> None:
            with to.open("ab") as out:
                start = out.tell()
                if start > file.size:
                    start = out.truncate(0)
                if start == file.size:
                    return
                asked = headers | ({"Range": f"bytes={start}-"} if start else {})
                with self._utils.get_session().stream("GET", url, headers=asked, timeout=_SECONDS) as answer:
                    self._utils.hf_raise_for_status(answer)
                    if start and answer.status_code != 206:
                        out.truncate(0)
                    for piece in (
                        answer.iter_bytes()
                    ):  # unbuffered, so that nothing is lost when the connection is cut
                        out.write(piece)
                    out.flush()
                    os.fsync(out.fileno())

        self._patiently(more, lambda: to.stat().st_size if to.exists() else 0, _TRIES)
        if not _is_whole(to, file):
            to.unlink()
            raise Damaged(file.name)

    def _patiently(self, what: Callable[[], T], size: Callable[[], int], most: int) -> T:
        """The result, after some tries: as many as `most` without progress, and waits as long as the hub says."""
        waited, tries, last = 0.0, 0, size()
        while True:
            try:
                return what()
            except self.faults as error:
                if (now := size()) > last:
                    tries, last = 0, now
                tries += 1
                pause = self._pause(error, tries)
                if (
                    pause is None
                    or waited + pause > _MOST_WAITING
                    or (tries >= most and not self._limits(error))
                ):
                    raise
                waited += pause
                self._report(error, pause)
                time.sleep(pause)

    def _pause(self, error: Exception, tries: int) -> float | None:
        """Seconds until another try; None if that would change nothing."""
        answer = getattr(error, "response", None)
        if answer is None:
            cut = isinstance(error, self._errors.HTTPError) and not isinstance(
                error, self._errors.OfflineModeIsEnabled
            )
            return 2.0 ** (tries - 1) if cut else None
        if answer.status_code == _LIMITED:
            return _wanted(answer.headers.get("Retry-After", "")) or 5 * 2.0**tries
        return 2.0**tries if answer.status_code >= 500 or answer.status_code == 408 else None

    def _limits(self, error: Exception) -> bool:
        return getattr(getattr(error, "response", None), "status_code", None) == _LIMITED

    def _report(self, error: Exception, pause: float) -> None:
        """Report once for all files why nothing is received."""
        with self._lock:
            if time.monotonic() < self._until:
                return
            self._until = time.monotonic() + pause
        answer = getattr(error, "response", None)
        what = "the connection was cut" if answer is None else f"the hub answered {answer.status_code}"
        if self._limits(error):
            what = "the hub limits requests (429)"
        self._notice(f"{self._source}: {what}; the next try is in {Duration(max(1, round(pause)))}")

    def fault(self, error: Exception) -> DlrunError:
        """The error for the user."""
        source, errors = self._source, self._errors
        status = getattr(getattr(error, "response", None), "status_code", None)
        endpoint = getattr(self._hub.constants, "ENDPOINT", "the hub")
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) and status is None:
            return full(source)
        if isinstance(error, errors.OfflineModeIsEnabled):
            return OperationFailed(
                f"`{source}` is not in the store, and `HF_HUB_OFFLINE` is set in this shell",
                help="unset it to fetch; a commit in the place of a branch (`@COMMIT`) is found in the store without a network",
            )
        if isinstance(error, errors.GatedRepoError):
            return OperationFailed(
                f"`{source}` is gated, and the hub does not let this account read it",
                help=f"accept its terms on {endpoint}/{source.page}, and {_TOKEN}",
            )
        if status in (401, 403):
            return OperationFailed(f"the hub does not let you read `{source}` ({status}): it is private, or there is "
                                   "no such repository", help=f"check the name; {_TOKEN}")  # fmt: skip
        if isinstance(error, errors.RevisionNotFoundError):
            return OperationFailed(
                f"the hub has no revision `{source.revision}` of `{source.repository}`",
                help=f"{endpoint}/{source.page}/commits lists them; a commit is written with all its 40 digits",
            )
        if status == 404:
            return OperationFailed(
                f"the hub has no {source.noun} `{source.repository}`",
                help="check the name; a data set is `hf://datasets/ORG/NAME`, a model `hf://ORG/NAME`",
            )
        if status == _LIMITED:
            return OperationFailed(
                f"the hub limits requests (429), and `{source}` is not complete",
                help="submit again later: what has come is kept; a token raises the limit (`HF_TOKEN`)",
            )
        what = visible(str(error).strip().partition("\n")[0])
        if status is None and isinstance(error, errors.HTTPError):
            return OperationFailed(
                f"`{source}` cannot be fetched from {endpoint}: {what or type(error).__name__}",
                help="submit from a host that has a network: what has come is kept; "
                "a commit in the place of a branch (`@COMMIT`) is found in the store without one",
            )
        return OperationFailed(
            f"`{source}` cannot be fetched: {what}", help="submit again: what has come is kept"
        )


def full(source: HubSource) -> OperationFailed:
    """The error on a full file system."""
    return OperationFailed(
        f"there is no space left for `{source}` beside the job directories",
        help="`dlrun clean --yes` removes what no job uses; or name another place for jobs with `DLRUN_JOBS`",
    )


def _wanted(header: str) -> float:
    """Seconds of a `Retry-After`: a number, or a date; 0 for anything else."""
    try:
        return float(header)
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _is_whole(path: Path, file: File) -> bool:
    """Whether a file has the size and the digest that the hub lists."""
    if path.stat().st_size != file.size:
        return False
    if not file.digest:
        return True
    digest = sha256() if len(file.digest) == 64 else sha1(b"blob %d\0" % file.size, usedforsecurity=False)
    with path.open("rb") as content:
        while piece := content.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest() == file.digest
