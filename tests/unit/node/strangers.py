"""Whoever is on the cluster's network and wants a job to fail: idle, dripping, noisy, hasty connections."""

import contextlib
import os
import resource
import selectors
import socket
import threading
import time

NOISE = {
    "nothing": b"",
    "junk": os.urandom(200),
    "greeting": b"dlrun-1\n" + b"x" * 16,
    "number": b"N" + b"%16d" % 5,
    "bulk": b"B" + b"x" * 1000,
    "web": b"GET / HTTP/1.0\r\n\r\n",
}


class Strangers:
    """Attack a port until the end of the `with` block: `idle` connections are held, others come and go."""

    def __init__(self, where, port, idle=400, noisy=4, source=""):
        self.place, self.idle, self.noisy, self.source = (where, port), idle, noisy, source
        self.held = []
        self.heard = b""
        self.met = 0
        self.begun = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._hold)]
        self._threads += [threading.Thread(target=self._bother, args=(n,)) for n in range(noisy)]

    def __enter__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        for connection in self.held:
            connection.close()

    def _open(self):
        connection = socket.create_connection(self.place, 10, (self.source, 0) if self.source else None)
        self.met += 1
        return connection

    def _hold(self):
        """As many idle connections as wanted; those that are closed are made again, some send a byte now and then."""
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                while len(self.held) < self.idle and not self._over.is_set():
                    connection = self._open()
                    connection.setblocking(False)
                    self.held.append(connection)
                    self.begun += 1
            with selectors.DefaultSelector() as selector:
                for connection in self.held:
                    selector.register(connection, selectors.EVENT_READ)
                for key, _ in selector.select(0.05):
                    self._hear(key.fileobj)
            for connection in self.held[::7]:
                with contextlib.suppress(OSError):
                    connection.send(b"d")
            time.sleep(0.05)

    def _hear(self, connection):
        with contextlib.suppress(OSError):
            data = connection.recv(4096)
            self.heard += data
            if data:
                return
        connection.close()
        self.held.remove(connection)

    def _bother(self, number):
        while not self._over.is_set():
            for data in list(NOISE.values())[number % 2 :: 2]:
                with contextlib.suppress(OSError), self._open() as connection:
                    connection.sendall(data)
                    if number % 3 == 0:  # reset, not an orderly end
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            time.sleep(0.005)
