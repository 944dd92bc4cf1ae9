"""The rendezvous of Horovod's ranks under its Gloo controller: a key/value store over HTTP.

    python3 hvd_rendezvous.py PORT WORLD_SIZE RANKS_PER_NODE

GET, PUT and DELETE of `/SCOPE/KEY` behave as in Horovod 0.28 (`horovod/runner/http/http_server.py`). The scopes
`global`, `local_nodeN` and `cross_LOCAL_RANK` have known sizes: each rank sends DELETE when it has finished with a
scope, and after the last one the scope is emptied, so that `hvd.init()` can run again. In any other scope (such as
those of process sets) DELETE removes the key at once.

Horovod's client does not authenticate, so the server listens only on the rendezvous address (DLRUN_MASTER_ADDR), accepts
only connections from the job's hosts (DLRUN_HOSTS), and stores no more than the ranks can need.
"""

import contextlib
import fcntl
import os
import re
import resource
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Dict, Iterable, List, Optional, Set, Tuple

MAX_NAME = 1024  # bytes of a request's path
MAX_VALUE = 16 << 20  # bytes of a value: Gloo's is about 140 bytes for each rank
SILENCE = 10.0  # seconds within which a request must arrive
LOOKUP_INTERVAL = 5.0  # seconds before names that had no address are looked up again
SIOCGIFADDR, SIOCGIFNETMASK = 0x8915, 0x891B  # linux/sockios.h


class Full(Exception):
    """A request exceeds what ranks store."""


class Store:
    """The keys of each scope, and the ranks that have finished with the scope; bounded in keys and bytes."""

    def __init__(self, world: int, per_node: int) -> None:
        self.world, self.per_node = world, per_node
        # Each rank stores one key in each of three scopes, and for each process set.
        self.keys = (1 << 16) + 64 * world
        # The value of each rank contains an address for every other rank.
        self.bytes = (256 << 20) + 512 * world * world
        self.scopes: Dict[str, Dict[str, bytes]] = {}
        self.done: Dict[str, List[str]] = {}
        self.lock = threading.Lock()

    def size(self, scope: str) -> int:
        """The number of ranks of a scope, 0 if unknown; the last node may have fewer ranks than the others."""
        known = re.match("(global|local_node|cross_)([0-9]*)$", scope)
        if known is None:
            return 0
        kind, number = known.group(1), int(known.group(2) or 0)
        if kind == "local_node":
            return min(self.per_node, self.world - number * self.per_node)
        if kind == "cross_":
            return -(-(self.world - number) // self.per_node)
        return self.world

    def get(self, scope: str, key: str) -> Optional[bytes]:
        """A key's value, None if it has not been stored yet."""
        with self.lock:
            return self.scopes.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        """Store a key's value; raises Full beyond the bound of keys or bytes."""
        with self.lock:
            old = self.scopes.get(scope, {}).get(key)
            self._take(int(old is None), len(value) - len(old or b""))
            self.scopes.setdefault(scope, {})[key] = value

    def _take(self, keys: int, size: int) -> None:
        if keys > self.keys or size > self.bytes:
            raise Full
        self.keys -= keys
        self.bytes -= size

    def _drop(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._take(-1, -len(value))

    def leave(self, scope: str, key: str) -> None:
        """Rank `key` has finished with a scope."""
        size = self.size(scope)
        with self.lock:
            if not size:
                gone = self.scopes.get(scope, {}).pop(key, None)
                self._drop([] if gone is None else [gone])
                return
            done = self.done.setdefault(scope, [])
            done.append(key)
            if len(done) >= size:
                self._drop(self.scopes.pop(scope, {}).values())
                self.done.pop(scope, None)


class Handler(BaseHTTPRequestHandler):
    """One request; `server.store` has the keys."""

    server: Any
    timeout = SILENCE

    def handle_one_request(self) -> None:
        """Answer other clients, such as port scanners, with an error instead of a traceback."""
        try:
            BaseHTTPRequestHandler.handle_one_request(self)
        except Full:
            self.send_error(507)
        except (ValueError, TypeError):
            self.send_error(400)

    def parse_request(self) -> bool:
        """Parse the request line and headers; False, with an error sent, for an invalid request or an overlong path."""
        parsed = BaseHTTPRequestHandler.parse_request(self)
        if parsed and len(self.path) > MAX_NAME:
            self.send_error(414)
            return False
        return parsed

    def do_GET(self) -> None:
        """Answer with a key's value, or 404."""
        value = self.server.store.get(*self.place())
        self.answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        """Take a key's value."""
        length = self.headers["Content-Length"] or ""
        if not re.match("[0-9]{1,18}$", length, re.ASCII):
            self.answer(400)
            return
        if int(length) > MAX_VALUE:
            self.answer(413)
            return
        scope, key = self.place()
        value = self.rfile.read(int(length))
        if len(value) == int(length):
            self.server.store.put(scope, key, value)
            self.answer(200)

    def do_DELETE(self) -> None:
        """A rank has finished with a scope."""
        self.server.store.leave(*self.place())
        self.answer(200)

    def place(self) -> List[str]:
        """Scope and key of `/SCOPE/KEY`; raises ValueError for any other path."""
        _, scope, key = self.path.split("/", 2)
        return [scope, key]

    def answer(self, code: int, body: bytes = b"") -> None:
        """Send a whole answer."""
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing, since every rank polls."""


class Hosts:
    """The IPv4 addresses of the job's hosts: `in` is the access check of the server.

    own: the address that the server listens on; suffix: the ending of host names in that network, such as `-ib0`.
    """

    def __init__(self, names: List[str], suffix: str, own: str) -> None:
        self._own, self._lock, self._looked = own, threading.Lock(), 0.0
        self._names = {name + end for name in names for end in ("", suffix)}
        self._addresses: Set[str] = set()
        self._reported: Set[str] = set()
        self._look()

    def _look(self) -> None:
        self._looked = time.monotonic()
        for name in sorted(self._names):
            with contextlib.suppress(OSError, UnicodeError):
                self._addresses |= {
                    str(entry[4][0]) for entry in socket.getaddrinfo(name, None, socket.AF_INET)
                }
                self._names.discard(name)

    def __contains__(self, address: str) -> bool:
        """Whether connections from this address are accepted."""
        with self._lock:
            if (
                address not in self._addresses
                and self._names
                and time.monotonic() > self._looked + LOOKUP_INTERVAL
            ):
                self._look()
            return address in self._addresses or self._beside(address)

    def _beside(self, address: str) -> bool:
        """Whether an address is in the server's network, and none of the hosts' names resolves to that network."""
        network = network_of(self._own)
        others = self._addresses - {self._own}
        return (
            network is not None and within(address, network) and not any(within(o, network) for o in others)
        )

    def refuse(self, address: str) -> None:
        """Log a refused address, each once and at most 8: a port scan must not fill the log."""
        with self._lock:
            if address in self._reported or len(self._reported) >= 8:
                return
            self._reported.add(address)
        sys.stderr.write("refused a connection from {}: it is not one of the job's hosts\n".format(address))
        sys.stderr.flush()


def network_of(own: str) -> Optional[Tuple[int, int]]:
    """Network and mask of the interface that has an IPv4 address; None for loopback and for unknown addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):
                address = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)[20:24]
                if socket.inet_ntoa(address) == own and not own.startswith("127."):
                    mask = struct.unpack("!I", fcntl.ioctl(asking.fileno(), SIOCGIFNETMASK, request)[20:24])[
                        0
                    ]
                    return struct.unpack("!I", address)[0] & mask, mask
    return None


def within(address: str, network: Tuple[int, int]) -> bool:
    """Whether an IPv4 address is in a network (address, mask)."""
    return bool(struct.unpack("!I", socket.inet_aton(address))[0] & network[1] == network[0])


class Server(ThreadingMixIn, HTTPServer):
    """One thread per connection, at most `most` connections; beyond that the oldest connection is closed."""

    daemon_threads = True
    request_queue_size = 1024
    store: Store
    hosts: Hosts

    def __init__(self, where: Tuple[str, int], handler: Any, most: int = 1024) -> None:
        self._most = most
        self._open: Dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        HTTPServer.__init__(self, where, handler)

    def get_request(self) -> Tuple[socket.socket, Any]:
        """Accept a connection. After an OSError the serve loop tries again; the pause keeps it from spinning."""
        try:
            return HTTPServer.get_request(self)
        except OSError:
            time.sleep(0.05)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether the caller is a host of the job; equal addresses at both ends mean this node."""
        try:
            known = request.getsockname()[0] == client_address[0] or client_address[0] in self.hosts
        except OSError:
            return False
        if not known:
            self.hosts.refuse(client_address[0])
        return known

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        with self._lock:
            if len(self._open) >= self._most:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        try:
            ThreadingMixIn.process_request(self, request, client_address)
        except RuntimeError:  # no thread can be started just now
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Release a connection."""
        with self._lock:
            self._open.pop(request, None)
        HTTPServer.shutdown_request(self, request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection: the rank tries again."""


def server(port: int, world: int, per_node: int) -> Server:
    """The server of a job, bound and listening; its names and addresses are in the job's environment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The ranks of a large job open more connections than the usual soft limit of 1,024 descriptors.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    with open(os.environ["DLRUN_HOSTS"], encoding="utf-8") as file:
        names = file.read().split()
    meet = os.environ["DLRUN_MASTER_ADDR"]
    # The hosts file may have short names where the rendezvous address has a domain or interface suffix.
    suffix = next((meet[len(name) :] for name in names[:1] if meet.startswith(name)), "")
    most = max(16, min(64 + 4 * world, soft - 32 if soft > 0 else 1 << 20))
    made = _bound(_address(meet, alone=len(names) == 1), port, most)
    made.store = Store(world, per_node)
    made.hosts = Hosts(names, suffix, str(made.server_address[0]))
    return made


def _address(name: str, *, alone: bool) -> str:
    """The address to listen on: that of the rendezvous name, or all (`""`) where it resolves to loopback here.

    Debian-like nodes have their own name as 127.0.1.1 in /etc/hosts, which no other node can reach.
    """
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return ""
    return "" if address.startswith("127.") and not alone and address != name else address


def _bound(address: str, port: int, most: int) -> Server:
    try:
        return Server((address, port), Handler, most)
    except OSError:
        if not address:
            raise
    sys.stderr.write("{} is not an address of this node: listening on all\n".format(address))
    return Server(("", port), Handler, most)


def main(arguments: List[str]) -> None:
    """Serve until killed."""
    port, world, per_node = map(int, arguments)
    server(port, world, per_node).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
