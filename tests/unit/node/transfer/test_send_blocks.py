"""Sending to a node: what is left of a connection that ends."""

import socket
import time

import pytest
from dlrun.node.transfer.send_blocks import Sender

SIZE = 16 << 20  # bytes: more than the buffers of a connection


class Buffer:
    """A block that has been received as a whole."""

    number, length, digests, view = 0, SIZE, b"", memoryview(bytes(SIZE))

    def wait(self, _):
        return SIZE

    def retain(self):
        pass

    release = retain


def drain(receiver):
    """Receive to the end of the connection."""
    while receiver.recv(1 << 20):
        pass


def test_a_connection_that_is_closed_takes_nothing_more_from_the_link():
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        with server.accept()[0] as receiver:
            counts = []
            sender = Sender(peer, b"", [], None, lambda *count: counts.append(count), lambda: None)
            sender.put(Buffer())
            end = time.monotonic() + 60
            while len(counts) < 2 and time.monotonic() < end:
                time.sleep(0.01)
            sender.close()
            while peer.fileno() >= 0 and time.monotonic() < end:
                time.sleep(0.01)
            with pytest.raises(ConnectionResetError):
                drain(receiver)
