"""Sources that are URLs: files of a web server, and S3 by each client, from a server of the tests (moto) where there is one."""

import functools
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from typing import ClassVar

import pytest
from dlrun.node.common.errors import NoSpace, SourceFault
from dlrun.node.source import remote
from dlrun.node.source.objects import Object
from dlrun.node.source.selection import Access

from tests import object_store, programs
from tests.object_store import put, served
from tests.ports import free_port
from tests.unit.node.programs import command, environment, run
from tests.unit.node.relay.test_chain import nodes  # noqa: F401 - a fixture
from tests.unit.node.trees import write


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a directory; the first answers break off after so many bytes, and a request may ask for the rest."""

    breaks = 0
    asked: ClassVar = []

    def do_GET(self):
        path, start = self.translate_path(self.path), 0
        if not os.path.isfile(path):
            self.send_error(404)
            return
        type(self).asked.append(self.headers.get("Range"))
        if self.headers.get("Range"):
            start = int(self.headers["Range"].partition("=")[2].rstrip("-"))
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            content = file.read()[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Last-Modified", self.date_time_string(os.stat(path).st_mtime))
        self.end_headers()
        if type(self).breaks:
            type(self).breaks -= 1
            content = content[: len(content) // 2]
        self.wfile.write(content)

    def log_message(self, *words):
        """Nothing."""


@pytest.fixture
def web(tmp_path):
    """A web server with a file; its URL."""
    write(os.fsencode(tmp_path / "web" / "one file.tar"), os.urandom(3_000_000))
    Handler.breaks, Handler.asked = 0, []
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tmp_path / "web"))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def stage(tmp_path, source, *more):
    return run("stage", "--source", source, "--to", tmp_path / "to", "--name", "set", "--json", *more)


@pytest.mark.slow
@pytest.mark.each_python
def test_a_file_of_a_web_server_is_fetched_once_and_again_when_it_changes(tmp_path, web):
    there, copy = tmp_path / "web" / "one file.tar", tmp_path / "to" / "set" / "data" / "one file.tar"
    assert stage(tmp_path, web + "/one%20file.tar").done()["how"] == "copied"
    assert copy.read_bytes() == there.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o644, "others may not write to it, also where they may read it"
    assert stage(tmp_path, web + "/one%20file.tar").done()["how"] == "warm"
    assert len(Handler.asked) == 1
    write(os.fsencode(there), os.urandom(2_000_000), mtime=10**18)
    assert stage(tmp_path, web + "/one%20file.tar").done()["how"] == "copied"
    assert copy.read_bytes() == there.read_bytes()
    assert sorted(os.listdir(tmp_path / "to" / ".dlrun")) == ["lock.set", "used.set"], (
        "what was fetched is gone"
    )


@pytest.mark.slow
@pytest.mark.each_python
def test_a_connection_that_breaks_is_made_again_where_it_broke(tmp_path, web):
    Handler.breaks = 2
    stage(tmp_path, web + "/one%20file.tar").done()
    assert (tmp_path / "to" / "set" / "data" / "one file.tar").read_bytes() == (
        tmp_path / "web" / "one file.tar"
    ).read_bytes()
    assert Handler.asked == [None, "bytes=1500000-", "bytes=2250000-"]


@pytest.mark.slow
@pytest.mark.each_python
def test_the_first_node_fetches_for_all(tmp_path, web, nodes):  # noqa: F811 - a fixture
    group = nodes(3)
    for result in group.stage(web + "/one%20file.tar"):
        result.done()
    for node in range(3):
        assert (group.data(node) / "one file.tar").read_bytes() == (
            tmp_path / "web" / "one file.tar"
        ).read_bytes()
    assert len(Handler.asked) == 1
    shutil.rmtree(group.data(1).parent)
    for result in group.stage(web + "/one%20file.tar"):
        result.done()
    assert (group.data(1) / "one file.tar").read_bytes() == (tmp_path / "web" / "one file.tar").read_bytes()
    assert len(Handler.asked) == 1, "the copy of another node is used"


@pytest.mark.parametrize(
    ("path", "more", "said"),
    [
        ("/none", (), "cannot be read: HTTP 404 Not Found"),
        ("/", (), "does not name a file"),
        ("/one%20file.tar", ("--strategy", "part"), "needs strategy copy or pack"),
    ],
)
def test_what_cannot_be_fetched_is_told(tmp_path, web, path, more, said):
    told = stage(tmp_path, web + path, *more)
    assert told.status
    assert said in told.err
    assert not (tmp_path / "to" / "set").exists()


def test_a_node_without_a_client_and_another_scheme_are_told(tmp_path):
    words = command("stage", "--source", "s3://bucket/set", "--to", tmp_path / "to", "--name", "set")
    told = subprocess.run(
        words, env={**environment(), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert told.returncode == 1
    assert "has no client that reads `s3://bucket/set` (s5cmd, rclone, aws)" in told.stderr
    assert "none of s3://, http://, https://" in stage(tmp_path, "gs://bucket/set").err


def test_a_url_without_a_bucket_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # a node without any client
    for url in ("s3://", "s3:///set"):
        told = stage(tmp_path, url)
        assert told.status == 1
        assert f"`{url}` names no bucket" in told.err


def test_without_a_client_no_part_is_read_nor_the_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    listed = remote.SourceListing("", 9, "s5cmd", False, None, (Object("x.zip", 9, "", ""),))
    with pytest.raises(SourceFault, match="has no client") as told:
        remote.ranges("s3://bucket/x.zip", Access(), print, listed)
    assert told.type is SourceFault  # NoParts means that it can be read as a whole


FAILING = """#!/bin/sh
echo '2026/11/25 01:42:26 Failed to lsl: NoCredentialProviders: no valid providers in chain' >&2
printf '\\tFor verbose messaging see aws.Config\\n' >&2
exit 1
"""


def test_the_reason_of_a_client_is_told_and_its_command_can_be_run_by_hand(tmp_path, monkeypatch):
    client = tmp_path / "bin" / "rclone"
    client.parent.mkdir()
    client.write_text(FAILING)
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(client.parent))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = f"http://127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        told = stage(tmp_path, "s3://bucket/a set").err.splitlines()
    assert told[0] == (
        "error: `rclone` could not read `s3://bucket/a set`: Failed to lsl: NoCredentialProviders: no valid providers in chain"
    )
    by_hand = told[1].partition("try the same on the node: ")[2]
    client.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" "$RCLONE_CONFIG_DLRUN_TYPE" "$RCLONE_CONFIG_DLRUN_ENDPOINT"\n'
    )
    done = subprocess.run(["/bin/sh", "-c", by_hand], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["lsl", "dlrun:bucket/a set", "s3", endpoint]


def test_an_endpoint_that_is_away_is_said_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(remote.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(remote, "_client", lambda _url: remote.CLIENTS[2])
    endpoint, said = f"http://127.0.0.1:{free_port()}", []
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(SourceFault, match="Connection refused") as fault:
        remote.list_source("s3://bucket/set", Access(), said.append)
    assert f"`{endpoint}`" in fault.value.message
    assert said[0] == f"`{endpoint}`: Connection refused; attempt 2 of 3 in 1 s"


SLOW = """#!/bin/sh\nsleep 0.7\necho '[["set/a", 5, "e", "2026-11-25T01:42:26Z"]]'\n"""


def test_a_client_that_lists_nothing_for_long_is_said(tmp_path, monkeypatch):
    client = tmp_path / "aws"
    client.write_text(SLOW)
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(remote, "CLIENTS", remote.CLIENTS[2:])
    monkeypatch.setattr(remote, "SILENCE", 0.2)
    said = []
    assert remote.list_source("s3://bucket/set", Access(), said.append).size == 5
    assert said[0].startswith("`s3://bucket/set`: `aws` has not listed it for 0.2 s")


@pytest.mark.parametrize(
    ("why", "kind"), [("[Errno 28] No space left on device", NoSpace), ("Forbidden", SourceFault)]
)
def test_a_client_that_finds_the_disk_full_is_no_fault_of_the_source(tmp_path, monkeypatch, why, kind):
    client = tmp_path / "aws"
    client.write_text(f"#!/bin/sh\necho 'download failed: {why}' >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(remote, "CLIENTS", remote.CLIENTS[2:])
    with pytest.raises(kind, match=re.escape(why)) as fault:
        remote.download("s3://bucket/set", str(tmp_path), str(tmp_path / "parts"), Access(), print)
    assert type(fault.value) is kind


@pytest.mark.parametrize(
    ("keys", "why"),
    [(["a/../b"], "`a/../b`"), (["../b"], "has a part `..`"), (["a/./b"], "has a part `.`"), (["a//b"], "two slashes"),
     (["/a"], "begins or ends"), (["a", "a/b"], "below the object `a`"), (["x", "a/b/c", "a/b"], "below the object `a/b`")],
)  # fmt: skip
@pytest.mark.parametrize("client", [0, 1, 2])
def test_keys_that_are_no_files_are_named(tmp_path, monkeypatch, keys, why, client):
    client = remote.CLIENTS[client]
    lines = {"s5cmd": "2026/11/25 01:42:26 e 5 {}", "rclone": "     5 2026-11-25 01:42:26.0 {}"}
    listed = [["set/" + key, 5, '"e"', "2026-11-25T01:42:26Z"] for key in keys]
    text = json.dumps(listed) if client.name == "aws" else "\n".join(map(lines[client.name].format, keys))
    program = tmp_path / client.name
    program.write_text("#!/bin/sh\ncat <<'END'\n" + text + "\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(remote, "CLIENTS", (client,))
    with pytest.raises(SourceFault) as fault:
        remote.list_source("s3://bucket/set", Access(), print)
    assert "cannot be a file" in fault.value.message
    assert why in fault.value.message


@pytest.fixture(scope="module")
def s3():
    """The endpoint of a server that speaks S3."""
    with served() as (endpoint, wrong):
        if wrong:
            pytest.skip(wrong)
        yield endpoint


@pytest.mark.slow
@pytest.mark.needs
@pytest.mark.parametrize("client", remote.CLIENTS, ids=lambda client: client.name)
def test_objects_below_a_prefix_are_fetched_by_each_client(tmp_path, s3, client, monkeypatch):
    bucket = f"bucket-{client.name}"
    put(f"{s3}/{bucket}")
    source = {f"d{number % 2}/f {number}": os.urandom(number * 10_000) for number in range(5)}
    for where in ("set", "set-other"):  # one prefix is the beginning of another
        for name, content in source.items():
            put(f"{s3}/{bucket}/{where}/{urllib.parse.quote(name)}", content)
    for key, value in object_store.environment(s3).items():
        monkeypatch.setenv(key, value)
    program = shutil.which(client.name, path=programs.with_venv())
    if program is None:
        pytest.skip(f"`{client.name}` is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / client.name).symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    for arguments, says in ((client.listing, "f 4"), (client.copy, "")):
        command = [client.name, *remote._filled(arguments, f"{bucket}/set", f"{tmp_path}/tried")]
        if wrong := programs.fault(command, says, environment=os.environ | remote._environment(client.name)):
            pytest.skip(wrong)
    assert stage(tmp_path, f"s3://{bucket}/set").done()["how"] == "copied"
    data = tmp_path / "to" / "set" / "data"
    assert {
        str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()
    } == source
    assert stage(tmp_path, f"s3://{bucket}/set").done()["how"] == "warm"
    told = stage(tmp_path, f"s3://{bucket}/nothing")
    assert told.status == 1
    assert f"s3://{bucket}/nothing" in told.err


CLIENT = """#!{python}
import os, shlex, sys
if sys.argv[1] == "ls":
    sys.stdout.write(open("{root}/list").read())
else:
    sizes = dict(reversed(line.split()[3:]) for line in open("{root}/list"))
    for line in sys.stdin:
        source, path = shlex.split(line)[2:]
        size = sizes[source.rpartition("/")[2]]
        if os.path.exists(path) and os.path.getsize(path) == int(size):
            continue
        with open(path, "wb") as file:
            file.truncate(int(size))  # its blocks come in any order
            if os.path.exists("{root}/killed"):
                os.kill(os.getppid(), 9)
                os._exit(9)
            file.write(b"x" * int(size))
"""


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A client in the words of s5cmd; what it lists is in a file."""
    client = tmp_path / "bin" / "s5cmd"
    client.parent.mkdir()
    client.write_text(CLIENT.format(python=sys.executable, root=tmp_path))
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    return tmp_path / "list"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("after", ["2026 1 e 70000 a\n2026 1 e 5 b\n", "2026 2 e 5 b\n"])
def test_what_a_killed_client_has_left_is_not_taken_for_the_source(tmp_path, bucket, after):
    """A file with holes, and one that the source has no more."""
    bucket.write_text("2026 1 e 70000 a\n2026 1 e 5 b\n")
    (tmp_path / "killed").touch()
    assert stage(tmp_path, "s3://bucket/set").status == -9
    (tmp_path / "killed").unlink()
    bucket.write_text(after)
    assert stage(tmp_path, "s3://bucket/set").done()["how"] == "copied"
    kept = {path.name: path.read_bytes() for path in (tmp_path / "to" / "set" / "data").iterdir()}
    assert kept == {key: b"x" * int(size) for _, _, _, size, key in map(str.split, after.splitlines())}


def test_a_client_that_leaves_something_out_is_told(tmp_path, bucket):
    bucket.write_text("2026 1 e 70000 a\n")
    client = tmp_path / "bin" / "s5cmd"
    client.write_text(client.read_text().replace("* int(size)", "* 5").replace("file.truncate", "str"))
    told = stage(tmp_path, "s3://bucket/set")
    assert told.status == 1
    assert "s5cmd fetched 5 B of the 70.0 kB of `s3://bucket/set`" in told.err
    assert not (tmp_path / "to" / "set").exists()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_damaged_copy_is_fetched_again(tmp_path, web):
    copy = tmp_path / "to" / "set" / "data" / "one file.tar"
    stage(tmp_path, web + "/one%20file.tar").done()
    copy.write_bytes(b"other")
    assert stage(tmp_path, web + "/one%20file.tar").done()["how"] == "copied"
    assert copy.read_bytes() == (tmp_path / "web" / "one file.tar").read_bytes()


def raw(answers):
    """A server that sends these bytes, one answer after another, whatever it is asked; its URL."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        with server:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/f.bin"


CHUNKED = b"HTTP/1.1 200 OK\r\nETag: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        b"ETag: a\r\nContent-Length: \xb2", b"ETag: a\r\nContent-Length: -1", b"ETag: a\r\nContent-Length: " + b"9" * 5000,
        b"Last-Modified: Sun, 99 Nov 99999 99:99:99 +9999", b"Last-Modified: \xb2",
        b"Last-Modified: Mon, 01 Jan 0001 00:00:00 GMT",
    ],
)  # fmt: skip
def test_headers_that_cannot_be(tmp_path, headers):
    head = b"HTTP/1.0 200 OK\r\n" + headers + b"\r\n\r\n"
    url = raw([head, head, head + b"abcd"])
    assert remote.list_source(url, Access(), print).size == 0
    remote.download(url, str(tmp_path), str(tmp_path / "parts"), Access(), print)
    assert (tmp_path / "f.bin").read_bytes() == b"abcd"


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 100000, b""])
def test_an_answer_that_is_not_http(answer):
    with pytest.raises(SourceFault, match="cannot be read"):
        remote.list_source(raw([answer]), Access(), print)


@pytest.mark.slow
def test_a_file_of_unknown_size_that_breaks_off_is_not_the_whole(tmp_path):
    remote.download(
        raw([CHUNKED, CHUNKED + b"2\r\nef\r\n0\r\n\r\n"]),
        str(tmp_path),
        str(tmp_path / "parts"),
        Access(),
        print,
    )
    assert (tmp_path / "f.bin").read_bytes() == b"abcdef"
    with pytest.raises(SourceFault, match="broke off after 4 bytes"):
        remote.download(raw([CHUNKED] * 20), str(tmp_path / "."), str(tmp_path / "parts"), Access(), print)
