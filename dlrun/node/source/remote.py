"""Sources that are URLs: `s3://` with a client installed on the node, `http(s)://` with Python (`web`).

The first node lists the source, and downloads it to node-local storage unless a set with the same listing is published;
the download is then the source of the copy. Modes are 0644 and 0755: web servers and S3 store none.
"""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..common import text
from ..common.errors import NoParts, NoSpace, SourceFault, full_disk
from ..common.system import die_with_parent
from . import fetching, keys, objects, stream as streams
from .answers import UNKNOWN, Pieces, WebFile, differs, validator
from .large import LargeObjects, read_on, require_same
from .objects import Object
from .selection import Access, scheme
from .web import CONNECT_SECONDS, FIRST_ATTEMPTS, READ_SIZE, Log, Part, WebSource, file_name, shown

SILENCE = 10  # seconds without output of a client that lists a source, after which that is said


class Client(NamedTuple):
    """An S3 client, with its arguments to list and to copy.

    resumes: a killed copy can be continued, since files get their final name or time only when complete. one, content, sign:
    to list one object, to write it to the standard output, and to write its URL, which is valid for an hour.
    """

    name: str
    listing: List[str]
    copy: List[str]
    resumes: bool
    one: List[str]
    content: List[str]
    sign: List[str]


_AWS = ["s3api", "list-objects-v2", "--output", "json", "--query", "Contents[].[Key,Size,ETag,LastModified]",
        "--bucket", "{bucket}", "--prefix"]  # fmt: skip
CLIENTS = (
    Client("s5cmd", ["ls", "--etag", "s3://{place}/*"], ["--log", "error", "sync", "s3://{place}/*", "{to}/"], False,
           one=["ls", "--etag", "s3://{place}"], content=["--log", "error", "cat", "--raw", "s3://{place}"],
           sign=["presign", "--expire", "1h", "s3://{place}"]),
    Client("rclone", ["lsl", "dlrun:{place}"], ["sync", "--quiet", "dlrun:{place}", "{to}"], True,
           one=["lsl", "dlrun:{place}"], content=["cat", "--quiet", "dlrun:{place}"],
           sign=["link", "--quiet", "--expire", "1h", "dlrun:{place}"]),
    Client("aws", [*_AWS, "{prefix}"], ["s3", "sync", "--delete", "--only-show-errors", "s3://{place}", "{to}"], True,
           one=[*_AWS, "{key}"], content=["s3", "cp", "--only-show-errors", "s3://{place}", "-"],
           sign=["s3", "presign", "--expires-in", "3600", "s3://{place}"]),
)  # fmt: skip
"""The clients, the fastest first (options from s5cmd(1), rclone.org/s3 and the AWS CLI's reference).

s5cmd writes the parts of an object in any order under its final name (github.com/peak/s5cmd, issue 493): after a kill a
file may have the right size, but holes. The others remove the temporary files of an unfinished copy.
"""


_TIME = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ")  # before each line of rclone


class SourceListing(NamedTuple):
    """The state of a source: a hash of its listing, its bytes, the reader's name, and whether a download can be resumed.

    file: what a web server says about the file; objects: those of an S3 source.
    """

    identity: str
    size: int
    reader: str
    resumes: bool
    file: Optional[WebFile] = None
    objects: Tuple[Object, ...] = ()


def list_source(url: str, access: Access, log: Log, single: bool = False) -> SourceListing:
    """List a source; raises SourceFault if this node cannot read it, or if it is empty. `log` gets a line for each retry.

    single: an S3 source is one object, else those below a prefix.
    """
    if scheme(url) != "s3":
        return _list_web(url, access, log)
    client, place = _client(url), _bucket_path(url)
    _reach_endpoint(url, log)
    key = place.partition("/")[2]
    above, _, name = key.rpartition("/") if single else (key, "", "")
    output = ""
    if name or not single:
        output = _run_client(client, client.one if single else client.listing, url, place, log=log)
    try:
        contents = objects.parse(client.name, above and above + "/", output)
    except (ValueError, TypeError):
        raise SourceFault(
            "`{}` listed `{}` in a form that is not known".format(client.name, url),
            "use another version of it, or another client",
        ) from None
    if single:  # clients list those with a longer name, too, and s5cmd has the whole key
        contents = [stored._replace(key=name) for stored in contents if stored.key in (name, key)]
    if not contents:
        message = "`{}` has no objects".format(url)
        what = "the key of one object, an archive" if single else "a prefix, which is read as a directory"
        raise SourceFault(message, "name " + what)
    keys.check(url, [stored.key for stored in contents])
    lines = ["{} {} {} {}".format(stored.time, stored.etag, stored.size, stored.key) for stored in contents]
    size = sum(stored.size for stored in contents)
    return SourceListing(_identity(lines), size, client.name, client.resumes, objects=tuple(contents))


def _reach_endpoint(url: str, log: Log) -> None:
    """Raise SourceFault if the server of AWS_ENDPOINT_URL is away: the clients try for minutes without a message."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    parts = urllib.parse.urlsplit(endpoint)
    if not parts.hostname or urllib.request.getproxies().get(parts.scheme):
        return
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return
    why = ""
    for attempt in range(1, FIRST_ATTEMPTS + 1):
        try:
            socket.create_connection((parts.hostname, port), CONNECT_SECONDS).close()
        except OSError as fault:
            why = fault.strerror or str(fault)
        else:
            return
        if attempt < FIRST_ATTEMPTS:
            log(
                "`{}`: {}; attempt {} of {} in {} s".format(
                    shown(endpoint), why, attempt + 1, FIRST_ATTEMPTS, attempt
                )
            )
            time.sleep(attempt)
    raise SourceFault(
        "`{}` cannot be read from node {}: {}".format(
            url, os.uname().nodename, "`{}`: {}".format(shown(endpoint), why)
        ),
        "the server of AWS_ENDPOINT_URL does not answer, or not from compute nodes",
    )


def _list_web(url: str, access: Access, log: Log) -> SourceListing:
    file_name(url)
    web = WebSource(url, access, log)
    seen = web.look()
    if not seen.etag and not seen.modified:
        raise SourceFault(
            "`{}` has neither an ETag nor a time".format(web.url),
            "a change could not be detected: download it to the shared file system instead",
        )
    return SourceListing(
        _identity([seen.etag, seen.modified, str(seen.size)]), max(0, seen.size), "Python", False, seen
    )


def _identity(lines: List[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def download(
    url: str, to: str, parts: str, access: Access, log: Log, listed: Optional[SourceListing] = None
) -> None:
    """Download a source, or its missing files, to a directory; raises SourceFault if that fails, or for another file than
    the one that was listed. parts: a directory for files of which a part is there.
    """
    if scheme(url) != "s3":
        file = listed.file if listed else None
        web = WebSource(url, access, log)
        fetching.fetch_file(web, file or WebFile("", "", UNKNOWN), parts, os.path.join(to, file_name(url)))
        return
    contents = listed.objects if listed else ()
    client, place = _client(url), _bucket_path(url)
    with contextlib.closing(_large(client, url, contents, parts, log)) as large:
        large.fetch()
        rest = [stored.key for stored in contents if stored.key not in large.keys]
        if not large.keys:
            _run_client(client, client.copy, url, place, to)
        elif rest:
            words, input_text = keys.without(
                client.name, client.copy, place, to=to, keys=sorted(large.keys), rest=rest
            )
            _run_client(client, words, url, place, to, input_text=input_text)
        large.link(to)


def _large(client: Client, url: str, contents: Sequence[Object], parts: str, log: Log) -> LargeObjects:
    """The large objects that are not left to the client."""
    wanted = keys.large(client.name, contents)
    return LargeObjects(url, wanted, lambda stored: _sign(client, url, "/" + stored.key), parts, log)


def stream(url: str, access: Access, log: Log, listed: SourceListing) -> streams.Stream:
    """The content of one listed file or object, read while it is downloaded; close it.

    Reading raises SourceFault if that fails, or for another file than the one that was listed.
    """
    if scheme(url) == "s3":
        sign = lambda _: _sign(_client(url), url)  # noqa: E731 - a client is missed when the object is read
        pieces = read_on(url, listed.objects[0], _object(url, listed.size), sign, log)
    else:
        pieces = _file(url, access, log, listed)
    return streams.Stream(shown(url), listed.size, pieces)


def ranges(url: str, access: Access, log: Log, listed: SourceListing) -> streams.Fetch:
    """What fetches parts of one listed file or object; raises NoParts where that is known to fail, SourceFault if it changed."""
    file, web = listed.file, WebSource(url, access, log)
    if file is None:
        client, stored = _client(url), listed.objects[0]
        try:
            web = WebSource(url, Access(), log, _sign(client, url))
            file = web.look()
        except SourceFault as fault:
            raise NoParts(fault.message, fault.help) from None
        require_same(url, stored, file)
    if not validator(file):
        raise NoParts(
            "`{}` cannot be read in parts: {}".format(web.url, "its server gives it neither ETag nor time")
        )
    seen = file

    def fetch(first: int, end: int) -> bytes:
        return b"".join(data for _, data in web.pieces(Part.of(seen, first), end))

    return fetch


def _sign(client: Client, url: str, key: str = "") -> str:
    """The presigned URL of an object; key: below `url`."""
    return _run_client(client, client.sign, url, _bucket_path(url) + key).strip()


def _file(url: str, access: Access, log: Log, listed: SourceListing) -> Pieces:
    web = WebSource(url, access, log)
    yield from web.pieces()
    if listed.file is not None and differs(listed.file, web.found):
        raise changed(url)


def _object(url: str, size: int) -> Pieces:
    client, place, offset = _client(url), _bucket_path(url), 0
    with tempfile.TemporaryFile() as messages, subprocess.Popen(
        [client.name, *_filled(client.content, place, "")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=messages, env=_environment(client.name), preexec_fn=_prepare_client,  # noqa: PLW1509 - as in `_run_client`
    ) as process:  # fmt: skip
        try:
            content: Any = process.stdout
            for data in iter(lambda: content.read(READ_SIZE), b""):
                yield offset, data
                offset += len(data)
            if process.wait():
                messages.seek(0)
                raise _failure(client, client.one, url, place, messages.read())
        finally:
            process.kill()
    if offset != size:
        raise SourceFault(
            "{} fetched {} of the {} of `{}`".format(client.name, text.size(offset), text.size(size), url),
            "try the same on the node with the client alone",
        )


def fetch(url: str, to: str, parts: str, wanted: List[Object], log: Log) -> bool:
    """Fetch some objects to an empty directory; False if the client cannot; raises SourceFault if it fails."""
    client, place = _client(url), _bucket_path(url)
    with contextlib.closing(_large(client, url, wanted, parts, log)) as large:
        rest = [stored.key for stored in wanted if stored.key not in large.keys]
        command = keys.fetching(client.name, place, to, rest)
        if command is None:
            return False
        large.fetch()
        if rest:
            _run_client(client, command[0], url, place, to, input_text=command[1])
        large.link(to)
    return True


def changed(url: str) -> SourceFault:
    """The error for a source that changes while it is downloaded."""
    return streams.changed(shown(url))


def _bucket_path(url: str) -> str:
    path = url.partition("://")[2].rstrip("/")
    if not path or path.startswith("/"):
        raise SourceFault("`{}` names no bucket".format(url), "write s3://BUCKET/PREFIX")
    return path


def _client(url: str) -> Client:
    _bucket_path(url)  # first: such a URL is wrong on every node
    for client in CLIENTS:
        if shutil.which(client.name):
            return client
    names = ", ".join(client.name for client in CLIENTS)
    raise SourceFault(
        "node {} has no client that reads `{}` ({})".format(os.uname().nodename, url, names),
        "load one in the job (`environment.modules`), or stage a copy on the shared file system",
    )


def _run_client(
    client: Client,
    words: List[str],
    url: str,
    place: str,
    to: str = "",
    log: "Optional[Log]" = None,
    input_text: str = "",
) -> str:
    """The output of a client, with `input_text` as its input; with `log` a line for each SILENCE seconds of waiting."""
    filled = [client.name, *_filled(words, place, to)]
    waited, stdin = 0, input_text.encode("utf-8", "surrogateescape")
    with subprocess.Popen(
        filled, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=_environment(client.name),
        preexec_fn=None if words is client.sign else _prepare_client,  # noqa: PLW1509 - before any thread
    ) as process:  # fmt: skip
        stdout = stderr = None
        while stdout is None:
            try:
                stdout, stderr = process.communicate(stdin, timeout=SILENCE if log else None)
            except subprocess.TimeoutExpired:
                waited += SILENCE
                if log:
                    log("`{}`: `{}` has not listed it for {} s".format(url, client.name, waited))
    if process.returncode:
        output = stderr or stdout or b""
        if to and full_disk(output):
            raise NoSpace(
                "the disk filled up while `{}` was fetched: {}".format(url, _reason(output)),
                "stage to another disk, or make room on this one",
            )
        raise _failure(client, client.one if words == client.one else client.listing, url, place, output)
    return stdout.decode("utf-8", "surrogateescape")


def _failure(client: Client, listing: List[str], url: str, place: str, output: bytes) -> SourceFault:
    message = "`{}` could not read `{}`: {}".format(client.name, url, _reason(output))
    by_hand = _by_hand([client.name, *_filled(listing, place, "")])
    return SourceFault(message, "try the same on the node: {}".format(by_hand))


def _filled(words: List[str], place: str, to: str) -> List[str]:
    bucket, _, below = place.partition("/")
    return [
        word.format(place=place, to=to, bucket=bucket, key=below, prefix=below and below + "/")
        for word in words
    ]


def _reason(output: bytes) -> str:
    """The last line of a client's messages, without its time; indented lines continue the one before (rclone)."""
    lines = [
        line
        for line in output.decode("utf-8", "replace").splitlines()
        if line.strip() and not line[0].isspace()
    ]
    return _TIME.sub("", lines[-1]) if lines else "no reason given"


def _by_hand(words: List[str]) -> str:
    """A command as a user would type it, with the settings of rclone that define its remote `dlrun`."""
    ours = sorted(_environment(words[0]).items()) if words[0] == "rclone" else []
    settings = ["{}={}".format(k, shlex.quote(v)) for k, v in ours if k.startswith("RCLONE_CONFIG_DLRUN_")]
    return " ".join(settings + [shlex.quote(word) for word in words])


def _prepare_client() -> None:
    die_with_parent()
    # The umask of this program is 0, since it copies modes; the client's files would be writable by others.
    os.umask(0o022)


def _environment(client: str) -> Dict[str, str]:
    """The environment of a client, with the AWS CLI's settings translated; credentials never go on a command line."""
    environment = dict(os.environ, RCLONE_CONFIG_DLRUN_TYPE="s3", RCLONE_CONFIG_DLRUN_ENV_AUTH="true")
    environment.setdefault("RCLONE_CONFIG_DLRUN_PROVIDER", "AWS")
    # The AWS SDK of rclone fails if this variable is set.
    bundle = environment.pop("AWS_CA_BUNDLE", "") if client == "rclone" else ""
    if bundle:
        environment.setdefault("RCLONE_CA_CERT", bundle)
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        environment.setdefault("S3_ENDPOINT_URL", endpoint)
        environment.setdefault("RCLONE_CONFIG_DLRUN_ENDPOINT", endpoint)
        environment["RCLONE_CONFIG_DLRUN_PROVIDER"] = "Other"
    return environment
