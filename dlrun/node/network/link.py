"""The control connection between two nodes: signed messages of JSON and bytes, in an asyncio loop.

Both sides authenticate before a message is read (see `wire`). They send heartbeats, so that a side that receives nothing
during its timeout considers the other one dead.
"""

import asyncio
import contextlib
import json
import math
import socket
import struct
from typing import Any, Dict, Tuple

from ..common.deadline import within
from ..common.errors import Damaged
from . import wire
from .hosts import Address

_SIZES = struct.Struct("<QQ")  # bytes of JSON, bytes of the rest
MAX_JSON = 64 << 20
MAX_INTRODUCTION = 1 << 12  # bytes of a caller's introduction

Message = Dict[str, Any]


class Link:
    """An authenticated connection. `peer` is the caller's introduction."""

    def __init__(self, connection: socket.socket, key: bytes, caller: bool) -> None:
        self.socket = connection
        self._loop = asyncio.get_event_loop()
        # A key for each direction: a message that an attacker sends back to its sender does not verify.
        self._keys = wire.mac(key, b"caller"), wire.mac(key, b"listener")
        if not caller:
            self._keys = self._keys[::-1]
        self._sent = self._received = 0
        # Several tasks send: the parts of two messages must not mix, and their numbers must be in the order of sending.
        self._turn = asyncio.Lock()
        self.peer: Message = {}

    async def send(self, message: Message, blob: bytes = b"") -> None:
        """Send one message; OSError if the connection is broken."""
        text = json.dumps(message).encode("ascii")
        async with self._turn:
            head = _SIZES.pack(len(text), len(blob))
            # The number is signed, too: after a message was dropped, repeated or reordered, the next does not verify.
            tag = wire.mac(self._keys[0], struct.pack("<Q", self._sent), head, text, blob)
            self._sent += 1
            await self._loop.sock_sendall(self.socket, head + text + blob + tag)

    async def receive(self, timeout: float, most: int = MAX_JSON) -> Tuple[Message, bytes]:
        """The next message; OSError if the connection ends or nothing arrives for `timeout` seconds.

        Raises Damaged if its signature or number is wrong. `most`: maximum bytes of the JSON part.
        """
        head = await self._exactly(_SIZES.size, timeout)
        length, rest = _SIZES.unpack(head)
        if length > most:
            raise Damaged("received an invalid message")
        text = await self._exactly(length, timeout)
        blob = await self._exactly(rest, timeout)
        tag = await self._exactly(wire.PROOF, timeout)
        if not wire.same(tag, wire.mac(self._keys[1], struct.pack("<Q", self._received), head, text, blob)):
            raise Damaged("received a message that is not signed with the job's secret")
        self._received += 1
        return dict(json.loads(text.decode("ascii"))), blob

    async def _exactly(self, count: int, timeout: float) -> bytes:
        return await exactly(self.socket, count, timeout)

    def end(self) -> None:
        """Close the sending side only; this side can still receive."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Shut the connection down in both directions and close it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.release()

    def release(self) -> None:
        """Close this process's descriptor only: a worker process has the connection now."""
        _close_socket(self.socket)


async def exactly(connection: socket.socket, count: int, timeout: float = math.inf) -> bytes:
    """Exactly `count` bytes; ConnectionError if nothing arrives for `timeout` seconds or the connection ends."""
    loop = asyncio.get_event_loop()
    parts = []
    while count:
        try:
            # At most 1 MiB at a time: each call allocates a buffer of the requested size, which the sender chooses.
            part = await within(timeout, loop.sock_recv(connection, min(count, 1 << 20)))
        except asyncio.TimeoutError:
            raise ConnectionAbortedError("nothing received for {:.0f} s".format(timeout)) from None
        if not part:
            raise ConnectionResetError("the connection ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _require(proven: bool, message: str) -> None:
    if not proven:
        raise Damaged(message)


def _new_socket(where: Address) -> socket.socket:
    connection = socket.socket(where[0], socket.SOCK_STREAM)
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def connect(
    where: Address, port: int, secret: bytes, introduction: Message, timeout: float, source: str = ""
) -> Link:
    """Connect to a node and authenticate both ways within `timeout` seconds; `source`: local address to bind.

    Raises OSError if it does not answer, Damaged if it does not know the secret.
    """
    connection = _new_socket(where)
    try:
        if source:
            connection.bind((source, 0))
        return await within(timeout, _authenticate(connection, where, port, secret, introduction))
    except asyncio.TimeoutError:
        _close_socket(connection)
        raise ConnectionAbortedError("no answer in {:.0f} s".format(timeout)) from None
    except BaseException:
        _close_socket(connection)
        raise


async def _authenticate(
    connection: socket.socket, where: Address, port: int, secret: bytes, introduction: Message
) -> Link:
    loop = asyncio.get_event_loop()
    await loop.sock_connect(connection, (where[1], port))
    proof = wire.Handshake(secret)
    await loop.sock_sendall(connection, wire.HELLO + proof.mine)
    theirs = await exactly(connection, wire.NONCE)
    shown = await exactly(connection, wire.PROOF)
    _require(
        proof.check(b"listener", theirs, shown),
        "the program that listens there does not know the job's secret",
    )
    await loop.sock_sendall(connection, proof.proof(b"caller", theirs))
    link = Link(connection, proof.key(proof.mine, theirs), caller=True)
    await link.send(introduction)
    return link


async def accept(connection: socket.socket, secret: bytes) -> Link:
    """Authenticate an accepted connection; the link's `peer` is the caller's introduction.

    Raises OSError or Damaged if it fails. It has no deadline: `Listener` sets one for the whole exchange.
    """
    loop = asyncio.get_event_loop()
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = await exactly(connection, len(wire.HELLO) + wire.NONCE)
        theirs = hello[len(wire.HELLO) :]
        proof = wire.Handshake(secret)
        _require(hello.startswith(wire.HELLO), "a caller that is not a node program")
        await loop.sock_sendall(connection, proof.mine + proof.proof(b"listener", theirs))
        shown = await exactly(connection, wire.PROOF)
        _require(proof.check(b"caller", theirs, shown), "the caller does not know the job's secret")
        link = Link(connection, proof.key(theirs, proof.mine), caller=False)
        link.peer, _ = await link.receive(math.inf, MAX_INTRODUCTION)
    except BaseException:
        _close_socket(connection)
        raise
    return link


def _close_socket(connection: socket.socket) -> None:
    """Close a connection that a task may be waiting for."""
    # In Python 3.6 the loop keeps the callbacks of a closed descriptor, and would call them for its next owner.
    if connection.fileno() >= 0:
        loop = asyncio.get_event_loop()
        loop.remove_reader(connection)
        loop.remove_writer(connection)
        connection.close()
