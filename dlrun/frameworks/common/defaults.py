"""Default parts of the framework protocol, for frameworks without special needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dlrun.frameworks.common import presets
from dlrun.frameworks.protocol import Framework, Setting, Shape
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.record import record
from dlrun.model.text import Shell, Text

SERVERS_SHARE = "in synchronous training the workers wait while the servers sum their gradients"
"""Why parameter servers may run on the cores of the ranks."""


@record(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """This framework has no options of its own."""


def settings(source: str, rows: Iterable[tuple[str, str | Shell | Text, str]]) -> tuple[Setting, ...]:
    """Settings from (name, value, because), with one common source."""
    return tuple(Setting(name=name, value=value, because=why, source=source) for name, value, why in rows)


def listening(port: Shell) -> Text:
    """Shell command that succeeds once a process of the first node listens on a port."""
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}") 2>/dev/null')


def http_answers(port: Shell, path: str, pattern: str) -> Text:
    """Shell command that succeeds once the HTTP response of the first node matches a regular expression (grep -E)."""
    # bash itself opens the connection (/dev/tcp), because compute nodes may have neither curl nor wget.
    ask = f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3 && grep -Eq '{pattern}' <&3"
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}" && {ask}) 2>/dev/null')


def one_port(shape: Shape, options: Any) -> int:
    """1: the rendezvous port."""
    return 1


class Defaults:
    """The members of `dlrun.frameworks.protocol.Framework` that a back end may leave out; their meaning is described there."""

    Options = NoOptions
    LAUNCHERS: tuple[str, ...] = ()
    LIBRARIES: tuple[str, ...] = ()  # sockets of its own, which no variable controls
    PRESETS = presets.NONE
    COMPILES: tuple[str, ...] = ()

    def ports(self, shape: Shape, options: Any) -> int:
        """0: the rendezvous is the launcher's."""
        return 0

    def comm_cores(self, options: Any) -> int:
        """0: communication runs in the ranks' own threads."""
        return 0

    def problems(
        self,
        shape: Shape,
        command: Sequence[Text],
        options: Any,
        variables: Mapping[str, str],
        installed: Installed,
    ) -> Sequence[Problem]:
        """Empty: no known problems."""
        return ()


MEMBERS = frozenset(name for name in (*Framework.__annotations__, *vars(Framework)) if name[0] != "_")
"""All names that a back end has."""
