"""The size of a data set's source, measured for the choice of its strategy."""

from __future__ import annotations

from dlrun.model.record import record
from dlrun.model.units import Bytes


@record(frozen=True, slots=True, kw_only=True)
class DataSize:
    """Bytes and regular files of a source; `whole` is false where the walk was stopped early and there are more."""

    size: Bytes
    files: int
    whole: bool = True
