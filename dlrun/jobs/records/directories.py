"""Make directories of dlrun's own, with the list of what it writes there (`ownership`), and write records in them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.records import ownership, process_mark, unfinished
from dlrun.model.data import DATE
from dlrun.system import writing
from dlrun.system.private import make_base
from dlrun.system.writing import replace, write_below

if TYPE_CHECKING:
    from dlrun.render.written_names import WrittenNames

SUBMISSION = "submission.json"
ANSWER = ".client-answer"
"""The output of the submitting client: it exists even if dlrun was killed before it recorded the id."""
ROOM = "\n" * 4096
"""The initial content of that file: overwriting it works also on a full disk."""
_CHANGING = (SUBMISSION, ANSWER)
_SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


def new_directory(base: Path, name: str) -> Path:
    """A unique path: job name, time, and four random hexadecimal digits; it is not created."""
    safe = "".join(c if c in _SAFE else "-" for c in name).strip(".-")[:60] or "job"
    return base / f"{safe}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def create(
    directory: Path,
    files: Mapping[str, str],
    names: WrittenNames,
    *,
    token: str | None = None,
    linked: Mapping[str, Path] | None = None,
    shared: Mapping[str, Path] | None = None,
    option: str = "`--job-dir` or `DLRUN_JOBS`",
) -> None:
    """Create a job directory of mode 0700 with these files and their list atomically; names: what the job may write.

    linked: name -> existing file with the same text, to which that file becomes a hard link; shared: name -> file that may be
    missing or damaged, for which a copy does as well.
    Raises OperationFailed if it exists or cannot be created; option: the setting of another place, for the help line.
    """
    temporary = directory.with_name(unfinished.name_for(directory.name))
    try:
        if os.path.lexists(directory):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        make_base(directory.parent)
        unfinished.remove(directory.parent)
        temporary.mkdir(mode=0o700)
        try:
            written = written_list(
                files, names, directory, token, temporary.stat().st_ino, by=process_mark.mark()
            )
            # The list first: with it `unfinished` knows what a killed process has left.
            for name, text in {ownership.LIST: written, **files}.items():
                if linked is not None and name in linked:
                    (temporary / name).parent.mkdir(exist_ok=True)
                    os.link(linked[name], temporary / name)
                    continue
                if shared is not None and name in shared:
                    _share(temporary, name, text, shared[name])
                    continue
                write_below(temporary, name, text, mode=0o700 if name.endswith(".sh") else 0o600)
            runs = [f"points/{index}" for index in range(names.points or 0)]
            if names.points is None or "logs/" in names.job:
                runs.append(".")
            runs += [
                name[: -len("/logs/")]
                for name in names.job
                if isinstance(name, str) and name.endswith("/logs/")
            ]
            for run in runs:
                (temporary / run / "logs").mkdir(parents=True)
            # Readers never see a directory without its plan; a killed dlrun leaves only a hidden name.
            temporary.rename(directory)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise OperationFailed(
            f"cannot make the job directory `{directory}`: {error.strerror}",
            help=f"set another directory with {option}",
        ) from None


def _share(directory: Path, name: str, text: str, stored: Path) -> None:
    """Make a file with this text a link to the stored file, if it has that text and only this user could write it; else write it.

    Then the stored file becomes a link to it, if that is possible. Raises OSError if it cannot be written.
    """
    path, data = directory / name, text.encode("utf-8", errors="surrogateescape")
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        os.link(stored, path)
        if _is_own_copy(path, data):
            return
        stored.unlink()
    path.unlink(missing_ok=True)
    write_below(directory, name, data, mode=0o400)
    os.utime(path, (DATE, DATE))  # as all files of a store
    with suppress(OSError):
        os.link(path, stored)


def _is_own_copy(path: Path, data: bytes) -> bool:
    seen = path.lstat()
    mark = (stat.S_ISREG(seen.st_mode), seen.st_uid, stat.S_IMODE(seen.st_mode), seen.st_size)
    return mark == (True, os.geteuid(), 0o400, len(data)) and path.read_bytes() == data


def written_list(
    files: Mapping[str, str],
    names: WrittenNames,
    place: Path | str,
    token: str | None = None,
    inode: int | None = None,
    by: Mapping[str, object] | None = None,
) -> str:
    """The list of a new job directory; place: its path; inode: None for one on a login node; by: as for `ownership.text`."""
    fixed = {name: text for name, text in files.items() if name not in _CHANGING}
    records = [name for name in files if name in _CHANGING]
    return ownership.text(
        "job",
        place,
        token or ownership.new_token(),
        inode=inode,
        files=fixed,
        records=records,
        names=names,
        by=by,
    )


def is_free(directory: Path, kind: ownership.Kind) -> bool:
    """Whether a study or tuning can begin here: nothing is there, or the beginning of one that was killed."""
    try:
        return ownership.is_own(directory, kind) or all(
            map(ownership.is_unfinished_list, directory.iterdir())
        )
    except FileNotFoundError:
        return True
    except OSError:
        return False


def begin(directory: Path, kind: ownership.Kind, records: Iterable[str]) -> None:
    """Make the directory of a study or tuning, or go on in one; raises OSError, also if it has files and no list of this kind.

    records: files whose content changes, and directories of jobs (with `/`).
    """
    make_base(directory)
    if ownership.is_own(directory, kind):
        return
    if not is_free(directory, kind):
        raise FileExistsError(errno.EEXIST, "it has files, and no list of what dlrun wrote there")
    for path in directory.iterdir():
        if ownership.is_unfinished_list(path):
            path.unlink()
    token = ownership.new_token()
    text = ownership.text(kind, directory, token, inode=directory.stat().st_ino, records=records)
    name = ownership.temporary_name(directory, token)
    writing.create(directory / ownership.LIST, text, mode=0o600, temporary_name=name)


def require_list(directory: Path, kind: ownership.Kind, command: str) -> None:
    """Raise Invalid for a study or tuning in which dlrun must not write; command: reads it all the same."""
    if not ownership.is_own(directory, kind):
        raise Invalid(
            f"`{directory}` has no list `{ownership.LIST}` of yours: an earlier version of dlrun made it, or another user",
            help=f"start another with `--out`; `{command}` shows what it has",
        )


def write_table(path: Path, data: bytes) -> bool:
    """Write a table, which each call makes, and put it on the list.

    False if another file has its name, or it was changed since: then it stays. Raises OSError.
    """
    if os.path.lexists(path):
        proof = (ownership.read(path.parent) or ownership.NONE).files.get(path.name)
        if proof is None or not ownership.matches(str(path), proof):
            return False
    ownership.add_file(path.parent, path.name, data)
    temporary_name = ownership.temporary_name(path.parent)
    replace(path, data, temporary_name=temporary_name)
    return True


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a small record atomically; raises OSError, also if a file that dlrun did not write has its name."""
    if ownership.is_obstructed(path):
        raise FileExistsError(
            errno.EEXIST, f"`{path.name}` is there, and dlrun has not written it", str(path)
        )
    # On the list first: a record that is not there yet is harmless.
    ownership.add(path.parent, path.name)
    text = json.dumps(data, indent=1) + "\n"
    replace(path, text, mode=0o600, temporary_name=ownership.temporary_name(path.parent))
