"""Connections to a port of this node, carried over standard input and output: the far end of `dlrun shell --tunnel`.

    python3 carry.py PORT

Many connections share one stream, in frames of a kind, a connection's number, a length and so many bytes. Each direction
of a connection has a window: what its reader does not take is not sent, so that one that is slow does not stop the others.
Both ends run this code; only the far one connects.
"""

import os
import socket
import struct
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Callable, Deque, Dict, Optional

OPEN, DATA, END, ROOM, GONE, ALIVE, LEAVE = b"o", b"d", b"e", b"r", b"g", b"a", b"l"
"""A connection begins; bytes of it; no more bytes; so many bytes were taken; it is broken; this end still runs; end."""
HEAD = struct.Struct(">cII")
WINDOW = 1 << 18
"""Maximum bytes of a connection that are on their way in one direction."""
PART = 1 << 15
"""Maximum bytes of a frame's content that is sent."""
HEARTBEAT = 20.0
"""Seconds between two signs of life of the far end."""
READY = b"\0dlrun-tunnel\0"
"""What the far end writes first: a login shell may print lines before it."""
MOST = 512
"""Maximum number of connections at a time."""


class Connection:
    """One connection: its socket, the bytes that it has not taken yet, and the room at the other end."""

    def __init__(self, number: int, link: socket.socket) -> None:
        self.number, self.link = number, link
        self.waiting: Deque[bytes] = deque()
        self.room = WINDOW
        self.changed = threading.Condition()
        self.over = False  # broken, or both directions have ended
        self.ends = 0  # directions that have ended

    def close(self) -> None:
        """Wake its threads and close the socket."""
        with self.changed:
            self.over = True
            self.changed.notify_all()
        with suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()


class Carrier:
    """Connections over one stream.

    `read` returns the next bytes (empty at the end), `write` writes all of its bytes or raises OSError. `connect` makes the
    socket of a connection that the other end begins; without it, this end begins all. `refused` is called with the other
    end's words when a connection could not be made.
    """

    def __init__(
        self,
        read: Callable[[], bytes],
        write: Callable[[bytes], object],
        connect: Optional[Callable[[], socket.socket]] = None,
        refused: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._read, self._write, self._connect, self._refused = read, write, connect, refused
        self._sending = threading.Lock()
        self._table = threading.Lock()
        self._connections: Dict[int, Connection] = {}
        self._next = 0
        self._buffer = b""

    def run(self) -> None:
        """Carry until the stream ends; then all connections are closed. Raises ValueError for what is not a frame."""
        try:
            while True:
                head = self._exactly(HEAD.size)
                if head is None:
                    return
                kind, number, size = HEAD.unpack(head)
                if kind == LEAVE:
                    return
                if kind == ROOM:
                    self._gained(number, size)
                    continue
                if size > WINDOW:
                    raise ValueError("a frame is too long")
                content = self._exactly(size)
                if content is None:
                    return
                self._arrived(kind, number, content)
        finally:
            with self._table:
                left = list(self._connections.values())
                self._connections.clear()
            for connection in left:
                connection.close()

    def begin(self, link: socket.socket) -> None:
        """Carry a connection that was accepted here."""
        with self._table:
            if len(self._connections) >= MOST:
                link.close()
                return
            self._next += 1
            number = self._next
            connection = self._connections[number] = Connection(number, link)
        self._send(OPEN, number)
        self._start(connection)

    def live(self) -> None:
        """Tell the other end that this one runs. Raises OSError if it has gone."""
        self._send(ALIVE, 0)

    def leave(self) -> None:
        """Tell the other end to end, so that this one ends, too. Raises OSError if it has gone."""
        self._send(LEAVE, 0)

    def _exactly(self, size: int) -> Optional[bytes]:
        while len(self._buffer) < size:
            more = self._read()
            if not more:
                return None
            self._buffer += more
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _send(self, kind: bytes, number: int, content: bytes = b"", size: Optional[int] = None) -> None:
        head = HEAD.pack(kind, number, len(content) if size is None else size)
        with self._sending:
            self._write(head + content)

    def _start(self, connection: Connection) -> None:
        for work in (self._take, self._give):
            threading.Thread(target=work, args=(connection,), daemon=True).start()

    def _arrived(self, kind: bytes, number: int, content: bytes) -> None:
        if kind == OPEN and self._connect is not None:
            with self._table:
                if number in self._connections or len(self._connections) >= MOST:
                    raise ValueError("a connection too many")
                new = self._connections[number] = Connection(number, socket.socket())
            # To connect may take seconds: the others continue meanwhile, and what arrives for this one waits.
            threading.Thread(target=self._open, args=(new, self._connect), daemon=True).start()
            return
        with self._table:
            connection = self._connections.get(number)
        if connection is None:
            return
        if kind == GONE:
            if content:
                self._refused(content.decode("utf-8", "replace"))
            self._drop(connection)
            return
        with connection.changed:
            if kind == DATA and sum(map(len, connection.waiting)) + len(content) > WINDOW:
                raise ValueError("more than the window of a connection")
            if kind in (DATA, END):
                connection.waiting.append(content if kind == DATA else b"")
            connection.changed.notify_all()

    def _gained(self, number: int, size: int) -> None:
        with self._table:
            connection = self._connections.get(number)
        if connection is not None:
            with connection.changed:
                connection.room = min(WINDOW, connection.room + size)
                connection.changed.notify_all()

    def _open(self, connection: Connection, connect: Callable[[], socket.socket]) -> None:
        try:
            link = connect()
        except OSError as error:
            self._gone(connection, error.strerror or str(error))
            return
        with connection.changed:
            late = connection.over
            if not late:
                connection.link.close()
                connection.link = link
        if late:  # the other end has given up
            link.close()
        else:
            self._start(connection)

    def _gone(self, connection: Connection, words: str = "") -> None:
        self._drop(connection)
        with suppress(OSError):
            self._send(GONE, connection.number, words.encode())

    def _take(self, connection: Connection) -> None:
        """From the socket to the stream, as far as the other end has room."""
        try:
            while True:
                with connection.changed:
                    while connection.room == 0 and not connection.over:
                        connection.changed.wait()
                    if connection.over:
                        return
                    room = connection.room
                data = connection.link.recv(min(PART, room))
                if not data:
                    self._send(END, connection.number)
                    self._ended(connection)
                    return
                with connection.changed:
                    connection.room -= len(data)
                self._send(DATA, connection.number, data)
        except OSError:
            if not connection.over:
                self._gone(connection)

    def _give(self, connection: Connection) -> None:
        """From the stream to the socket."""
        try:
            while True:
                with connection.changed:
                    while not connection.waiting and not connection.over:
                        connection.changed.wait()
                    if connection.over:
                        return
                    data = connection.waiting[0]
                if not data:
                    connection.link.shutdown(socket.SHUT_WR)
                    self._ended(connection)
                    return
                connection.link.sendall(data)
                with connection.changed:
                    connection.waiting.popleft()
                self._send(ROOM, connection.number, size=len(data))
        except OSError:
            if not connection.over:
                self._gone(connection)

    def _ended(self, connection: Connection) -> None:
        with connection.changed:
            connection.ends += 1
            both = connection.ends == 2
        if both:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        with self._table:
            self._connections.pop(connection.number, None)
        connection.close()


def connect(port: int) -> socket.socket:
    """A connection to a port of this node: on loopback, else under its own name. Raises OSError."""
    first = None  # type: Optional[OSError]
    for host in ("127.0.0.1", "::1", socket.gethostname()):
        try:
            link = socket.create_connection((host, port), timeout=10)
        except OSError as error:
            first = first or error
        else:
            link.settimeout(None)
            return link
    assert first is not None  # noqa: S101 - there is a host
    raise first


def main(port: int) -> None:
    """Carry until standard input ends, which is when the near end has gone."""

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    carrier = Carrier(lambda: os.read(0, 1 << 16), write, lambda: connect(port))
    write(READY)
    done = threading.Event()

    def beat() -> None:
        try:
            while not done.wait(HEARTBEAT):
                carrier.live()
        except OSError:
            os._exit(0)  # the near end has gone

    threading.Thread(target=beat, daemon=True).start()
    with suppress(OSError, ValueError):
        carrier.run()
    done.set()
    os._exit(0)  # threads may wait for their sockets


if __name__ == "__main__":
    main(int(sys.argv[1]))
