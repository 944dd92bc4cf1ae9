"""ssh, for sites whose scheduler cannot start processes on the other nodes.

The environment is sent on ssh's standard input: command lines are visible to all users of a node.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text, digits

NAME = "ssh"
IDENTITY = Identity(
    rank=Shell("$DLRUN_RANK"),
    local_rank=Shell("$DLRUN_LOCAL_RANK"),
    local_size=Shell("${DLRUN_LOCAL_SIZE-}"),
    node=Shell("${DLRUN_NODE_RANK-}"),
)
LIBRARY: tuple[str, ...] = ("start", "ssh")
MPI = False
STEPS = False
APART = True


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_ssh` (lib/ssh.sh): host file, processes per node, total processes, word count of the ssh command, the command."""
    hosts = Text.of(Shell("$DLRUN_HOSTS"), "-first" if step.first_only else "")
    command = (site.program or "ssh", *site.arguments)
    return (
        Text.of("dlrun_ssh"),
        hosts,
        Text.of(str(step.per_node)),
        Text.of(str(step.count)),
        Text.of(str(len(command))),
        *map(Text.of, command),
    )


def command(started: Sequence[Text]) -> Sequence[Text]:
    """The ssh command in the arguments of `start`."""
    # After function, host file, processes per node and total: the number of words of the command, then the command.
    words = started[4].literal if len(started) > 4 else None
    # A saved plan may have been edited: then the words are the job's to fail with.
    return started[5 : 5 + int(words)] if words is not None and digits(words) else ()
