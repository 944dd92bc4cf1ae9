"""The control connection of two nodes: signed messages of JSON and bytes, in an asyncio loop.

Both sides authenticate before a message is read (see `wire`) and send heartbeats: a side that receives nothing for
its timeout considers the other dead.
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
MOST_JSON = 64 << 20
MOST_INTRODUCTION = 1 << 12  # bytes of a caller's introduction

Message = Dict[str, Any]


class Link:
    """An authenticated connection. `peer` is the caller's introduction."""

    def __init__(self, connection: socket.socket, key: bytes, caller: bool) -> None:
        self.socket = connection
        self._loop = asyncio.get_event_loop()
        # A key for each direction: a message that is sent back to its sender does not verify.
        self._keys = wire.mac(key, b"caller"), wire.mac(key, b"listener")
        if not caller:
            self._keys = self._keys[::-1]
        self._sent = self._received = 0
        # Several tasks send: messages must not mix, and are numbered in the order in which they leave.
        self._turn = asyncio.Lock()
        self.peer: Message = {}

    async def send(self, message: Message, blob: bytes = b"") -> None:
        """Send one message; OSError if the connection is broken."""
        text = json.dumps(message).encode("ascii")
        async with self._turn:
            head = _SIZES.pack(len(text), len(blob))
            # The number is signed, too: a message that is left out, repeated or moved does not verify.
            tag = wire.mac(self._keys[0], struct.pack("<Q", self._sent), head, text, blob)
            self._sent += 1
            await self._loop.sock_sendall(self.socket, head + text + blob + tag)

    async def receive(self, patience: float, most: int = MOST_JSON) -> Tuple[Message, bytes]:
        """The next message; OSError if the connection ends or nothing arrives for `patience` seconds.

        Raises Damaged if its signature or number is wrong. `most`: maximum bytes of the JSON part.
        """
        head = await self._exactly(_SIZES.size, patience)
        length, rest = _SIZES.unpack(head)
        if length > most:
            raise Damaged("received an invalid message")
        text = await self._exactly(length, patience)
        blob = await self._exactly(rest, patience)
        tag = await self._exactly(wire.PROOF, patience)
        if not wire.same(tag, wire.mac(self._keys[1], struct.pack("<Q", self._received), head, text, blob)):
            raise Damaged("received a message that is not signed with the job's secret")
        self._received += 1
        return dict(json.loads(text.decode("ascii"))), blob

    async def _exactly(self, count: int, patience: float) -> bytes:
        return await exactly(self.socket, count, patience)

    def end(self) -> None:
        """Close the sending side only; data still in transit to this side is received."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Shut the connection down in both directions and close it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.release()

    def release(self) -> None:
        """Close this process's descriptor only: another process has the connection now."""
        _drop(self.socket)


async def exactly(connection: socket.socket, count: int, patience: float = math.inf) -> bytes:
    """Exactly `count` bytes; ConnectionError if nothing arrives for `patience` seconds or the connection ends."""
    loop = asyncio.get_event_loop()
    parts = []
    while count:
        try:
            # In parts: each call allocates a buffer of the size that it is given.
            part = await within(patience, loop.sock_recv(connection, min(count, 1 << 20)))
        except asyncio.TimeoutError:
            message = "nothing received for {:.0f} s".format(patience)
            raise ConnectionAbortedError(message) from None
        if not part:
            raise ConnectionResetError("the connection ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _insist(proven: bool, message: str) -> None:
    if not proven:
        raise Damaged(message)


def _open(where: Address) -> socket.socket:
    connection = socket.socket(where[0], socket.SOCK_STREAM)
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def call(
    where: Address, port: int, secret: bytes, introduction: Message, patience: float, source: str = ""
) -> Link:
    """Connect to a node and authenticate both ways within `patience` seconds; `source`: local address to bind.

    Raises OSError if it does not answer, Damaged if it does not know the secret.
    """
    connection = _open(where)
    try:
        if source:
            connection.bind((source, 0))
        return await within(patience, _introduce(connection, where, port, secret, introduction))
    except asyncio.TimeoutError:
        _drop(connection)
        message = "no answer in {:.0f} s".format(patience)
        raise ConnectionAbortedError(message) from None
    except BaseException:
        _drop(connection)
        raise


async def _introduce(
    connection: socket.socket, where: Address, port: int, secret: bytes, introduction: Message
) -> Link:
    loop = asyncio.get_event_loop()
    await loop.sock_connect(connection, (where[1], port))
    proof = wire.Handshake(secret)
    await loop.sock_sendall(connection, wire.HELLO + proof.mine)
    theirs = await exactly(connection, wire.NONCE)
    shown = await exactly(connection, wire.PROOF)
    _insist(
        proof.check(b"listener", theirs, shown),
        "the program that listens there does not know the job's secret",
    )
    await loop.sock_sendall(connection, proof.proof(b"caller", theirs))
    link = Link(connection, proof.key(proof.mine, theirs), caller=True)
    await link.send(introduction)
    return link


async def answer(connection: socket.socket, secret: bytes) -> Link:
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
        _insist(hello.startswith(wire.HELLO), "a caller that is not a node program")
        await loop.sock_sendall(connection, proof.mine + proof.proof(b"listener", theirs))
        shown = await exactly(connection, wire.PROOF)
        _insist(proof.check(b"caller", theirs, shown), "the caller does not know the job's secret")
        link = Link(connection, proof.key(theirs, proof.mine), caller=False)
        link.peer, _ = await link.receive(math.inf, MOST_INTRODUCTION)
    except BaseException:
        _drop(connection)
        raise
    return link


def _drop(connection: socket.socket) -> None:
    """Close a connection that a task may wait for: in Python 3.6 the loop keeps the callbacks of closed descriptors."""
    if connection.fileno() >= 0:
        loop = asyncio.get_event_loop()
        loop.remove_reader(connection)
        loop.remove_writer(connection)
        connection.close()
