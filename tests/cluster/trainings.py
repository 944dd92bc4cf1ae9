"""Trainings with a known behaviour, for `dlrun usage`: standard library only, run by each rank of a job.

    python3 trainings.py BEHAVIOUR SECONDS

Every step ends with a barrier of all ranks over TCP, as in synchronous training.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BEGUN = time.monotonic()
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def compute(seconds: float) -> None:
    """Use so much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


class Ranks:
    """Connections between rank 0 and each other one."""

    def __init__(self) -> None:
        self.peers: list[socket.socket] = []
        if RANK == 0:
            with socket.create_server(ADDRESS, backlog=WORLD) as server:
                self.peers = [server.accept()[0] for _ in range(WORLD - 1)]
            return
        for _ in range(600):
            with suppress(OSError):
                self.peers = [socket.create_connection(ADDRESS, timeout=60)]
            if self.peers:
                return
            time.sleep(0.1)
        sys.exit("no rank 0")

    def exchange(self, size: int, *, go_on: bool = True) -> bool:
        """Send so many bytes from rank 0 to the others and back; whether rank 0 wants another step."""
        if RANK:
            (more,) = struct.unpack("?", self.read(self.peers[0], 1))
            self.peers[0].sendall(self.read(self.peers[0], size))
            return bool(more)
        for peer in self.peers:
            peer.sendall(struct.pack("?", go_on) + bytes(size))
        for peer in self.peers:
            self.read(peer, size)
        return go_on

    @staticmethod
    def read(peer: socket.socket, size: int) -> bytes:
        """Exactly so many bytes."""
        parts = []
        while size:
            part = peer.recv(min(size, 1 << 20))
            if not part:
                sys.exit("a peer is gone")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def load(queue: multiprocessing.Queue[int]) -> None:
    """What a loading process does: much work for each batch."""
    while True:
        compute(0.5)
        queue.put(1)


def step(behaviour: str, number: int, kept: list[bytearray], batches: multiprocessing.Queue[int]) -> None:
    """The work of one rank in one step."""
    if behaviour == "idle":
        if time.monotonic() % 16 < 8:
            compute(0.1)
        else:
            time.sleep(0.1)
    elif behaviour == "slow":
        compute(0.4 if RANK == 1 else 0.1)
    elif behaviour == "memory":
        while len(kept) < 4 * (time.monotonic() - BEGUN):  # by the clock: a busy machine makes fewer steps
            kept.append(bytearray(b"x" * (1 << 20)))
        compute(0.1)
        time.sleep(0.1)
    elif behaviour == "large":
        if not kept:
            kept.append(bytearray(1600 << 20))
            kept[0][::4096] = b"x" * (1600 << 8)  # each page is touched, none is copied
        compute(0.2)
    elif behaviour == "loader":
        batches.get()
        compute(0.01)
    elif behaviour == "disk":
        with Path(f"data-{RANK}").open("wb") as file:
            for _ in range(4):
                file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
    elif behaviour == "network":
        compute(0.005)
    else:
        compute(0.1)


def main(behaviour: str, seconds: float) -> None:
    """Train for so long."""
    ranks, kept = Ranks(), list[bytearray]()
    batches: multiprocessing.Queue[int] = multiprocessing.Queue(2)
    if behaviour == "loader":
        for _ in range(2):
            multiprocessing.Process(target=load, args=(batches,), daemon=True).start()
    size = 4 << 20 if behaviour == "network" else 8
    if behaviour == "large":  # all of it is there before the time counts, also on a busy machine
        step(behaviour, 0, kept, batches)
    until, number, more = time.monotonic() + seconds, 0, True
    while more:
        step(behaviour, number, kept, batches)
        more = ranks.exchange(size, go_on=time.monotonic() < until)
        number += 1
    print(f"rank {RANK}: {number} steps", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
