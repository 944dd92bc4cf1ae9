"""One file of a web server: what it answers is checked, what it refuses is said, and credentials stand nowhere."""

import base64
import contextlib
import hashlib
import http.server
import re
import shutil
import socket
import threading
import time

import pytest
from dlrun.node.common.errors import SourceFault
from dlrun.node.source import fetching, web
from dlrun.node.source.selection import Access

from tests.ports import free_port
from tests.unit.node.programs import run

CONTENT = bytes(range(256)) * 4000
ETAG = '"1"'


class Handler(http.server.BaseHTTPRequestHandler):
    """A file behind rules that a test sets: statuses by method, ranges that are wrong, credentials, redirects."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(self.server.rules.get("HEAD"))

    def do_GET(self):
        self.answer(self.server.rules.get("GET"))

    def answer(self, rule):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        count = sum(method == self.command for method, _, _ in self.server.seen)
        content = self.server.content
        status, headers, body = 200, {"ETag": ETAG}, content
        start = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if start:
            first, last = int(start[1]), int(start[2] or len(content) - 1)
            status, body = 206, content[first : last + 1]
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        cut = len(body)
        if rule is not None:
            status, headers, body, cut = rule(self, count, status, headers, body)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            with contextlib.suppress(OSError):
                self.wfile.write(body[:cut])
        if cut < len(body):
            self.close_connection = True

    def log_message(self, *words):
        """Nothing."""


@pytest.fixture
def server():
    found = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.content, found.rules, found.seen, found.url = (
        CONTENT,
        {},
        [],
        f"http://127.0.0.1:{found.server_port}/f.bin",
    )
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """No test waits between attempts; the waits are kept."""
    waits = []
    monkeypatch.setattr(web.time, "sleep", waits.append)
    return waits


def fetch(server, tmp_path, access=None, log=lambda line: None):
    source = web.WebSource(server.url, access or Access(), log)
    seen = source.look()
    fetching.fetch_file(source, seen, str(tmp_path / "parts"), str(tmp_path / "f.bin"))
    assert (tmp_path / "f.bin").read_bytes() == CONTENT
    return seen


def status(code, **headers):
    return lambda handler, count, *rest: (code, headers, b"no", 2)


@pytest.mark.parametrize("code", [403, 405, 501, 404, 400])
def test_a_server_without_head_is_asked_for_the_first_byte(server, tmp_path, code):
    server.rules["HEAD"] = status(code)
    assert fetch(server, tmp_path) == (ETAG, "", len(CONTENT))
    assert [headers.get("Range") for method, _, headers in server.seen if method == "GET"] == [
        "bytes=0-0",
        None,
    ]


def cut(handler, count, code, headers, body):
    return code, headers, body, len(body) // 2 if count < 3 else len(body)


def test_a_broken_connection_is_continued(server, tmp_path):
    server.rules["GET"] = cut
    fetch(server, tmp_path)
    assert [h.get("Range") for m, _, h in server.seen if m == "GET"] == [
        None,
        "bytes=512000-",
        "bytes=768000-",
    ]


WRONG = {
    "from the beginning": lambda headers, body: ({"Content-Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"}, CONTENT),
    "from one byte later": lambda headers, body: (
        {"Content-Range": f"bytes 512001-{len(CONTENT) - 1}/{len(CONTENT)}"}, body[1:]
    ),
    "without a range": lambda headers, body: ({}, body),
    "of several parts": lambda headers, body: ({"Content-Type": "multipart/byteranges; boundary=a"}, body),
    "of several parts, with a range": lambda headers, body: (
        {**headers, "Content-Type": "multipart/byteranges; boundary=a"}, b"--a\r\n\r\n" + body[7:]
    ),
    "of another size": lambda headers, body: ({"Content-Range": "bytes 512000-1023999/2000000"}, body),
    "shorter than it says": lambda headers, body: (headers, body[:-5]),
    "in another unit": lambda headers, body: ({"Content-Range": "rows 512000-1023999/1024000"}, body),
    "of another version": lambda headers, body: ({**headers, "ETag": '"2"'}, body[:-3] + b"abc"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_range_that_was_not_asked_for_is_not_appended(server, tmp_path, wrong):
    def rule(handler, count, code, headers, body):
        if count == 1:
            return code, headers, body, len(body) // 2
        if code == 206:
            headers, body = wrong(headers, body)
        return code, headers, body, len(body)

    server.rules["GET"] = rule
    said = []
    fetch(server, tmp_path, log=said.append)
    assert "the server answered with the range" in said[1]
    assert server.seen[-1][2].get("Range") is None


@pytest.mark.parametrize("whole", ["*", len(CONTENT)])
def test_a_shorter_range_than_was_asked_for_is_not_the_end(server, tmp_path, whole):
    def rule(handler, count, code, headers, body):
        if count == 2:
            return 206, {**headers, "Content-Range": f"bytes 512000-599999/{whole}"}, body[:88000], 88000
        return code, headers, body, len(body) // 2 if count == 1 else len(body)

    server.rules["GET"] = rule
    fetch(server, tmp_path)


def chunked(handler, count, code, headers, body):
    """More bytes than the range has; a first answer without a size that breaks off; a range of unknown size."""
    handler.wfile.write(
        b"HTTP/1.1 %d x\r\nETag: %s\r\nTransfer-Encoding: chunked\r\n" % (code, ETAG.encode())
    )
    if count == 2:
        handler.wfile.write(b"Content-Range: bytes 512000-599999/*\r\n")
        body = body[:88000]
    part = body[: len(CONTENT) // 2] if count == 1 else body
    handler.wfile.write(b"\r\n%x\r\n%s\r\n" % (len(part), part) + b"0\r\n\r\n" * (count > 1))
    handler.close_connection = True
    raise ConnectionAbortedError


def test_a_range_of_a_file_of_unknown_size_is_not_the_end(server, tmp_path):
    server.rules["GET"] = chunked
    fetch(server, tmp_path)


@pytest.mark.parametrize(
    "other", [{"ETag": '"2"'}, {"ETag": "", "Last-Modified": "Mon, 02 Jan 2023 00:00:00 GMT"}]
)
def test_another_version_than_the_one_that_was_listed_is_not_published(server, tmp_path, other):
    """As a cache or a mirror that lags behind sends it."""
    last = {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
    server.rules["HEAD"] = lambda h, n, code, headers, body: (code, {**headers, **last}, body, len(body))
    server.rules["GET"] = lambda h, n, code, headers, body: (
        code,
        {**last, **headers, **other},
        body[::-1],
        len(body),
    )
    staged = run("stage", "--source", server.url, "--to", tmp_path / "to", "--name", "set")
    assert "the source changed while it was copied" in staged.err
    assert not (tmp_path / "to" / "set").exists()


def test_a_file_that_changes_is_begun_again(server, tmp_path):
    def rule(handler, count, code, headers, body):
        if count == 1:
            return code, {"ETag": '"0"'}, b"old" * 100_000, 5000
        if handler.headers.get("If-Range") == '"0"':
            return 200, {"ETag": ETAG}, CONTENT, len(CONTENT)
        return code, headers, body, len(body)

    server.rules["GET"] = rule
    fetch(server, tmp_path)


@pytest.mark.parametrize(
    ("code", "said", "help_"),
    [(404, "HTTP 404", "check the URL"), (403, "HTTP 403", "it needs credentials"), (401, "HTTP 401", "credentials"),
     (410, "HTTP 410", "check the URL"), (418, "HTTP 418", "curl")],
)  # fmt: skip
def test_a_refusal_is_said_with_its_status(server, code, said, help_):
    server.rules = {"HEAD": status(code), "GET": status(code)}
    with pytest.raises(SourceFault) as fault:
        web.WebSource(server.url, Access(), print).look()
    assert said in fault.value.message
    assert help_ in fault.value.help
    assert "cannot reach" not in fault.value.help


def test_a_server_that_is_busy_is_asked_again_when_it_says(server, tmp_path, at_once):
    def rule(handler, count, code, headers, body):
        if count < 3:
            return 429, {"Retry-After": "7"}, b"", 0
        return code, headers, body, len(body)

    server.rules["GET"] = rule
    said = []
    fetch(server, tmp_path, log=said.append)
    assert at_once == [7.0, 7.0]
    assert said[0] == f"`{server.url}`: HTTP 429 Too Many Requests; attempt 2 of 5 in 7 s"


def test_a_server_that_is_away_is_said_at_the_first_attempt(tmp_path):
    said, url = [], f"http://127.0.0.1:{free_port()}/f.bin"
    with pytest.raises(SourceFault, match=r"cannot be read from node .*: Connection refused"):
        web.WebSource(url, Access(), said.append).look()
    assert said[0].startswith(f"`{url}`: Connection refused; attempt 2 of 3")


def test_a_server_that_does_not_accept_is_given_up_within_seconds(monkeypatch):
    monkeypatch.setattr(web, "CONNECT_SECONDS", 0.2)
    with contextlib.closing(socket.socket()) as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        begun = time.monotonic()
        with pytest.raises(SourceFault, match="timed out"):
            web.WebSource(f"http://127.0.0.1:{port}/f", Access(), print).look()
        assert time.monotonic() - begun < 100  # the kernel gives up after two minutes
        for one in waiting:
            one.close()


def test_an_empty_file(server, tmp_path):
    server.rules = {"HEAD": status(405), "GET": lambda h, n, code, headers, body: (
        (416, {"ETag": ETAG, "Content-Range": "bytes */0"}, b"", 0) if code == 206 else (200, {"ETag": ETAG}, b"", 0)
    )}  # fmt: skip
    source = web.WebSource(server.url, Access(), print)
    seen = source.look()
    assert seen == (ETAG, "", 0)
    fetching.fetch_file(source, seen, str(tmp_path / "parts"), str(tmp_path / "f.bin"))
    assert (tmp_path / "f.bin").read_bytes() == b""


MD5, SHA = hashlib.md5(CONTENT).digest(), hashlib.sha256(CONTENT).digest()
HASHES = {
    "Content-MD5": lambda md5, sha: {"Content-MD5": base64.b64encode(md5).decode()},
    "Repr-Digest": lambda md5, sha: {"Repr-Digest": f"sha-256=:{base64.b64encode(sha).decode()}:"},
    "Digest": lambda md5, sha: {"Digest": f"unknown=1,SHA-256={base64.b64encode(sha).decode()}"},
    "Google": lambda md5, sha: {"x-goog-hash": f"crc32c=AAAAAA==,md5={base64.b64encode(md5).decode()}"},
    "S3": lambda md5, sha: {"x-amz-checksum-sha256": base64.b64encode(sha).decode()},
    "S3's ETag": lambda md5, sha: {"ETag": f'"{md5.hex()}"', "x-amz-request-id": "1"},
}  # fmt: skip


@pytest.mark.parametrize("headers", HASHES.values(), ids=HASHES)
def test_a_hash_of_the_server_is_compared(server, tmp_path, headers):
    def rule(handler, count, code, given, body):
        return code, {**given, **values}, body, len(body)

    values = headers(MD5, SHA)
    server.rules = {"GET": rule, "HEAD": rule}
    fetch(server, tmp_path)
    values = headers(bytes(16), bytes(32))
    shutil.rmtree(tmp_path / "parts")
    for _ in range(2):  # what arrived is not continued
        with pytest.raises(SourceFault, match="arrived damaged"):
            fetch(server, tmp_path)


@pytest.mark.parametrize(
    "headers",
    [{"Content-MD5": "nonsense"}, {"x-amz-checksum-sha256": base64.b64encode(bytes(32)).decode() + "-3"},
     {"ETag": '"' + "0" * 32 + '"'}, {"ETag": '"' + "0" * 32 + '-5"', "x-amz-request-id": "1"},
     {"ETag": '"' + "0" * 32 + '"', "x-amz-request-id": "1", "x-amz-server-side-encryption": "aws:kms"},
     {"Repr-Digest": "sha-256=:AAAA:"}],
)  # fmt: skip
def test_what_is_no_hash_of_the_file_is_not(server, tmp_path, headers):
    server.rules = dict.fromkeys(
        ("GET", "HEAD"), lambda h, n, code, given, body: (code, {**given, **headers}, body, len(body))
    )
    fetch(server, tmp_path)
    assert (tmp_path / "f.bin").read_bytes() == CONTENT


# --- Credentials

CANARY = "canary0123456789"


def needs(handler, count, code, headers, body):
    if handler.headers.get("Authorization") != f"Bearer {CANARY}":
        return 401, {}, b"", 0
    return code, headers, body, len(body)


def test_a_header_comes_from_a_variable(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_AUTH", f"Bearer {CANARY}")
    server.rules = {"HEAD": needs, "GET": needs}
    fetch(server, tmp_path, Access("", (("authorization", "DATA_AUTH"),)))


def signed(handler, count, code, headers, body):
    if handler.path != f"/f.bin?X-Amz-Signature={CANARY}" or handler.command == "HEAD":
        return 403, {}, b"", 0
    return code, headers, body, len(body)


def test_a_presigned_url_comes_from_a_variable(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_URL", f"{server.url}?X-Amz-Signature={CANARY}")
    server.rules = {"HEAD": signed, "GET": signed}
    fetch(server, tmp_path, Access("DATA_URL"))


def test_a_redirect_to_another_server_gets_no_credentials(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DATA_AUTH", f"Bearer {CANARY}")
    other = server.url.replace("127.0.0.1", "localhost") + "?there"

    def rule(handler, count, code, headers, body):
        if "there" in handler.path:
            return code, headers, body, len(body)
        return 302, {"Location": other}, b"", 0

    server.rules = {"HEAD": rule, "GET": rule}
    fetch(server, tmp_path, Access("", (("Authorization", "DATA_AUTH"),)))
    for _, path, headers in server.seen:
        assert ("Authorization" in headers) == ("there" not in path)


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/f", "file:///etc/passwd", "gopher://x/"])
def test_a_redirect_elsewhere_is_not_followed(server, to):
    server.rules = dict.fromkeys(("HEAD", "GET"), status(302, Location=f"{to}?sig={CANARY}"))
    with pytest.raises(SourceFault) as fault:
        web.WebSource(server.url, Access(), print).look()
    assert "HTTP 302" in fault.value.message
    assert CANARY not in fault.value.message


@pytest.mark.parametrize(
    "value", ["", "a\nb", "http://127.0.0.1:1/other?sig=" + CANARY, "nonsense-" + CANARY]
)
def test_a_secret_that_cannot_be_used(server, monkeypatch, value):
    monkeypatch.setenv("DATA_URL", value)
    with pytest.raises(SourceFault) as fault:
        web.WebSource(server.url, Access("DATA_URL"), print)
    assert "`DATA_URL`" in fault.value.message
    assert CANARY not in fault.value.message


@pytest.mark.slow
@pytest.mark.each_python
def test_nothing_of_a_url_is_in_files_and_messages(server, tmp_path, monkeypatch):
    url = f"{server.url}?X-Amz-Signature={CANARY}"
    server.rules = {"HEAD": signed, "GET": signed}
    monkeypatch.setenv("DATA_URL", url)
    words = (
        "--source",
        server.url,
        "--url-from",
        "DATA_URL",
        "--to",
        tmp_path / "to",
        "--name",
        "set",
        "--json",
    )
    staged = run("stage", *words)
    assert staged.done()["how"] == "copied"
    assert (tmp_path / "to/set/data/f.bin").read_bytes() == CONTENT
    assert run("stage", *words).done()["how"] == "warm"
    server.rules["GET"] = server.rules["HEAD"] = status(403)
    refused = run("stage", *words)
    assert refused.status == 1
    assert "have expired" in refused.err
    by_hand = run(
        "stage", "--source", url.replace("//", f"//me:{CANARY}@"), "--to", tmp_path / "to", "--name", "set"
    )
    assert "has a user name or password" in by_hand.err
    for result in (staged, refused, by_hand):
        assert CANARY not in result.out + result.err
    assert all(CANARY.encode() not in p.read_bytes() for p in (tmp_path / "to").rglob("*") if p.is_file())
