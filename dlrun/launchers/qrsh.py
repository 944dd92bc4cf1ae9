"""Grid Engine's `qrsh -inherit`: ranks are tasks of the job under the scheduler's accounting, limits and cleanup.

The parallel environment needs `control_slaves TRUE`. As with ssh, environment and signals are sent on standard input.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers import ssh
from dlrun.launchers.protocol import Step
from dlrun.model.site import LauncherSite
from dlrun.model.text import Text
from dlrun.resources import beside

NAME = "qrsh"
IDENTITY = ssh.IDENTITY
LIBRARY: tuple[str, ...] = ("start", "ssh", beside(__file__, "qrsh"))
MPI = False
STEPS = False


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_ssh` (lib/ssh.sh) with `dlrun_qrsh` (lib/qrsh.sh) instead of ssh."""
    # The first four words of ssh's line are the same: function, host file, processes per node, total.
    words = list(ssh.start(step, site))
    # `qrsh` itself ends with code 0 when its host dies (seen with 8.1.9); `dlrun_qrsh` turns the message on standard
    # error into a failure.
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
