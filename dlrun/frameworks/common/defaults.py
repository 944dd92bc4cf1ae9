"""What families of frameworks have in common: the parts of the protocol that most need nothing special for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlrun.frameworks.protocol import Setting, Shape
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Shell, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """This framework has no options of its own."""


def settings(source: str, *said: tuple[str, str | Shell | Text, str]) -> tuple[Setting, ...]:
    """Variables from (name, value, because), all by the same source."""
    return tuple(Setting(name=name, value=value, because=why, source=source) for name, value, why in said)


def listening(port: Shell) -> Text:
    """A check that something on the first node listens at a port."""
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}") 2>/dev/null')


def answers(port: Shell, path: str, pattern: str) -> Text:
    """A check that HTTP on the first node answers with what matches a regular expression."""
    ask = f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3 && grep -Eq '{pattern}' <&3"
    return Text.of(f'(exec 3<>"/dev/tcp/$DLRUN_MASTER_ADDR/{port.code}" && {ask}) 2>/dev/null')


def no_ports(shape: Shape, options: Any) -> int:
    """None: ranks find one another through the launcher."""
    return 0


def one_port(shape: Shape, options: Any) -> int:
    """The one at which ranks meet."""
    return 1


def no_comm_cores(options: Any) -> int:
    """None: communication happens in the ranks' own threads."""
    return 0


def no_problems(
    shape: Shape,
    command: Sequence[Text],
    options: Any,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Nothing is known not to work."""
    return ()
