"""`~` in a spec: the home directory where the job runs, which can be expanded only where that home is known."""

from __future__ import annotations

from dlrun.model.keys import with_paths
from dlrun.model.spec import Spec


def at_home(spec: Spec, home: str) -> Spec:
    """The spec with its paths written out; other users' homes (`~bob`) stay as they are."""

    def out(path: str) -> str:
        return home + path[1:] if path == "~" or path.startswith("~/") else path

    return with_paths(spec, out)
