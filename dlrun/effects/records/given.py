"""The inputs of a job in its directory: spec and profile as read, and the arguments of the submission."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dlrun.model.record import record

SETTINGS = "settings.json"
_KEPT = ("spec.yaml", "site.yaml", SETTINGS)


@record(frozen=True, slots=True, kw_only=True)
class Given:
    """The directory of a submission (relative paths start there), its profile, and its arguments of `--set`."""

    directory: Path
    site: Path
    sets: tuple[str, ...]


def text(directory: Path, site: Path, sets: Sequence[str]) -> str:
    """The content of SETTINGS."""
    data = {"version": 1, "directory": str(directory), "site": str(directory / site), "sets": list(sets)}
    return json.dumps(data, indent=1) + "\n"


def given(directory: Path) -> Given | None:
    """How the spec of a job directory was read; None where that is not recorded."""
    from dlrun.effects.records.belief import read_json  # noqa: PLC0415 - a dry run reads none

    data = read_json(directory / SETTINGS) or {}
    where, site, sets = data.get("directory"), data.get("site"), data.get("sets")
    if not (isinstance(where, str) and isinstance(site, str) and isinstance(sets, list)):
        return None
    return Given(directory=Path(where), site=Path(site), sets=tuple(map(str, sets)))


def kept(directory: Path) -> dict[str, str]:
    """Name -> text of the files that a resubmission copies."""
    found = (directory / name for name in _KEPT)
    return {path.name: path.read_text(encoding="utf-8") for path in found if path.is_file()}
