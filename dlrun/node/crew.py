"""The lanes of a node, seen from the process that leads them: started, told what to do, heard, ended."""

import os
import select
import signal
import socket
from typing import Any, Dict, List, Tuple

from . import lane
from .errors import NodeError
from .task import Task, Tokens

_KILLED = ("a copying process was killed", "look for memory limits of the job")


class Crew:
    """The forked lanes of one copy. Use it in a `with` statement: nothing that it started outlives it."""

    def __init__(self, task: Task, tokens: Tokens, lanes: int, key: bytes = b"") -> None:
        self.channels: List[socket.socket] = []
        self._pids: List[int] = []
        for number in range(lanes):
            pid, channel = lane.start(task, number, tokens, key, self.channels)
            self._pids.append(pid)
            self.channels.append(channel)

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *error: object) -> None:
        for channel in self.channels:
            channel.close()
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def tell(self, number: int, message: Dict[str, Any], descriptors: Tuple[int, ...] = ()) -> None:
        """Send one lane a message; NodeError when it has died."""
        try:
            lane.tell(self.channels[number], message, descriptors)
        except OSError:
            raise NodeError(*_KILLED) from None

    def tell_all(self, message: Dict[str, Any]) -> None:
        """Send every lane a message."""
        for number in range(len(self.channels)):
            self.tell(number, message)

    def hear(self, number: int) -> Dict[str, Any]:
        """One lane's next message; NodeError when it has died."""
        message, _ = lane.hear(self.channels[number])
        if message is None:
            raise NodeError(*_KILLED)
        return message

    def wait(self, timeout: float) -> List[Dict[str, Any]]:
        """The messages that are there within `timeout` seconds."""
        ready, _, _ = select.select(self.channels, [], [], timeout)
        return [self.hear(self.channels.index(channel)) for channel in ready]
