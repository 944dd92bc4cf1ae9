"""How the spec of a job was read: the directory of the submission, the profile, and the arguments of `--set`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dlrun.model.record import record

SETTINGS = "settings.json"
_COPIED = ("spec.yaml", "site.yaml", SETTINGS)


@record(frozen=True, slots=True, kw_only=True)
class SpecArguments:
    """The directory of a submission (relative paths start there), its profile, and its arguments of `--set`."""

    directory: Path
    site: Path
    sets: tuple[str, ...]


def text(directory: Path, site: Path, sets: Sequence[str]) -> str:
    """The content of SETTINGS."""
    data = {"version": 1, "directory": str(directory), "site": str(directory / site), "sets": list(sets)}
    return json.dumps(data, indent=1) + "\n"


def read(directory: Path) -> SpecArguments | None:
    """The arguments recorded in a job directory; None if it has none."""
    from dlrun.jobs.records.validation import read_json  # noqa: PLC0415 - a dry run reads none

    data = read_json(directory / SETTINGS) or {}
    where, site, sets = data.get("directory"), data.get("site"), data.get("sets")
    if not (isinstance(where, str) and isinstance(site, str) and isinstance(sets, list)):
        return None
    return SpecArguments(directory=Path(where), site=Path(site), sets=tuple(map(str, sets)))


def copied_files(directory: Path) -> dict[str, str]:
    """Name -> text of the files that a resubmission copies."""
    paths = (directory / name for name in _COPIED)
    return {path.name: path.read_text(encoding="utf-8") for path in paths if path.is_file()}
