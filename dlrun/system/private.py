"""The user's directories outside of jobs: cache, state and sockets.

What is read from them is run, or decides what is run, so another user must not be able to write there or to have made a
directory above them. Where there is no such directory, dlrun works without it
and prints the reason once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from dlrun.model.text import visible
from dlrun.node.common.errors import NodeError
from dlrun.node.common.safety import open_private
from dlrun.system.paths import xdg_directory


def cache_directory() -> Path | None:
    """The user's cache `$XDG_CACHE_HOME/dlrun`, created if missing; None, with a line on stderr, if there is no safe one."""
    place = xdg_directory("XDG_CACHE_HOME", ".cache")
    return usable(place, "XDG_CACHE_HOME", "nothing is cached") if place is not None else None


def state_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The user's state `$XDG_STATE_HOME/dlrun`, created if missing; None, with a line on stderr, if there is no safe one."""
    place = xdg_directory("XDG_STATE_HOME", ".local/state", environment)
    return usable(place, "XDG_STATE_HOME", "nothing is recorded there") if place is not None else None


@cache
def usable(place: Path, variable: str, consequence: str) -> Path | None:
    """The directory, created with mode 0700 if missing, if no other user can change it or what is in it.

    Otherwise None, after one line on stderr with the reason, the `consequence` and the variable that names another directory.
    """
    why = fault(place)
    if why is None:
        return place
    with suppress(OSError, ValueError, AttributeError):  # stderr may be full or closed
        sys.stderr.write(
            visible(f"{consequence}: {why}; set {variable} to a directory that only you can change") + "\n"
        )
    return None


def fault(place: Path) -> str | None:
    """Why an absolute path cannot be made or used as a private directory; None if it can."""
    try:
        os.close(open_private(os.fsencode(place)))
    except NodeError as error:
        return error.message
    except OSError as error:
        return f"`{place}` cannot be used: {(error.strerror or str(error)).lower()}"
    except ValueError:  # a NUL
        return f"`{place}` is not a path"
    return None


def make_base(directory: Path) -> None:
    """Make the base of job directories; raises OSError.

    Missing directories get mode 0700, those that exist are left as they are. If another user made `$XDG_STATE_HOME/dlrun` or
    `jobs` in it, nothing is written there: that user could put another job in place of this one. Of `$DLRUN_JOBS`, which
    this user named, nothing is demanded: groups share such directories.
    """
    state = xdg_directory("XDG_STATE_HOME", ".local/state")
    if state is not None and directory.is_relative_to(state):
        for place in (state, directory):
            if place.exists() and place.stat().st_uid not in (0, os.geteuid()):
                raise PermissionError(errno.EPERM, f"`{place}` belongs to another user")
    for missing in reversed([place for place in (directory, *directory.parents) if not place.is_dir()]):
        with suppress(FileExistsError):
            missing.mkdir(mode=0o700)
