"""The parent's side of the workers of a node: start, send commands, read reports, stop."""

import os
import select
import signal
import socket
from typing import Any, Dict, List, Tuple

from ..common.errors import NodeError
from . import worker
from .task import Task, Tokens

_KILLED = ("a copying process was killed", "check the memory limits of the job")


class Workers:
    """The forked workers of one copy; a context manager that ends them at its exit."""

    def __init__(self, task: Task, tokens: Tokens, worker_count: int, key: bytes = b"") -> None:
        self.channels: List[socket.socket] = []
        self._pids: List[int] = []
        for number in range(worker_count):
            pid, channel = worker.start(task, number, tokens, key, self.channels)
            self._pids.append(pid)
            self.channels.append(channel)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *error: object) -> None:
        for channel in self.channels:
            channel.close()
        for pid in self._pids:
            # SIGKILL is safe: a worker has nothing to clean up, and its finished blocks are in the journal.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def send(self, number: int, message: Dict[str, Any], descriptors: Tuple[int, ...] = ()) -> None:
        """Send a message to one worker; raises NodeError if it has died."""
        try:
            worker.send_message(self.channels[number], message, descriptors)
        except OSError:
            raise NodeError(*_KILLED) from None

    def send_all(self, message: Dict[str, Any]) -> None:
        """Send a message to all workers."""
        for number in range(len(self.channels)):
            self.send(number, message)

    def receive(self, number: int) -> Dict[str, Any]:
        """The next message of one worker; raises NodeError if it has died."""
        message, _ = worker.receive_message(self.channels[number])
        if message is None:
            raise NodeError(*_KILLED)
        return message

    def wait(self, timeout: float) -> List[Dict[str, Any]]:
        """Wait up to `timeout` seconds for messages; at most one per worker."""
        # Not select.select, which fails for descriptors above 1023: the walk may have left many files open.
        waiting = select.poll()
        for channel in self.channels:
            waiting.register(channel, select.POLLIN)
        ready = {descriptor for descriptor, _ in waiting.poll(timeout * 1000)}
        return [self.receive(k) for k, channel in enumerate(self.channels) if channel.fileno() in ready]
