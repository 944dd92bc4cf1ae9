"""Large objects of S3 and files of web servers: after a cut or a kill only the rest is asked for, and only of the same file."""

import contextlib
import errno
import hashlib
import http.server
import os
import re
import signal
import sys
import threading
import time

import pytest
from dlrun.node.common.errors import SourceFault
from dlrun.node.source import keys, large, remote
from dlrun.node.source.selection import Access

from tests import programs
from tests.unit.node.programs import run, staging, start

SIZE = 3_000_000
SMALL = """
from dlrun.node.source import keys, large, web
keys.LARGE, large.PART, web.READ_SIZE = 1_000_000, 400_000, 10_000
web.WebSource._wait = lambda *_: None
"""
CLIENT = """#!{python}
import hashlib, os, shlex, shutil, sys
names = sorted(os.listdir("{root}/bucket"))
with open("{root}/calls", "a") as log:
    log.write(" ".join(word for word in sys.argv[1:] if not word.startswith("s3:")) + "\\n")
if sys.argv[1] == "ls":
    for name in names:
        status, content = os.stat("{root}/bucket/" + name), open("{root}/bucket/" + name, "rb").read()
        print("2026/11/26", status.st_mtime_ns, hashlib.md5(content).hexdigest(), len(content), name)
elif sys.argv[1] == "presign":
    print("{url}/" + sys.argv[-1].rpartition("/")[2] + "?signature=1")
elif "cat" in sys.argv:
    sys.stdout.buffer.write(open("{root}/bucket/" + sys.argv[-1].rpartition("/")[2], "rb").read())
elif sys.argv[-1] == "run":
    for line in sys.stdin:
        shutil.copyfile("{root}/bucket/" + shlex.split(line)[2].rpartition("/")[2], shlex.split(line)[3])
else:
    for name in names:
        shutil.copyfile("{root}/bucket/" + name, sys.argv[-1] + "/" + name)
"""


class Handler(http.server.BaseHTTPRequestHandler):
    """Ranges of the files of a directory; an answer ends after as many bytes as `cuts` gives, or waits there for good."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        with server.lock:  # an answer has the content and the budget of one moment
            content = (server.root / self.path[1:].partition("?")[0]).read_bytes()
            etag = f'"{hashlib.md5(content).hexdigest()}"'
            server.seen.append((self.headers.get("Range"), self.headers.get("If-Match")))
            same = (self.headers.get("If-Match") or etag) == etag
            first, last = 0, len(content) - 1
            if self.headers.get("Range") and self.headers.get("If-Range") in (None, etag):
                asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"])
                first, last = int(asked[1]), min(last, int(asked[2] or last))
            body = content[first : last + 1] if same and self.command == "GET" else b""
            if len(body) > 1 and server.budget is not None:
                body = body[: server.budget]
                server.budget -= len(body)
            server.sent += len(body) if last > first else 0
        if not same:
            self.send_response(412)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if self.headers.get("Range") else 200)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("ETag", etag)
        self.send_header("x-amz-request-id", "1")
        self.end_headers()
        if self.command == "HEAD":
            return
        with contextlib.suppress(OSError):
            self.wfile.write(body)
            if len(body) < last - first + 1:
                self.wfile.flush()
                server.spent.set()
                server.go.wait(programs.SECONDS)
        self.close_connection = True

    def do_HEAD(self):
        self.do_GET()

    def log_message(self, *words):
        """Nothing."""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A server with a large object, and a client in the words of s5cmd; it stops after `budget` bytes."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.root, server.lock, server.seen = tmp_path / "bucket", threading.Lock(), []
    server.root.mkdir()
    (server.root / "large").write_bytes(os.urandom(SIZE))
    (server.root / "small").write_bytes(b"small")
    server.budget, server.sent, server.spent, server.go = None, 0, threading.Event(), threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    client = tmp_path / "bin" / "s5cmd"
    client.parent.mkdir()
    client.write_text(CLIENT.format(python=sys.executable, root=tmp_path, url=server.url))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.go.set()
    server.shutdown()
    server.server_close()


def source(store, kind):
    return "s3://bucket/set" if kind == "s3" else f"{store.url}/large"


def staged(tmp_path):
    return {path.name: path.read_bytes() for path in (tmp_path / "to" / "set" / "data").iterdir()}


def expected(store, kind):
    names = ("large", "small") if kind == "s3" else ("large",)
    return {name: (store.root / name).read_bytes() for name in names}


def killed(tmp_path, store, kind, sent):
    """Kill a program that has received and kept so many bytes; returns how many it has kept."""
    store.budget = sent
    program = start(*staging(source(store, kind), tmp_path / "to"), prelude=SMALL)
    assert store.spent.wait(programs.SECONDS)
    place, end, last = tmp_path / "to" / ".dlrun" / "fetch.set" / "parts", time.monotonic() + 60, -1
    while True:  # until it has written what it has received
        kept = sum(path.stat().st_size for path in place.glob("*.journal"))
        if kept == last or time.monotonic() > end:
            break
        last = kept
        time.sleep(0.3)
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()
    store.go.set()
    spans = b"".join(path.read_bytes() for path in place.glob("*.journal"))
    store.budget, store.sent = None, 0
    store.seen.clear()
    return sum(
        int.from_bytes(spans[at + 8 : at + 16], "little") - int.from_bytes(spans[at : at + 8], "little")
        for at in range(0, len(spans), 16)
    )


@pytest.mark.each_python
@pytest.mark.parametrize("sent", [25_000, 1_234_567, SIZE - 1])
@pytest.mark.parametrize("kind", ["s3", "web"])
def test_after_a_kill_only_the_rest_is_asked_for(tmp_path, store, kind, sent):
    kept = killed(tmp_path, store, kind, sent)
    assert sent - 8 * 10_000 <= kept <= sent
    run(*staging(source(store, kind), tmp_path / "to"), "--json", prelude=SMALL).done()
    assert staged(tmp_path) == expected(store, kind)
    assert SIZE - kept <= store.sent <= SIZE - kept + 1
    assert os.listdir(tmp_path / "to") == [".dlrun", "set"] or set(
        os.listdir(tmp_path / "to" / ".dlrun")
    ) == {
        "lock.set",
        "used.set",
    }


@pytest.mark.each_python
@pytest.mark.parametrize("kind", ["s3", "web"])
def test_what_a_kill_has_left_of_another_version_is_not_continued(tmp_path, store, kind):
    assert killed(tmp_path, store, kind, 1_000_000)
    (store.root / "large").write_bytes(os.urandom(SIZE))
    run(*staging(source(store, kind), tmp_path / "to"), "--json", prelude=SMALL).done()
    assert staged(tmp_path) == expected(store, kind)
    assert store.sent == SIZE


@pytest.mark.each_python
def test_an_object_that_is_kept_is_continued_though_another_one_changed(tmp_path, store):
    kept = killed(tmp_path, store, "s3", 1_000_000)
    (store.root / "small").write_bytes(b"other")
    run(*staging("s3://bucket/set", tmp_path / "to"), "--json", prelude=SMALL).done()
    assert staged(tmp_path) == expected(store, "s3")
    assert store.sent == SIZE - kept


def test_a_kill_loses_only_the_batch_of_small_objects_that_was_being_fetched(tmp_path, store):
    (store.root / "large").unlink()
    for name in "abcde":
        (store.root / name).write_bytes(os.urandom(1000))
    client, real = tmp_path / "bin" / "s5cmd", (tmp_path / "bin" / "s5cmd").read_text()
    # As s5cmd may do: when it is killed, the file has its name and size, but not all of its content.
    stops = f"""    for line in sys.stdin:
        key = shlex.split(line)[2].rpartition("/")[2]
        open("{tmp_path}/asked", "a").write(key)
        if key == "d":
            open(shlex.split(line)[3], "wb").write(bytes(1000))
            os.rename("{tmp_path}/asked", "{tmp_path}/first")
            __import__("time").sleep(1000)
"""
    assert "    for line in sys.stdin:\n" in real
    client.write_text(real.replace("    for line in sys.stdin:\n", stops))
    two = SMALL + "\nkeys.BATCH = 2000\n"
    program = start(*staging("s3://bucket/set", tmp_path / "to"), prelude=two)
    while not (tmp_path / "first").exists():
        assert program.poll() is None
        time.sleep(0.05)
    os.killpg(program.pid, signal.SIGKILL)
    program.communicate()
    assert (tmp_path / "first").read_text() == "abcd"
    client.write_text(real.replace("    for line in sys.stdin:\n", stops.replace('== "d"', '== "none"')))
    run(*staging("s3://bucket/set", tmp_path / "to"), "--json", prelude=two).done()
    assert staged(tmp_path) == {path.name: path.read_bytes() for path in store.root.iterdir()}
    assert (tmp_path / "asked").read_text() == "cdesmall"


def test_an_empty_object_that_does_not_arrive_is_missed(tmp_path, store):
    """The sum of sizes is that of the whole set."""
    (store.root / "large").unlink()
    (store.root / "empty").write_bytes(b"")
    (store.root / "last").write_bytes(b"x" * 1000)
    client = tmp_path / "bin" / "s5cmd"
    real = client.read_text()
    without = """    for line in sys.stdin:
        if shlex.split(line)[2].endswith("/empty"):
            continue
"""
    client.write_text(real.replace("    for line in sys.stdin:\n", without))
    found = run(*staging("s3://bucket/set", tmp_path / "to"), prelude=SMALL)
    assert found.status == 1
    assert not (tmp_path / "to" / "set").exists()
    client.write_text(real)
    run(*staging("s3://bucket/set", tmp_path / "to"), "--json", prelude=SMALL).done()
    assert staged(tmp_path) == {path.name: path.read_bytes() for path in store.root.iterdir()}


@pytest.mark.each_python
def test_keys_beyond_ascii_need_no_locale(tmp_path, store, monkeypatch):
    (store.root / "large").unlink()
    (store.root / "café").write_bytes(b"x" * 1000)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")
    run(*staging("s3://bucket/set", tmp_path / "to"), "--json", prelude=SMALL).done()
    assert staged(tmp_path) == {path.name: path.read_bytes() for path in store.root.iterdir()}


@pytest.fixture
def small(monkeypatch):
    """Parts of sizes for tests in this process, that does not wait."""
    monkeypatch.setattr(keys, "LARGE", 1_000_000)
    monkeypatch.setattr(large, "PART", 400_000)
    monkeypatch.setattr(large.WebSource, "_wait", lambda *_: None)


def fetch(tmp_path, said=None):
    listed = remote.list_source("s3://bucket/set", Access(), print)
    (tmp_path / "to").mkdir(exist_ok=True)
    log = (said if said is not None else []).append
    remote.download("s3://bucket/set", str(tmp_path / "to"), str(tmp_path / "parts"), Access(), log, listed)
    return {path.name: path.read_bytes() for path in (tmp_path / "to").iterdir()}


def test_a_connection_that_is_cut_is_continued_at_its_byte(tmp_path, store, small):
    store.budget = 1_234_567

    def refill():
        store.spent.wait(programs.SECONDS)
        store.budget = None
        store.go.set()  # each connection that was cut ends now

    threading.Thread(target=refill, daemon=True).start()
    assert fetch(tmp_path) == expected(store, "s3")
    assert store.sent == SIZE, "no byte is sent twice"
    state = f'"{hashlib.md5((store.root / "large").read_bytes()).hexdigest()}"'
    assert {match for asked, match in store.seen[1:]} == {state}


def test_an_object_that_changes_between_two_parts_is_an_error(tmp_path, store, small):
    store.budget = 500_000

    def change():
        store.spent.wait(programs.SECONDS)
        with store.lock:
            (store.root / "large").write_bytes(os.urandom(SIZE))
            store.budget = None
        store.go.set()

    threading.Thread(target=change, daemon=True).start()
    with pytest.raises(SourceFault, match="the source changed while it was copied"):
        fetch(tmp_path)


def test_a_disk_without_links_has_the_file_and_no_record_of_it(tmp_path, store, small, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    for _ in range(2):  # a record without its file would give a file of zeros
        assert fetch(tmp_path) == expected(store, "s3")


def test_a_damaged_part_is_found_and_not_continued(tmp_path, store, small):
    good = (store.root / "large").read_bytes()
    real = large.Kept.write
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large.Kept, "write", lambda self, offset, data: real(self, offset, bytes(len(data))))
        with pytest.raises(SourceFault, match="arrived damaged"):
            fetch(tmp_path)
    assert fetch(tmp_path)["large"] == good


def test_a_client_that_signs_nothing_fetches_all(tmp_path, store, small):
    client = tmp_path / "bin" / "s5cmd"
    client.write_text(
        client.read_text()
        .replace('"presign"', '"none"')
        .replace(
            "    for name in names:\n        shutil",
            '    for name in names if sys.argv[-1] != "s3://bucket/set/large" else sys.exit("no such command"):\n        shutil',
        )
    )
    said = []
    assert fetch(tmp_path, said) == expected(store, "s3")
    assert "the client fetches it as a whole" in said[0]


def test_clients_leave_out_what_is_fetched_here():
    copy = ["sync", "{to}"]
    words, given = keys.without("s5cmd", copy, "b/set", to="/to", keys=["large"], rest=["it's"])
    assert words[-1] == "run"
    assert "large" not in given
    words, given = keys.without("aws", copy, "b/set", to="/to", keys=["a[1]*{x}"], rest=["k"])
    assert words == [*copy, "--exclude", "a[[]1][*]{{x}}"]
    words, given = keys.without("rclone", copy, "b/set", to="/to", keys=["a[1]*{x}"], rest=["k"])
    assert words == [*copy, "--exclude", r"/a\[1\]\*\{{x\}}"]
