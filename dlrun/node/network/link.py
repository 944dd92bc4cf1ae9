"""The connection on which two nodes agree: messages of JSON and bytes, each signed, in an asyncio loop.

A connection is proven both ways before a message is read (see `wire`). Silence is a failure: both sides send a
heartbeat, and a side that receives nothing for too long considers the other dead.
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
    """A proven connection. `peer` is the caller's introduction."""

    def __init__(self, connection: socket.socket, key: bytes, caller: bool) -> None:
        self.socket = connection
        self._loop = asyncio.get_event_loop()
        self._keys = wire.mac(key, b"caller"), wire.mac(key, b"listener")
        if not caller:
            self._keys = self._keys[::-1]
        self._sent = self._received = 0
        self._turn = asyncio.Lock()
        self.peer: Message = {}

    async def send(self, message: Message, blob: bytes = b"") -> None:
        """Send one message; OSError when the connection is broken."""
        text = json.dumps(message).encode("ascii")
        async with self._turn:
            head = _SIZES.pack(len(text), len(blob))
            tag = wire.mac(self._keys[0], struct.pack("<Q", self._sent), head, text, blob)
            self._sent += 1
            await self._loop.sock_sendall(self.socket, head + text + blob + tag)

    async def receive(self, patience: float, most: int = MOST_JSON) -> Tuple[Message, bytes]:
        """The next message; OSError when the connection ends or nothing comes for `patience` seconds.

        Raises Damaged when the message is not the other side's next one.
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
        """Send nothing more; what the other side still sends is received."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.release()

    def release(self) -> None:
        """Release the connection, which another process continues with."""
        _drop(self.socket)


async def exactly(connection: socket.socket, count: int, patience: float = math.inf) -> bytes:
    """Exactly `count` bytes; ConnectionError when nothing arrives for `patience` seconds, or the connection ends."""
    loop = asyncio.get_event_loop()
    parts = []
    while count:
        try:
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
    """Call a node and prove the secret both ways within `patience` seconds, from this node's address `source` if given.

    OSError when it does not answer, Damaged when it does not know the secret.
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
    """Answer a caller; its introduction is the link's `peer`. OSError or Damaged when it proves nothing.

    There is no deadline: the caller sets one for the whole.
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
    """Close a connection that may be waited for: Python 3.6 keeps what waits."""
    if connection.fileno() >= 0:
        loop = asyncio.get_event_loop()
        loop.remove_reader(connection)
        loop.remove_writer(connection)
        connection.close()
