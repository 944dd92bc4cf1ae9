"""Grid Engine's `qrsh -inherit`: ranks are tasks of the job, which the scheduler counts, limits and ends.

The parallel environment must allow them (`control_slaves TRUE`). As under ssh, the environment and signals travel on
standard input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.launchers import ssh
from dlrun.launchers.protocol import Step
from dlrun.model.plan import Variable
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text

NAME = "qrsh"
IDENTITY = ssh.IDENTITY
UNSET = ()
LIBRARY: tuple[str, ...] = ("start", "ssh", "qrsh")
PLACE: Literal["allocation"] = "allocation"
MPI = False
STEPS = False
CHOOSES_NODES = True
ONE_LAYOUT = False
ENROOT = False
LIBRARIES: tuple[str, ...] = ()
PROGRAMS: tuple[str, ...] = ()
VERSION = ""


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_ssh` of lib/ssh.sh, with `dlrun_qrsh` of lib/qrsh.sh in the place of ssh: it reports a host that is lost."""
    words = list(ssh.start(step, site))
    program = (site.program or "qrsh", *site.arguments)
    return (
        *words[:4],
        Text.of(str(1 + len(program))),
        Text.of("dlrun_qrsh"),
        *map(Text.of, program),
    )


def command(started: Sequence[Text]) -> Sequence[Text]:
    """`qrsh -inherit`, to which a host and a command are added."""
    return tuple(map(Text.of, ("qrsh", "-inherit", "-nostdin"))) if started else ()


def variables(site: LauncherSite) -> Sequence[Variable]:
    """Nothing."""
    return ()
