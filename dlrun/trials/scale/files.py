"""The files of a scaling study: its table in all formats, and its pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.records.directories import write_table
from dlrun.model.json_codec import to_plain
from dlrun.system.writing import cannot_write, write_output
from dlrun.terminal.printing import notice
from dlrun.trials.scale.picture import KINDS, Kind
from dlrun.trials.scale.texts import ENDINGS


def write(
    directory: Path,
    formats: Mapping[str, str],
    content: Any,
    drawn: Callable[[Kind], bytes],
    *,
    every: bool,
    picture: Path | None,
    force: bool,
) -> None:
    """Write a study's table in all `formats`, its `content` as JSON and its pictures, where `every` is true, and `picture`.

    Files of the study's directory that were changed, or that dlrun did not write, are kept. Raises `Invalid` where `picture`
    cannot be drawn, `OperationFailed` where a file cannot be written.
    """
    own = picture.suffix[1:] if picture is not None else None
    pictures, fault = dict[str, bytes](), None
    try:
        pictures = {kind: drawn(kind) for kind in KINDS if every or kind == own}
    except Invalid as error:
        fault = error
    if every:
        if fault is not None:
            notice(f"no plot: {fault.message}\n   = help: {fault.help}")
        files = {f"table.{ENDINGS[form]}": text.encode() for form, text in formats.items()}
        files["table.json"] = (json.dumps(to_plain(content), indent=1) + "\n").encode()
        files |= {f"scaling.{kind}": drawing for kind, drawing in pictures.items()}
        wrote = list[str]()
        for name, data in files.items():
            path = directory / name
            try:
                if write_table(path, data):
                    wrote.append(name)
            except OSError as error:
                raise OperationFailed(cannot_write(path, error)) from None
        for name in [name for name in files if name not in wrote]:
            notice(
                f"kept {directory / name}: it was changed, or is not dlrun's; the new one is written once it has another name"
            )
        if wrote:
            notice(f"wrote {', '.join(wrote)} in {directory}")
    if picture is not None and own is not None:
        if fault is not None:
            raise fault
        write_output(picture, pictures[own], force=force)
        notice(f"wrote {picture}")
