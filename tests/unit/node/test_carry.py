"""Connections over one stream: both ends of `dlrun shell --tunnel`, over a pair of sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from dlrun.node import carry

from tests.ports import free_port

PROGRAM = Path(carry.__file__)
_LINKS: list[socket.socket] = []
"""Ends of this test, closed with their tunnel."""


def echo(link: socket.socket) -> None:
    """Send back all, once all has come; then close."""
    content = b""
    while part := link.recv(1 << 16):
        content += part
    link.sendall(content)
    link.close()


@contextmanager
def server(serve=echo):
    """A port of this machine that serves each connection in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                link, _ = listening.accept()
                threading.Thread(target=serve, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listening.getsockname()[1]
    listening.close()


@contextmanager
def tunnel(port: int, words: list[str]):
    """The near end of a tunnel to a port, whose far end is the program as it runs on a node."""
    python = os.environ.get("DLRUN_NODE_PYTHON", sys.executable)
    far = subprocess.Popen(
        [python, "-I", "-c", PROGRAM.read_text(), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert far.stdout.read(len(carry.READY)) == carry.READY
    sent = far.stdin.fileno()
    # Threads of connections outlive the tunnel: they must not write to what has the number next.
    writing = threading.Lock()

    def write(data: bytes) -> None:
        with writing:
            if far.stdin.closed:
                raise BrokenPipeError
            while data:
                data = data[os.write(sent, data) :]

    near = carry.Carrier(lambda: os.read(far.stdout.fileno(), 1 << 16), write, refused=words.append)
    thread = threading.Thread(target=near.run, daemon=True)
    thread.start()
    yield near
    for link in _LINKS:
        link.close()
    _LINKS.clear()
    near.leave()
    thread.join(10)
    assert not thread.is_alive()
    assert far.wait(10) == 0
    with writing:
        far.stdin.close()
    far.stdout.close()


def begun(near: carry.Carrier) -> socket.socket:
    mine, theirs = socket.socketpair()
    _LINKS.append(mine)
    near.begin(theirs)
    mine.settimeout(20)
    return mine


def received(link: socket.socket) -> bytes:
    content = b""
    while part := link.recv(1 << 16):
        content += part
    return content


def test_what_is_sent_comes_back_and_each_direction_ends_by_itself():
    sizes = [0, 1, carry.PART, carry.WINDOW - 1, carry.WINDOW + 1, 3 * carry.WINDOW]
    contents = [os.urandom(size) for size in sizes]
    with server() as port, tunnel(port, []) as near:
        links = [begun(near) for _ in contents]
        senders = []
        for link, content in zip(links, contents, strict=True):

            def send(link=link, content=content) -> None:
                link.sendall(content)
                link.shutdown(socket.SHUT_WR)

            senders.append(threading.Thread(target=send))
            senders[-1].start()
        assert [received(link) for link in links] == contents
        for sender in senders:
            sender.join()


@pytest.mark.slow
@pytest.mark.each_python
def test_one_that_does_not_read_stops_no_other():
    def pour(link: socket.socket) -> None:
        with suppress(OSError):
            link.sendall(bytes(64 * carry.WINDOW))
            link.close()

    with server(pour) as port, tunnel(port, []) as near:
        stalled, reading = begun(near), begun(near)
        assert len(received(reading)) == 64 * carry.WINDOW
        assert len(received(stalled)) == 64 * carry.WINDOW


def test_a_port_on_which_nothing_listens_is_said():
    words: list[str] = []
    with tunnel(free_port(), words) as near:
        assert begun(near).recv(1) == b""
        assert words == ["Connection refused"]


def test_a_connection_that_breaks_is_closed_at_the_other_end():
    def leave(link: socket.socket) -> None:
        link.recv(1)
        link.close()

    with server(leave) as port, tunnel(port, []) as near:
        link = begun(near)
        link.sendall(b"x")
        assert link.recv(1) == b""


@pytest.mark.parametrize(
    "frame",
    [
        carry.HEAD.pack(carry.DATA, 1, carry.WINDOW + 1),
        carry.HEAD.pack(carry.OPEN, 7, 0) + carry.HEAD.pack(carry.OPEN, 7, 0),
        carry.HEAD.pack(carry.OPEN, 7, 0)
        + 3 * (carry.HEAD.pack(carry.DATA, 7, carry.WINDOW // 2) + bytes(carry.WINDOW // 2)),
    ],
    ids=["too long", "twice", "over the window"],
)
def test_a_stream_that_is_none_ends_the_far_end(frame):
    """Nothing is kept without bound."""
    held = threading.Event()
    parts = [frame, b""]

    def slow() -> socket.socket:
        held.wait(20)
        raise OSError

    far = carry.Carrier(lambda: parts.pop(0), lambda _: None, slow)
    with pytest.raises(ValueError, match=r"frame|connection"):
        far.run()
    held.set()
