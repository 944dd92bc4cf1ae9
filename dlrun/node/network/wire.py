"""The protocol between nodes: proofs of the job's secret, and blocks as frames that carry their hashes.

A connection begins with a challenge each way, so that neither side speaks with one that does not know the
secret. A frame's head is signed; it holds the hashes of the payload, which is checked where it is written.
"""

import hashlib
import hmac
import os
import socket
import struct
from typing import List, Optional

from ..common.errors import Damaged

HELLO = b"dlrun-1\n"
NONCE = 16
PROOF = 32
TAG = 16
SEGMENT = struct.Struct("<I")
ABORT = 0xFFFFFFFF  # in place of a segment's length: the rest of this frame will not follow
_HEAD = struct.Struct("<III")  # block, bytes of payload, bytes of hashes
MOST_DIGESTS = 1 << 16


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over parts, each with its length, so that no two lists of parts are the same message."""
    total = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        total.update(struct.pack("<Q", len(part)))
        total.update(part)
    return total.digest()


def same(a: bytes, b: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(a, b)


def session_key(secret: bytes, session: str) -> bytes:
    """The key that signs the frames of one session."""
    return mac(secret, b"frames", session.encode("ascii"))


class Handshake:
    """One side of the proof: both know the secret, neither shows it, and a recorded conversation cannot be replayed."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.mine = os.urandom(NONCE)

    def proof(self, role: bytes, theirs: bytes) -> bytes:
        """The proof for the other side that this side knows the secret; `role` is this side's: b"caller" or b"listener"."""
        return mac(self._secret, role, theirs, self.mine)

    def check(self, role: bytes, theirs: bytes, proof: bytes) -> bool:
        """Whether the other side, in its role, knows the secret."""
        return same(proof, mac(self._secret, role, self.mine, theirs))

    def key(self, caller: bytes, listener: bytes) -> bytes:
        """The key of this connection."""
        return mac(self._secret, b"connection", caller, listener)


class Head:
    """A frame's head: the block, the bytes that follow, their hashes."""

    size = _HEAD.size

    def __init__(self, number: int, length: int, digests: bytes) -> None:
        self.number, self.length, self.digests = number, length, digests

    def pack(self, key: bytes) -> bytes:
        """The signed head."""
        head = _HEAD.pack(self.number, self.length, len(self.digests))
        return head + self.digests + mac(key, head, self.digests)[:TAG]


def receive_head(peer: socket.socket, key: bytes) -> Optional[Head]:
    """The next frame's head; None when the other side ended the connection; Damaged when it is not signed."""
    fixed = exactly(peer, _HEAD.size)
    if fixed is None:
        return None
    number, length, count = _HEAD.unpack(fixed)
    if count > MOST_DIGESTS:
        raise Damaged("received a frame with an invalid head")
    rest = exactly(peer, count + TAG)
    if rest is None:
        return None
    if not same(rest[count:], mac(key, fixed, rest[:count])[:TAG]):
        raise Damaged("received a frame that is not signed with the job's secret")
    return Head(number, length, rest[:count])


def exactly(peer: socket.socket, count: int) -> Optional[bytes]:
    """Exactly `count` bytes, or None when the connection ends before."""
    data = peer.recv(count, socket.MSG_WAITALL)
    while len(data) < count:
        more = peer.recv(count - len(data), socket.MSG_WAITALL)
        if not more:
            return None
        data += more
    return data


def fill(peer: socket.socket, view: memoryview) -> bool:
    """Fill a buffer; whether the connection lasted that long."""
    done = 0
    while done < len(view):
        got = peer.recv_into(view[done:], 0, socket.MSG_WAITALL)
        if not got:
            return False
        done += got
    return True


def send_all(peer: socket.socket, parts: "List[bytes | memoryview]") -> None:
    """Send several buffers as one message, without joining them."""
    sent = peer.sendmsg(parts)
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
        else:
            peer.sendall(memoryview(part)[sent:])
            sent = 0
