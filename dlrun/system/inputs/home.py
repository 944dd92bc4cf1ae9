"""Expand `~` in a spec to the home directory on the host of the job."""

from __future__ import annotations

from dlrun.model.keys import with_paths
from dlrun.model.spec import Spec


def at_home(spec: Spec, home: str) -> Spec:
    """The spec with `~` expanded in its paths; other users' homes (`~bob`) stay as they are."""

    def out(path: str) -> str:
        return home + path[1:] if path == "~" or path.startswith("~/") else path

    return with_paths(spec, out)
