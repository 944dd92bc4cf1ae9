"""Ranks as child processes of the job script, on one machine; needs no launcher program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.launchers.protocol import Step, no_command
from dlrun.model.plan import Identity, Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "local"
IDENTITY = Identity(
    rank=Shell("$DLRUN_RANK"),
    local_rank=Shell("$DLRUN_LOCAL_RANK"),
    local_size=Shell("${DLRUN_LOCAL_SIZE-}"),
    node=Shell("${DLRUN_NODE_RANK-}"),
)
UNSET = ()
LIBRARY: tuple[str, ...] = ("start", "local")
PLACE: Literal["machine"] = "machine"
MPI = False
STEPS = False
CHOOSES_NODES = False
ONE_LAYOUT = False
ENROOT = False
LIBRARIES: tuple[str, ...] = ()
PROGRAMS: tuple[str, ...] = ()
VERSION = ""
command = no_command


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_local COUNT` (lib/local.sh)."""
    return (Text.of("dlrun_local"), Text.of(str(step.count)))


def variables(site: LauncherSite) -> Sequence[Variable]:
    """None: child processes inherit the environment."""
    return ()
