"""Where Horovod's ranks find one another under its Gloo controller: a key/value store over HTTP.

    python3 hvd_rendezvous.py PORT WORLD_SIZE RANKS_PER_NODE

GET, PUT and DELETE of `/SCOPE/KEY`, as Horovod 0.28's `horovod/runner/http/http_server.py` answers them. The
scopes `global`, `local_nodeN` and `cross_LOCAL_RANK` have known sizes: a rank that is done with one sends DELETE,
and once all its ranks have, it is emptied, so that `hvd.init()` works again. Any other scope (process sets have
their own) loses the key at once.
"""

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, Dict, List, Optional


class Store:
    """Keys by scope, and which ranks are done with each."""

    def __init__(self, world: int, per_node: int) -> None:
        self.world, self.per_node = world, per_node
        self.scopes: Dict[str, Dict[str, bytes]] = {}
        self.done: Dict[str, List[str]] = {}
        self.lock = threading.Lock()

    def size(self, scope: str) -> int:
        """How many ranks share a scope, 0 if that is not known; the last node may have fewer than the others."""
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
        """A key's value, None if nobody has put it yet."""
        with self.lock:
            return self.scopes.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> None:
        """Keep a key's value."""
        with self.lock:
            self.scopes.setdefault(scope, {})[key] = value

    def leave(self, scope: str, key: str) -> None:
        """Rank `key` of a scope is done with it."""
        size = self.size(scope)
        with self.lock:
            if not size:
                self.scopes.get(scope, {}).pop(key, None)
                return
            done = self.done.setdefault(scope, [])
            done.append(key)
            if len(done) >= size:
                self.scopes.pop(scope, None)
                self.done.pop(scope, None)


class Handler(BaseHTTPRequestHandler):
    """One request; `server.store` has the keys."""

    server: Any

    def handle_one_request(self) -> None:
        """Whatever scans ports is told that this is no request of Horovod's; nobody reads a traceback."""
        try:
            BaseHTTPRequestHandler.handle_one_request(self)
        except (ValueError, TypeError):
            self.send_error(400)

    def do_GET(self) -> None:
        """Answer with a key's value, or 404."""
        value = self.server.store.get(*self.place())
        self.answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        """Take a key's value."""
        value = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.store.put(*self.place(), value)
        self.answer(200)

    def do_DELETE(self) -> None:
        """A rank is done."""
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
        """Requests are not logged: every rank polls."""


class Server(ThreadingMixIn, HTTPServer):
    """A thread for each request; a thousand ranks may connect at once."""

    daemon_threads = True
    request_queue_size = 1024


def main(arguments: List[str]) -> None:
    """Serve until killed."""
    port, world, per_node = map(int, arguments)
    server = Server(("", port), Handler)
    server.store = Store(world, per_node)  # type: ignore[attr-defined]
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
