"""DataWarp as the site's mover: a line of the job script for each directory, which is filled before the job starts.

`#DW stage_in` takes absolute paths and says beforehand whether each is a directory; a line that is wrong keeps the job
from ever starting (slurm.schedmd.com/burst_buffer.html; research.csc.fi/sisu-using-datawarp has the lines of one site).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dlrun.model.measured import Measured
from dlrun.model.plan import DataPlan
from dlrun.model.site import NodeLocal
from dlrun.model.text import Text, expanding

_PLAIN = re.compile(r"/[\w./@%+:,-]*\Z", re.ASCII)
"""Paths that are one word of such a line and mean themselves."""

_ARRIVES = "/dlrun-in-"
"""Where a set arrives, with its name: beside dlrun's own directory, which only dlrun makes."""


def unsuited(local: NodeLocal) -> str:
    """Why no set can come this way to a site's storage; empty when they can."""
    if local.scope != "job" or not local.path.startswith(("$DW_", "${DW_")):
        return "it fills its own storage alone, `path: $DW_JOB_STRIPED` and `scope: job`"
    return ""


def choose(
    data: Sequence[DataPlan], measured: Mapping[str, Measured], venv: str
) -> tuple[tuple[str, ...], str]:
    """The names of the sets that come this way, and why the others do not; `venv` is the name of one that is a directory."""
    why = {one.name: _not_moved(one, measured.get(one.name), one.name == venv) for one in data}
    others = "; ".join(f"`{name}` does not come by it: {reason}" for name, reason in why.items() if reason)
    return tuple(name for name, reason in why.items() if not reason), others


def _not_moved(data: DataPlan, measured: Measured | None, directory: bool) -> str:
    if data.strategy != "copy" or data.include or data.exclude or set("*?[") & set(data.source):
        return "it brings whole directories as they are"
    if not _PLAIN.match(data.source):
        return "its line holds absolute paths of plain characters"
    if not (directory or data.source.endswith("/") or (measured is not None and measured.directory)):
        return "whether its source is a directory is not known here, and a wrong line would keep the job waiting: end it with `/`"
    return ""


def lines(local: NodeLocal, data: Sequence[DataPlan], names: Sequence[str]) -> tuple[str, ...]:
    """The job script's line for each of the sets named."""
    return tuple(
        f"#DW stage_in type=directory source={one.source.rstrip('/') or '/'} destination={local.path}{_ARRIVES}{one.name}"
        for one in data
        if one.name in names
    )


def place(local: NodeLocal) -> Text:
    """Where a set stands when the job starts, up to its name."""
    return Text.of(expanding(local.path), _ARRIVES)
