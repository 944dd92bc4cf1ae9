"""The back end of `forkrun`: what `dlrun.launchers.protocol.Launcher` asks for."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step, no_command
from dlrun.model.plan import Identity, Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text

NAME = "forkrun"
IDENTITY = Identity(rank=Shell("$FORK_RANK"), local_rank=Shell("$FORK_RANK"))
UNSET: tuple[str, ...] = ()
PLACE = "allocation"
MPI = False
STEPS = False
APART = False
CHOOSES_NODES = False
ONE_LAYOUT = False
ENROOT = False
LIBRARIES: tuple[str, ...] = ()
PROGRAMS: tuple[str, ...] = ()
VERSION = ""
LIBRARY: tuple[str, ...] = ()
command = no_command


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`forkrun COUNT`."""
    return (Text.of(site.program or "forkrun"), Text.of(str(step.count)))


def variables(site: LauncherSite) -> Sequence[Variable]:
    """Nothing."""
    return ()
