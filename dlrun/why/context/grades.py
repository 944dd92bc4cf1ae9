"""How far the evidence in a log is from the cause of an end."""

from __future__ import annotations

import re

from dlrun.why.known.form import Evidence
from dlrun.why.patterns import is_general

_WEIGHT = {
    **dict.fromkeys(("container-image", "step-cancelled"), 1),
    **dict.fromkeys(
        (
            "cancelled",
            "container",
            "fabric",
            "launcher",
            "library-setting",
            "mpi-daemon",
            "mpi-init",
            "rendezvous",
            "scheduler",
            "tracking",
        ),
        2,
    ),
    **dict.fromkeys(
        ("collective-timeout", "communication", "mpi-abort", "peer-lost", "rendezvous-closed"), 3
    ),
    **dict.fromkeys(("mpi-ended", "terminated"), 4),
}
"""Cause that is a consequence -> how far it is from the cause; others 1 (a process that was killed or crashed)."""
LOST = re.compile(
    r"\b(?:Connection(?:Reset|Aborted|Refused)?Error|BrokenPipeError|RemoteDisconnected|EOFError|_?queue\.Empty|RemoteProtocolError"
    r"|CommClosedError|StreamClosedError|ServerDisconnectedError|IncompleteRead|(?:Connect|Read)(?:ion)?(?:Error|Timeout)|ClientConnectorError)\b"
)
"""Exceptions of a program whose peer, mostly another process of the job, does not answer any more."""
_LOST_PEER = re.compile(
    r"(?i:\b(?:lost|losing) (?:the )?(?:connection|rank|worker|peer|node)|\bconnection (?:reset|lost|closed by)\b"
    r"|\bbroken pipe\b|\b(?:peer|rank|worker|node) \S+ (?:is|has|was) (?:gone|lost|dead|left|unreachable))"
)
"""The same in a program's own words."""


_NOTHING = 9


def grade(evidence: Evidence | None) -> int:
    """0 for a cause, 1 for an unknown exception, 2 and more for a consequence: a killed process, a lost peer, a summary; without
    evidence the highest."""
    if evidence is None:
        return _NOTHING
    if evidence.pattern.consequence:
        return 1 + _WEIGHT.get(evidence.pattern.cause, 1)
    if not is_general(evidence.pattern):
        return 0
    return 2 if (LOST.search(evidence.line) or _LOST_PEER.search(evidence.line)) else 1
