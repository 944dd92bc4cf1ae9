"""Ranks as child processes of the job script, on one machine; needs no launcher program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dlrun.launchers.protocol import Step
from dlrun.model.plan import Identity
from dlrun.model.site import LauncherSite
from dlrun.model.text import Shell, Text
from dlrun.resources import beside

NAME = "local"
IDENTITY = Identity(
    rank=Shell("$DLRUN_RANK"),
    local_rank=Shell("$DLRUN_LOCAL_RANK"),
    local_size=Shell("${DLRUN_LOCAL_SIZE-}"),
    node=Shell("${DLRUN_NODE_RANK-}"),
)
LIBRARY: tuple[str, ...] = ("start", beside(__file__, "local"))
PLACE: Literal["machine"] = "machine"
MPI = False
STEPS = False
CHOOSES_NODES = False


def start(step: Step, site: LauncherSite) -> Sequence[Text]:
    """`dlrun_local COUNT` (lib/local.sh)."""
    return (Text.of("dlrun_local"), Text.of(str(step.count)))
