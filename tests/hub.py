"""A hub on loopback: the answers of the Hugging Face Hub that its library needs, for repositories made by a test."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from dataclasses import dataclass, field
from hashlib import sha1, sha256

LARGE = 1000
"""Bytes from which a file has a SHA-256, as those in Git LFS do."""


@dataclass
class Repository:
    """files: name -> content; gated: whether it needs the token; sizes: name -> size that is listed in place of the file's."""

    commit: str
    files: dict[str, bytes]
    gated: bool = False
    branches: tuple[str, ...] = ("main",)
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Hub:
    """repositories: `models/ORG/NAME` -> repository; asked: all requests so far, `METHOD PATH [RANGE]`.

    limits: answers of 429 before the first other one, with `after` as `Retry-After`; cuts: answers that break off half-way.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    token: str = "hf_of_the_test"
    limits: int = 0
    after: str = "1"
    cuts: int = 0
    url: str = ""

    def gets(self) -> list[str]:
        """The requests for contents of files."""
        return [line for line in self.asked if "/resolve/" in line]


def serve(hub: Hub) -> http.server.ThreadingHTTPServer:
    """Start the hub; its `url` is set."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            asked = f"GET {path} {self.headers.get('Range', '')}".rstrip()
            hub.asked.append(asked)
            hub.tokens.append(self.headers.get("Authorization"))
            if hub.limits:
                hub.limits -= 1
                return self.answer(429, b"{}", **{"Retry-After": hub.after})
            if path.startswith("/api/"):
                kind, _, rest = path.removeprefix("/api/").partition("/")
                name, _, revision = rest.partition("/revision/")
                return self.listing(f"{kind}/{name}", revision or "main")
            name, _, rest = path.removeprefix("/").partition("/resolve/")
            kind = "" if name.startswith("datasets/") else "models/"
            return self.content(kind + name, *rest.split("/", 1))

        def repository(self, name: str, revision: str) -> Repository | None:
            found = hub.repositories.get(name)
            if found is None:
                self.answer(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
            elif found.gated and self.headers.get("Authorization") != f"Bearer {hub.token}":
                self.answer(403, b"{}", **{"X-Error-Code": "GatedRepo"})
            elif revision not in (found.commit, *found.branches):
                self.answer(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
            else:
                return found
            return None

        def listing(self, name: str, revision: str) -> None:
            if (found := self.repository(name, revision)) is None:
                return
            files = []
            for path, content in found.files.items():
                one = {"rfilename": path, "size": found.sizes.get(path, len(content))}
                one["blobId"] = sha1(b"blob %d\0" % len(content) + content).hexdigest()
                if len(content) >= LARGE:
                    one["lfs"] = {
                        "size": len(content),
                        "sha256": sha256(content).hexdigest(),
                        "pointerSize": 130,
                    }
                files.append(one)
            data = {"id": name.partition("/")[2], "sha": found.commit, "siblings": files}
            self.answer(200, json.dumps(data).encode())

        def content(self, name: str, revision: str, path: str) -> None:
            if (found := self.repository(name, revision)) is None:
                return
            whole, start = found.files[path], 0
            if wanted := self.headers.get("Range"):
                start = int(wanted.partition("=")[2].rstrip("-"))
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(whole) - start))
            self.end_headers()
            body = whole[start:]
            if hub.cuts and len(body) >= LARGE:
                hub.cuts -= 1
                body = body[: len(body) // 2]
                self.close_connection = True
            self.wfile.write(body)

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    return server
