"""dlrun in a process of its own, without the time that importing takes: a server that has imported it forks for each run.

A run has its own arguments, environment, directory and streams, and ends with its own exit code, as if a shell had
started it. What depends on how Python itself starts (signals that come early, PYTHON* variables, /proc/PID/environ) is
for `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

HEAVY = ("dlrun.node", "dlrun.cli.main")
"""What the server does not import beforehand: it runs on nodes, or is imported by its name."""


class Server:
    """The server, and runs on it one after the other."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-m", "tests.cli.preloaded", str(theirs.fileno())]
            root = Path(__file__).parents[2]
            self.process = subprocess.Popen(
                words, cwd=root, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self.socket = ours

    def run(
        self, arguments: list[str], cwd: Path, env: dict[str, str], seconds: float
    ) -> tuple[int, str, str]:
        """Run dlrun; its exit code, stdout and stderr. All that hold its streams must have closed them."""
        pipes = [os.pipe() for _ in range(2)]
        request = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": env}).encode()
        with Path(os.devnull).open("rb") as nothing:
            descriptors = [nothing.fileno(), *(write for _, write in pipes)]
            socket.send_fds(self.socket, [len(request).to_bytes(8, "big")], descriptors)
            self.socket.sendall(request)
        texts = ["", ""]

        def read(index: int) -> None:
            with os.fdopen(pipes[index][0], encoding="utf-8") as stream:
                texts[index] = stream.read()

        readers = [threading.Thread(target=read, args=(index,), daemon=True) for index in (0, 1)]
        for _, write in pipes:
            os.close(write)
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(seconds)
            assert not reader.is_alive(), (
                f"dlrun {arguments} has not ended, or left a process with its streams"
            )
        self.socket.settimeout(seconds)
        return int.from_bytes(self.socket.recv(4), "big", signed=True), texts[0], texts[1]

    def stop(self) -> None:
        """End the server."""
        self.socket.close()
        self.process.wait(60)


def serve(there: socket.socket) -> None:
    """Fork for each request until nobody asks any more."""
    for module in pkgutil.walk_packages(import_module("dlrun").__path__, "dlrun."):
        if not module.name.startswith(HEAVY):
            import_module(module.name)
    import_module("dlrun.cli.main")
    while True:
        head, descriptors, _, _ = socket.recv_fds(there, 8, 3)
        if not head:
            return
        request = json.loads(there.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        child = os.fork()
        if child == 0:
            there.close()
            _become(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        there.sendall(status.to_bytes(4, "big", signed=True))


def _become(request: dict, descriptors: list[int]) -> None:
    """Be dlrun, in the forked process."""
    code = 70
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.argv = ["dlrun", *request["arguments"]]
        import_module("dlrun.cli.main").main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself: a traceback, which no test takes
        traceback.print_exc()
        code = 1
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
