"""A registry on loopback: images as the OCI Distribution Specification serves them, made by a test."""

from __future__ import annotations

import base64
import gzip
import http.server
import io
import json
import tarfile
import threading
from dataclasses import dataclass, field
from hashlib import sha256

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
SIF = "application/vnd.sylabs.sif.layer.v1.sif"


def digest_of(content: bytes) -> str:
    """The digest as registries write it."""
    return f"sha256:{sha256(content).hexdigest()}"


@dataclass
class Registry:
    """blobs and manifests: digest -> content; tags: `NAME:TAG` -> digest; asked: `METHOD PATH` of all requests.

    token: with it, requests need a token, which the registry gives to the user `me` with the password `secret`.
    limits: answers of 429 before the first other one.
    """

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    token: str | None = None
    limits: int = 0
    port: int = 0

    @property
    def host(self) -> str:
        """`HOST:PORT`, as in the name of an image."""
        return f"127.0.0.1:{self.port}"

    def blob(self, content: bytes, kind: str, **more: object) -> dict[str, object]:
        """Store a blob; returns its descriptor."""
        self.blobs[digest_of(content)] = content
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content), **more}

    def push(self, name: str, files: dict[str, bytes], tag: str = "latest") -> str:
        """Push an image of one layer, below an index as builders write it; returns the digest of the index."""
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(content), 0o755
                archive.addfile(entry, io.BytesIO(content))
        raw = layer.getvalue()
        platform = {"architecture": "amd64", "os": "linux"}
        root = {"type": "layers", "diff_ids": [digest_of(raw)]}
        config = {**platform, "config": {"Env": ["PATH=/usr/bin:/bin"]}, "rootfs": root}
        described = self.blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json")
        packed = self.blob(gzip.compress(raw, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        one = self.manifest({"config": described, "layers": [packed]})
        listed = {"mediaType": MANIFEST, "digest": digest_of(one), "size": len(one), "platform": platform}
        return self.name(name, tag, self.manifest({"manifests": [listed]}, INDEX))

    def push_file(self, name: str, content: bytes, tag: str = "latest") -> str:
        """Push a SIF file as ORAS does; returns the digest of its manifest."""
        empty = self.blob(b"{}", "application/vnd.sylabs.sif.config.v1+json")
        titled = self.blob(content, SIF, annotations={"org.opencontainers.image.title": "image.sif"})
        return self.name(name, tag, self.manifest({"config": empty, "layers": [titled]}))

    def manifest(self, content: dict[str, object], kind: str = MANIFEST) -> bytes:
        """Store a manifest; returns its text."""
        text = json.dumps({"schemaVersion": 2, "mediaType": kind, **content}).encode()
        self.manifests[digest_of(text)] = text
        return text

    def name(self, name: str, tag: str, text: bytes) -> str:
        """Give a manifest a tag; returns its digest."""
        self.tags[f"{name}:{tag}"] = digest_of(text)
        return digest_of(text)


def serve(registry: Registry) -> http.server.ThreadingHTTPServer:
    """Start the registry; its `port` is set."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            if registry.limits:
                registry.limits -= 1
                return self.answer(429, b"{}", "application/json")
            if self.path.startswith("/token"):
                return self.give_token()
            if registry.token and self.headers.get("Authorization") != f"Bearer {registry.token}":
                asked = (
                    f'Bearer realm="http://{registry.host}/token",service="test",scope="repository:x:pull"'
                )
                return self.answer(401, b"{}", "application/json", **{"WWW-Authenticate": asked})
            name, _, rest = self.path.removeprefix("/v2/").partition("/manifests/")
            if rest:
                return self.give_manifest(registry.tags.get(f"{name}:{rest}", rest))
            content = registry.blobs.get(self.path.rpartition("/")[2])
            if self.path == "/v2/":
                content = b"{}"
            return self.answer(
                200 if content is not None else 404, content or b"{}", "application/octet-stream"
            )

        def do_HEAD(self) -> None:
            self.do_GET()

        def give_token(self) -> None:
            who = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic "))
            if who != b"me:secret":
                return self.answer(401, b"{}", "application/json")
            return self.answer(200, json.dumps({"token": registry.token}).encode(), "application/json")

        def give_manifest(self, digest: str) -> None:
            text = registry.manifests.get(digest)
            if text is None:
                return self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}', "application/json")
            kind = json.loads(text)["mediaType"]
            return self.answer(200, text, kind, **{"Docker-Content-Digest": digest})

        def answer(self, status: int, body: bytes, kind: str, **headers: str) -> None:
            self.send_response(status)
            for key, value in {**headers, "Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registry.port = server.server_port
    return server
