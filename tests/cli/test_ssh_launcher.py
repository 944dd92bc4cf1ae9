"""Ranks started over ssh: they end with the job, also when all that is left of it is a broken connection.

The ssh here is a client of a server in the test, which does as sshd does for a command without a terminal:
when the connection is gone it closes the command's pipes, and kills nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Dlrun, wait_for

CLIENT = """\
#!/usr/bin/env python3
import os, socket, sys, threading
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
words = sys.argv[1:]
options = []
while words[0] == "-o":
    options.append(words[1])
    del words[:2]
assert "ConnectTimeout=30" in options, "a dead node would be waited for two minutes"
connection.sendall(" ".join(words[1:]).encode() + b"\\0")
def send():
    while data := os.read(0, 65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
code = connection.recv(4)
os._exit(int.from_bytes(code, "big") if len(code) == 4 else 255)
"""


class Server:
    """Runs commands for ssh clients, each in a session of its own, as children of the test."""

    def __init__(self, address: str, environment: dict[str, str]) -> None:
        self.environment = environment
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.handle, args=[connection], daemon=True).start()

    def handle(self, connection: socket.socket) -> None:
        command = b""
        while not command.endswith(b"\0"):
            if not (letter := connection.recv(1)):
                return  # the client was killed before it had said what it wants
            command += letter
        with subprocess.Popen(
            ["bash", "-c", command[:-1]], stdin=subprocess.PIPE, env=self.environment, start_new_session=True
        ) as process:
            threading.Thread(target=self.relay, args=[connection, process], daemon=True).start()
            code = process.wait()
        with suppress(OSError):
            connection.sendall(struct.pack(">I", code if code >= 0 else 128 - code))
        connection.close()

    def relay(self, connection: socket.socket, process: subprocess.Popen) -> None:
        with suppress(OSError, ValueError):  # the command has ended, and its pipe is closed
            while data := connection.recv(65536):
                process.stdin.write(data)
                process.stdin.flush()
        with suppress(OSError):
            process.stdin.close()


@pytest.fixture
def far(dlrun, tmp_path_factory):
    """Everything for jobs whose ranks are started over ssh; the start of a job by hand."""
    address = str(tmp_path_factory.mktemp("s") / "s")
    server = Server(address, {"PATH": os.environ["PATH"], dlrun.mark: "1"})
    ssh = dlrun.place / "ssh"
    ssh.write_text(CLIENT.format(address=address))
    ssh.chmod(0o755)
    (dlrun.place / "site.yaml").write_text(
        f"name: site\nscheduler: {{type: local}}\nlauncher: {{name: ssh, program: {ssh}}}\nrendezvous: {{address: loopback}}\n"
    )
    yield dlrun
    server.listener.close()


def start(dlrun: Dlrun, script: str) -> tuple[subprocess.Popen, Path]:
    """Start a job's script without a supervisor, as a scheduler would that knows nothing of other hosts."""
    (dlrun.place / "train").write_text(f"#!/bin/bash\n{script}\n")
    (dlrun.place / "train").chmod(0o755)
    dlrun(
        "render",
        dlrun.spec("command: [./train]\nresources: {ranks_per_node: 2}\nsite: ./site.yaml\n"),
        "-o",
        "job",
    )
    job = dlrun.place / "job"
    with (job / "out").open("wb") as out:
        process = subprocess.Popen(
            ["bash", "job.sh"], cwd=job, env=dlrun.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    return process, job


def far_away(dlrun: Dlrun) -> int:
    return sum(line.endswith("sleep 600") for line in dlrun.alive())


def test_exit_code_and_output(far):
    script = "echo rank $RANK of $WORLD_SIZE; touch said-$RANK; until [[ -e said-0 ]]; do sleep 0.1; done; exit $RANK"
    process, job = start(far, script)
    assert process.wait(120) == 1
    assert (job / "logs" / "rank-0.log").read_text() == "rank 0 of 2\n"
    assert "first failure: rank 1 on" in (job / "out").read_text()
    wait_for(lambda: not far.alive())


@pytest.mark.slow
def test_a_failing_rank_takes_the_others_along(far):
    process, _ = start(
        far, "((RANK == 1)) || exec sleep 600; until [[ -e fail ]]; do sleep 0.1; done; exit 5"
    )
    wait_for(lambda: far_away(far) == 1)
    (far.place / "fail").touch()
    assert process.wait(120) == 5
    wait_for(lambda: not far.alive())


def test_ending_the_job_ends_the_ranks(far):
    process, _ = start(far, "exec sleep 600")
    wait_for(lambda: far_away(far) == 2)
    process.terminate()
    assert process.wait(120) == 143
    wait_for(lambda: not far.alive())


def test_ranks_end_when_the_job_is_killed_and_only_the_connection_breaks(far):
    process, _ = start(far, "exec sleep 600")
    wait_for(lambda: far_away(far) == 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not far.alive())
