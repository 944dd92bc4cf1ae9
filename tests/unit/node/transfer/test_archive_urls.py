"""Archives at URLs: unpacked while they are downloaded, and published whole and proved, or not at all."""

import functools
import gzip
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest
from dlrun.node.source import remote, stream
from dlrun.node.source.archive import Archive

from tests import programs as machine
from tests.unit.node.programs import run, staging, start
from tests.unit.node.relay.test_chain import nodes, until  # noqa: F401 - a fixture
from tests.unit.node.source.test_fetching import store  # noqa: F401 - a fixture
from tests.unit.node.source.test_remote import put, s3  # noqa: F401 - a fixture
from tests.unit.node.source.test_web import ETAG, cut, server  # noqa: F401 - a fixture
from tests.unit.node.transfer.test_archive_source import HELD, contents, data, nothing_published

END = 1 << 18
SHORT = "from dlrun.node.source import stream\nstream.END = 100\n"
AT_ONCE = "from dlrun.node.source.web import WebSource\nWebSource._wait = lambda *_: None\n"
FILES = {f"f{number}": os.urandom(160_000) for number in range(20)}
KINDS = ["tar", "gz", "xz", "zstd", "zip"]
EACH = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.needs("zstd") if kind == "zstd" else ()) for kind in KINDS]
)


@functools.lru_cache
def archive(kind):
    """The bytes of an archive of FILES."""
    return archive_of(kind, FILES)


def archive_of(kind, files):
    made = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(made, "w") as packed:
            for name, content in files.items():
                packed.writestr(name, content)
        return made.getvalue()
    mode = "w" if kind in ("tar", "zstd") else f"w:{kind}"
    with tarfile.open(fileobj=made, mode=mode) as packed:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return (
        subprocess.run(["zstd", "-c"], input=made.getvalue(), stdout=subprocess.PIPE, check=True).stdout
        if kind == "zstd"
        else made.getvalue()
    )


def unpack(tmp_path, url, *more, prelude=AT_ONCE):
    return run(*staging(url, tmp_path / "to"), "--unpack", "--json", *more, prelude=prelude)


def place(tmp_path):
    return tmp_path / "to" / ".dlrun" / "unpack.set" / "data"


def sum_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.mark.each_python
@EACH
def test_it_is_unpacked_while_it_arrives_also_over_a_cut(tmp_path, server, kind):  # noqa: F811
    """The second half is sent when the first member has its file, also of a zip file, whose directory is at its end."""
    server.content = archive(kind)
    directory = (
        [None, f"bytes={len(server.content) - END}-{len(server.content) - 1}"] if kind == "zip" else [None]
    )

    def rule(handler, count, code, headers, body):
        if count == 1:
            return code, headers, body, len(body) // 2
        if count <= len(directory):
            return code, headers, body, len(body)
        end = time.monotonic() + machine.SECONDS
        while not (place(tmp_path) / "f0").exists() and time.monotonic() < end:
            time.sleep(0.01)
        server.early = (place(tmp_path) / "f0").exists()
        return code, headers, body, len(body)

    server.rules["GET"] = rule
    unpack(tmp_path, server.url, "--checksums", sum_of(server.content)).done()
    assert contents(data(tmp_path)) == FILES
    assert server.early
    asked = [*directory, f"bytes={len(server.content) // 2}-"]
    assert [h.get("Range") for m, _, h in server.seen if m == "GET"] == asked
    assert sorted(os.listdir(tmp_path / "to" / ".dlrun")) == ["lock.set", "lock.~set", "used.set"]
    assert unpack(tmp_path, server.url, "--checksums", sum_of(server.content)).done()["how"] == "warm"
    assert len([1 for method, _, _ in server.seen if method == "GET"]) == len(asked)


@pytest.mark.each_python
def test_the_directory_of_a_zip_file_is_fetched_however_long_it_is(tmp_path, server):  # noqa: F811
    """Before any member, which are read in the order that they have in the file, not in the directory's."""
    server.content = archive("zip")
    unpack(tmp_path, server.url, prelude=AT_ONCE + SHORT).done()
    assert contents(data(tmp_path)) == FILES
    size = len(server.content)
    asked = [h.get("Range") for m, _, h in server.seen if m == "GET"]
    assert asked[:2] == [None, f"bytes={size - 100}-{size - 1}"]
    assert len(asked) == 3
    assert asked[2].endswith(f"-{size - 101}")
    packed = io.BytesIO(server.content)
    with zipfile.ZipFile(packed, "a") as made:
        made.filelist.reverse()
        made._didModify = True
    server.content = packed.getvalue()
    run(*staging(server.url, tmp_path / "other"), "--unpack", "--json", prelude=AT_ONCE).done()
    assert contents(tmp_path / "other" / "set" / "data") == FILES


@pytest.mark.parametrize("end", range(130, 310, 7))
def test_what_is_fetched_first_may_begin_anywhere(end, monkeypatch):
    """Also within a member's header, its name and its content."""
    made = archive_of("zip", {f"a-longer-name-{number}": bytes([number]) * 20 for number in range(3)})
    monkeypatch.setattr(stream, "END", len(made) - end)

    def pieces():
        yield 0, made

    whole = stream.ZipStream(stream.Stream("x", len(made), pieces()), lambda first, end: made[first:end])
    opened = Archive("x", whole)
    found = {member.path: content.read(1 << 20) for member, content in opened.members()}
    assert found == {f"a-longer-name-{number}".encode(): bytes([number]) * 20 for number in range(3)}


def test_a_zip_file_of_a_server_that_does_not_know_its_size(tmp_path, server):  # noqa: F811
    server.content = archive("zip")

    def rule(handler, count, code, headers, body):
        handler.wfile.write(f"HTTP/1.1 200 OK\r\nETag: {ETAG}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        if handler.command == "GET":
            handler.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(server.content), server.content))
        handler.close_connection = True
        raise ConnectionAbortedError

    server.rules["HEAD"] = server.rules["GET"] = rule
    unpack(tmp_path, server.url).done()
    assert contents(data(tmp_path)) == FILES


def test_a_zip_file_of_a_server_that_sends_no_parts_is_downloaded_first(tmp_path, server):  # noqa: F811
    server.content = archive("zip")
    server.rules["GET"] = lambda h, n, code, headers, body: (
        200, {"ETag": ETAG}, server.content, len(server.content)
    )  # fmt: skip
    found = run(*staging(server.url, tmp_path / "to"), "--unpack", prelude=AT_ONCE)
    assert contents(data(tmp_path)) == FILES
    assert "cannot be read in parts" in found.out + found.err
    assert "it is downloaded before it is unpacked" in found.out + found.err


@pytest.mark.parametrize("checksum", [False, True])
def test_members_of_a_zip_file_that_overlap(tmp_path, server, checksum):  # noqa: F811
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("a", bytes(800_000))
        packed.writestr("b", b"1")
        packed.filelist[1].header_offset = 300_000
    server.content = made.getvalue()
    more = ["--checksums", sum_of(server.content)] if checksum else []
    assert "is damaged" in unpack(tmp_path, server.url, *more).err
    assert nothing_published(tmp_path)


def test_a_zip_file_that_changed_after_its_directory_was_fetched(tmp_path, server):  # noqa: F811
    server.content = archive("zip")

    def rule(handler, count, code, headers, body):
        if count == 1:
            return code, headers, body, len(body) // 2
        return (
            (code, {**headers, "ETag": '"other"'}, body, len(body))
            if count > 2
            else (code, headers, body, len(body))
        )

    server.rules["GET"] = rule
    found = unpack(tmp_path, server.url)
    assert found.status == 1
    assert nothing_published(tmp_path)


@pytest.mark.parametrize("other", ["range", "whole"])
def test_a_server_that_does_not_continue_has_to_send_the_same_beginning(tmp_path, server, other):  # noqa: F811
    server.content = first = archive("gz")

    def rule(handler, count, code, headers, body):
        if count == 1:
            return code, headers, body, len(body) // 2
        if count == 2 and other == "range":
            return code, {**headers, "Content-Range": "bytes 7-9/10"}, body, len(body)
        sent = server.content
        # Cut once more while it is compared.
        return 200, {"ETag": ETAG}, sent, len(sent) // 4 if count == 3 else len(sent)

    server.rules["GET"] = rule
    unpack(tmp_path, server.url).done()
    assert contents(data(tmp_path)) == FILES
    server.seen.clear()

    def changed(handler, count, code, headers, body):
        found = rule(handler, count, code, headers, body)
        server.content = first[:9] + bytes([first[9] ^ 1]) + first[10:]  # the system that compressed it
        return found

    server.rules["GET"] = changed
    found = run(*staging(server.url, tmp_path / "other"), "--unpack", prelude=AT_ONCE)
    assert f"the source changed while it was copied: `{server.url}`" in found.err
    assert os.listdir(tmp_path / "other") == [".dlrun"]


@EACH
def test_another_checksum_than_the_one_that_was_given(tmp_path, server, kind):  # noqa: F811
    server.content = archive(kind)
    found = unpack(tmp_path, server.url, "--checksums", f"sha256:{'0' * 64}")
    assert f"has {sum_of(server.content)}, not the checksum that was given" in found.err
    assert "correct `checksums`" in found.err
    assert nothing_published(tmp_path)


FAULTS = {
    "gz without its end": (lambda: archive("gz")[:-9], "is damaged"),
    "xz without its end": (lambda: archive("xz")[:-9], "is damaged"),
    "tar without its end mark": (lambda: archive("tar")[: 3 * (512 + 160_256)], "is damaged"),
    "zip without its directory": (lambda: archive("zip")[:-60], "is damaged"),
    "a byte within": (lambda: gzip.compress(bytes(3000))[:-7] + b"abcdefg", "is damaged"),
    "a page": (lambda: b"<html>" * 200, "is not an archive that can be unpacked"),
    "nothing": (lambda: b"", "is not an archive that can be unpacked"),
    "a path up": (lambda: archive_of("gz", {"a": b"1", "../x": b"2"}), "its member `../x` has a path that leads out"),
    "a path up in a zip file": (lambda: archive_of("zip", {"/x": b"2"}), "its member `/x` has an absolute path"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "why"), FAULTS.values(), ids=FAULTS)
def test_nothing_is_published_of_a_bad_archive(tmp_path, server, made, why):  # noqa: F811
    server.content = made()
    found = unpack(tmp_path, server.url)
    assert found.status == 1
    assert why in found.err
    assert nothing_published(tmp_path)
    found = unpack(tmp_path, server.url, "--checksums", f"sha256:{'0' * 64}")
    assert "not the checksum" in found.err or "not an archive" in found.err


@EACH
def test_a_connection_that_breaks_again_and_again(tmp_path, server, kind):  # noqa: F811
    server.content = archive(kind)
    server.rules["GET"] = lambda h, n, code, headers, body: (
        code, headers, body, len(body) // 2 if n == 1 else 0
    )  # fmt: skip
    found = unpack(tmp_path, server.url)
    size = len(server.content)
    arrived = size - END if kind == "zip" else size // 2  # the directory is fetched first
    assert f"broke off after {arrived} of {size} bytes, 5 times" in found.err
    assert nothing_published(tmp_path)
    server.rules.clear()
    unpack(tmp_path, server.url).done()
    assert contents(data(tmp_path)) == FILES


def test_what_arrived_damaged_is_not_published(tmp_path, server):  # noqa: F811
    """By the server's own hash: a plain tar file has none."""
    server.content = archive("tar")
    md5 = {"ETag": '"' + "0" * 32 + '"', "x-amz-request-id": "1"}
    server.rules["HEAD"] = server.rules["GET"] = lambda h, n, code, headers, body: (
        code,
        md5,
        body,
        len(body),
    )
    found = unpack(tmp_path, server.url)
    assert "arrived damaged: its md5 is" in found.err
    assert nothing_published(tmp_path)


@pytest.mark.needs("zstd")
@pytest.mark.parametrize("kind", ["tar", "zstd"])
def test_a_run_that_is_killed_in_between_is_begun_again(tmp_path, server, kind):  # noqa: F811
    server.content = archive(kind)
    words = (*staging(server.url, tmp_path / "to"), "--unpack", "--json")
    killed = start(*words, prelude=HELD.format(gate=str(tmp_path / "gate")))
    until(lambda: place(tmp_path).is_dir() and len(os.listdir(place(tmp_path))) == 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert nothing_published(tmp_path)
    (place(tmp_path) / "f1").write_bytes(b"torn")
    run(*words).done()
    assert contents(data(tmp_path)) == FILES


@pytest.mark.slow
@pytest.mark.each_python
def test_a_lost_first_node_is_replaced_by_another_that_downloads(tmp_path, server, nodes):  # noqa: F811
    files = {f"f{number}": os.urandom(1 << 20) for number in range(24)}
    server.content = archive_of("tar", files)
    group = nodes(2)
    group.begin_held(server.url, "--unpack", "--dead-after", "2s")
    group.until_copying(1)
    os.killpg(group.programs[0].pid, signal.SIGKILL)
    group.programs[0].wait()
    group.end(1).done()
    assert contents(group.data(1)) == files


@pytest.mark.slow
@pytest.mark.needs
@pytest.mark.parametrize("client", remote.CLIENTS, ids=lambda client: client.name)
def test_one_object_is_unpacked_by_each_client(tmp_path, s3, client, monkeypatch):  # noqa: F811
    bucket = f"archives-{client.name}"
    put(f"{s3}/{bucket}")
    for kind in KINDS:
        put(f"{s3}/{bucket}/sets/{kind}", archive(kind))
        put(f"{s3}/{bucket}/sets/{kind}-other", b"no archive")
    for key, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": s3, "S3_ENDPOINT_URL": s3,
                       "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1"}.items():  # fmt: skip
        monkeypatch.setenv(key, value)
    program = shutil.which(client.name, path=machine.with_venv())
    if program is None:
        pytest.skip(f"`{client.name}` is not installed")
    (tmp_path / "bin").mkdir()
    for name, path in ((client.name, program), ("zstd", shutil.which("zstd"))):
        (tmp_path / "bin" / name).symlink_to(path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    command = [client.name, *remote._filled(client.one, f"{bucket}/sets/tar", "")]
    if wrong := machine.fault(command, "tar", environment=os.environ | remote._environment(client.name)):
        pytest.skip(wrong)
    for kind in KINDS:
        url, more = f"s3://{bucket}/sets/{kind}", ("--name", kind, "--checksums", sum_of(archive(kind)))
        assert unpack(tmp_path, url, *more).done()["how"] == "copied"
        assert contents(tmp_path / "to" / kind / "data") == FILES
        assert unpack(tmp_path, url, *more).done()["how"] == "warm"
    for url in (f"s3://{bucket}/sets/ta", f"s3://{bucket}/sets", f"s3://{bucket}"):
        found = unpack(tmp_path, url)
        assert f"`{url}`" in found.err
    assert not (tmp_path / "to" / "set").exists()


@pytest.mark.parametrize("signs", [True, False])
def test_the_directory_of_a_zip_file_in_s3_is_fetched_by_its_signed_url(tmp_path, store, signs):  # noqa: F811
    (store.root / "x.zip").write_bytes(archive("zip"))
    if not signs:
        client = tmp_path / "bin" / "s5cmd"
        client.write_text(client.read_text().replace('"presign"', '"none"'))
    found = run(*staging("s3://b/x.zip", tmp_path / "to"), "--unpack", prelude=AT_ONCE)
    assert contents(data(tmp_path)) == FILES
    assert ("it is downloaded before it is unpacked" in found.out + found.err) == (not signs)
    size = len(archive("zip"))
    parts = [span for span, _ in store.seen if span != "bytes=0-0"]
    assert parts == ([f"bytes={size - END}-{size - 1}"] if signs else [])


CLIENT = """#!{python}
import os, sys
if sys.argv[1] == "ls":
    print("2026/11/25 01:42:26 e {size} x.tar")
else:
    with open({file!r}, "rb") as file:
        sys.stdout.buffer.write(file.read()[:{sent}])
    {end}
"""


@pytest.mark.parametrize(
    ("sent", "end", "why"),
    [(300_000, "sys.exit('ERROR lost connection')", "`s5cmd` could not read `s3://b/x.tar`: ERROR lost connection"),
     (300_000, "", "s5cmd fetched 300 kB of the"), (10**9, "sys.exit('ERROR at the end')", "ERROR at the end"),
     (10**9, "os.kill(os.getpid(), 9)", "no reason given"), (10**9, "sys.stdout.write('more')", "s5cmd fetched")],
)  # fmt: skip
def test_a_client_that_fails_publishes_nothing(tmp_path, monkeypatch, sent, end, why):
    (tmp_path / "x.tar").write_bytes(archive("tar"))
    client = tmp_path / "bin" / "s5cmd"
    client.parent.mkdir()
    size = len(archive("tar"))
    client.write_text(
        CLIENT.format(python=sys.executable, size=size, file=str(tmp_path / "x.tar"), sent=sent, end=end)
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    found = unpack(tmp_path, "s3://b/x.tar")
    assert why in found.err
    assert nothing_published(tmp_path)


CUT = """#!{python}
import hashlib, os, sys
path = "{root}/bucket/" + sys.argv[-1].rpartition("/")[2].rpartition(":")[2]
content = open(path, "rb").read()
if sys.argv[1] == "ls":
    print("2026/11/26", os.stat(path).st_mtime_ns, hashlib.md5(content).hexdigest(), len(content), os.path.basename(path))
elif sys.argv[1] == "lsl":
    print(len(content), "2026-11-26", "01:42:26.000000000", os.path.basename(path))
elif sys.argv[1] in ("presign", "link"):
    print({signed!r} + "/" + os.path.basename(path) + "?signature=1")
else:
    sys.stdout.buffer.write(content[:{sent}])
    sys.stdout.flush()
    {then}
    sys.exit("ERROR lost connection")
"""


def cut_client(monkeypatch, tmp_path, store, name="s5cmd", **fields):  # noqa: F811
    """A client whose connection is lost after so many bytes, and no other on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")  # the programs that unpack are there
    values = {"python": sys.executable, "root": tmp_path, "signed": store.url, "sent": 300_000, "then": ""}
    (tmp_path / "bin" / "s5cmd").unlink()
    client = tmp_path / "bin" / name
    client.write_text(CUT.format(**dict(values, **fields)))
    client.chmod(0o755)


@pytest.mark.each_python
@pytest.mark.parametrize("name", ["s5cmd", "rclone"])
@pytest.mark.parametrize("sent", [0, 1, 300_000, 1_500_000])
def test_an_object_is_read_on_after_a_cut(monkeypatch, tmp_path, store, name, sent):  # noqa: F811
    """By ranges of its presigned URL, and with the ETag that the client has listed, or the server had before."""
    (store.root / "x.tar").write_bytes(archive("tar"))
    cut_client(monkeypatch, tmp_path, store, name, sent=sent)
    store.budget = 700_000  # the next connection is lost, too
    store.go.set()
    store.spent.set = lambda: setattr(store, "budget", None)
    words = (*staging("s3://b/x.tar", tmp_path / "to"), "--unpack", "--checksums", sum_of(archive("tar")))
    found = run(*words, prelude=AT_ONCE)
    assert found.status == 0, found.err
    assert contents(data(tmp_path)) == FILES
    etag = f'"{hashlib.md5(archive("tar")).hexdigest()}"'
    asked = [span for span in store.seen if span[0] != "bytes=0-0"]
    assert asked == [
        (f"bytes={sent}-", etag) if sent else (None, None), (f"bytes={sent + 700_000}-", etag),
    ]  # fmt: skip
    assert f"lost connection; it is read on from byte {sent:,}" in found.err


@pytest.mark.needs("zstd")
@EACH
def test_every_kind_of_archive_is_read_on(monkeypatch, tmp_path, store, kind):  # noqa: F811
    (store.root / "x").write_bytes(archive(kind))
    cut_client(monkeypatch, tmp_path, store, sent=len(archive(kind)) // 2)
    unpack(tmp_path, "s3://b/x").done()
    assert contents(data(tmp_path)) == FILES


@pytest.mark.parametrize("name", ["s5cmd", "rclone"])
def test_another_object_is_not_read_on(monkeypatch, tmp_path, store, name):  # noqa: F811
    (store.root / "x.tar").write_bytes(archive("tar"))
    cut_client(monkeypatch, tmp_path, store, name, then="open(path, 'wb').write(content[::-1])")
    found = unpack(tmp_path, "s3://b/x.tar")
    assert "the source changed while it was copied" in found.err
    assert nothing_published(tmp_path)


@pytest.mark.parametrize(
    "signed", ["", "ftp://x", "http://a:b@127.0.0.1:1", "http://127.0.0.1:1", "http://[::1"]
)
def test_without_a_usable_signed_url_the_fault_is_that_of_the_client(monkeypatch, tmp_path, store, signed):  # noqa: F811
    (store.root / "x.tar").write_bytes(archive("tar"))
    cut_client(monkeypatch, tmp_path, store, signed=signed)
    found = run(*staging("s3://b/x.tar", tmp_path / "to"), "--unpack", prelude=AT_ONCE)
    assert found.status == 1
    assert "`s5cmd` could not read `s3://b/x.tar`: ERROR lost connection" in found.err
    assert nothing_published(tmp_path)
