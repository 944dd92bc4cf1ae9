"""The wire protocol of the nodes: mutual authentication with the job's secret, and blocks as frames with hashes.

A connection begins with a challenge in each direction. The head of a frame is signed and contains the hashes of the
payload, which the receiver checks when it writes the block.
"""

import hashlib
import hmac
import os
import socket
import struct
from typing import List, Optional

from ..common.errors import Damaged

HELLO = b"dlrun-1\n"
NONCE = 16  # bytes
PROOF = 32  # bytes of an HMAC-SHA256
TAG = 16  # bytes of the signature of a frame's head: half of an HMAC-SHA256
SEGMENT = struct.Struct("<I")
ABORT = 0xFFFFFFFF  # in place of a segment's length: the rest of this frame will not follow
# The block of which a new receiver has the first bytes, and their number; 0 of them: there is none. If there is one, the
# sender replies with this number (as `SEGMENT`) where it sends the rest of this block first, else with 0.
PART = struct.Struct("<II")
_HEAD = struct.Struct("<III")  # block, bytes of payload, bytes of hashes
MAX_DIGESTS = 1 << 16


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over parts; each is preceded by its length, so that different lists of parts differ as messages."""
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
    """One side of the authentication; nonces of both sides make a recorded exchange useless."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.mine = os.urandom(NONCE)

    def proof(self, role: bytes, theirs: bytes) -> bytes:
        """The proof that this side knows the secret; `role` is this side's, b"caller" or b"listener"."""
        # The role is part of the proof: the proof of a listener cannot be sent back to it as that of a caller.
        return mac(self._secret, role, theirs, self.mine)

    def check(self, role: bytes, theirs: bytes, proof: bytes) -> bool:
        """Whether a proof of the other side, in its role, is valid."""
        return same(proof, mac(self._secret, role, self.mine, theirs))

    def key(self, caller: bytes, listener: bytes) -> bytes:
        """The key of this connection, from the nonces of both sides."""
        return mac(self._secret, b"connection", caller, listener)


class Head:
    """The head of a frame: block number, bytes of payload, hashes of the payload."""

    size = _HEAD.size

    def __init__(self, number: int, length: int, digests: bytes) -> None:
        self.number, self.length, self.digests = number, length, digests

    def pack(self, key: bytes) -> bytes:
        """The signed head."""
        head = _HEAD.pack(self.number, self.length, len(self.digests))
        return head + self.digests + mac(key, head, self.digests)[:TAG]


def receive_head(peer: socket.socket, key: bytes) -> Optional[Head]:
    """The next frame's head; None if the connection has ended; Damaged if the signature is wrong."""
    fixed = exactly(peer, _HEAD.size)
    if fixed is None:
        return None
    number, length, count = _HEAD.unpack(fixed)
    if count > MAX_DIGESTS:
        raise Damaged("received a frame with an invalid head")
    rest = exactly(peer, count + TAG)
    if rest is None:
        return None
    if not same(rest[count:], mac(key, fixed, rest[:count])[:TAG]):
        raise Damaged("received a frame that is not signed with the job's secret")
    return Head(number, length, rest[:count])


def exactly(peer: socket.socket, count: int) -> Optional[bytes]:
    """Exactly `count` bytes, or None if the connection ends first."""
    data = peer.recv(count, socket.MSG_WAITALL)
    while len(data) < count:
        more = peer.recv(count - len(data), socket.MSG_WAITALL)
        if not more:
            return None
        data += more
    return data


def fill(peer: socket.socket, view: memoryview) -> bool:
    """Fill a buffer; False if the connection ended first."""
    done = 0
    while done < len(view):
        got = peer.recv_into(view[done:], 0, socket.MSG_WAITALL)
        if not got:
            return False
        done += got
    return True


def send_all(peer: socket.socket, parts: "List[bytes | memoryview]") -> None:
    """Send several buffers with one call, without copying them into one."""
    sent = peer.sendmsg(parts)
    # `sendmsg` may send only a part of them.
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
        else:
            peer.sendall(memoryview(part)[sent:])
            sent = 0
