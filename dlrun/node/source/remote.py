"""Sources that are URLs: `s3://` with a client installed on the node, `http(s)://` with Python.

The first node lists the source, and downloads it to node-local storage unless a set with the same listing is published;
the download is then the source of the copy. Modes are 0644 and 0755: web servers and S3 store none.
"""

import email.utils
import hashlib
import http.client
import os
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..common.errors import SourceFault
from ..common.system import die_with_parent
from .selection import scheme

READ_SIZE = 1 << 20  # bytes read from a web server at a time
TIMEOUT = 60.0  # of a web server, in seconds
MAX_ATTEMPTS = 5  # connections to a web server for one file


class Client(NamedTuple):
    """An S3 client, with its arguments to list and to copy; size: column of the listing with the bytes.

    resumes: a killed copy can be continued, since files get their final name or time only when complete.
    """

    name: str
    listing: List[str]
    copy: List[str]
    size: int
    resumes: bool


CLIENTS = (
    Client("s5cmd", ["ls", "s3://{place}/*"], ["--log", "error", "sync", "s3://{place}/*", "{to}/"], 2, False),
    Client("rclone", ["lsl", "dlrun:{place}"], ["sync", "--quiet", "dlrun:{place}", "{to}"], 0, True),
    Client(
        "aws", ["s3", "ls", "--recursive", "s3://{place}/"],
        ["s3", "sync", "--delete", "--only-show-errors", "s3://{place}", "{to}"], 2, True,
    ),
)  # fmt: skip
"""The clients, the fastest first (options from s5cmd(1), rclone.org/s3 and the AWS CLI's reference).

s5cmd writes the parts of an object in any order under its final name (github.com/peak/s5cmd, issue 493): after a kill a
file may have the right size, but holes. The others remove the temporary files of an unfinished copy.
"""


_TIME = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ")  # before each line of rclone


class SourceListing(NamedTuple):
    """The state of a source: a hash of its listing, its bytes, the reader's name, and whether a download can be resumed."""

    identity: str
    size: int
    reader: str
    resumes: bool


def list_source(url: str) -> SourceListing:
    """List a source; raises SourceFault if this node cannot read it, or if it is empty."""
    if scheme(url) != "s3":
        return _list_web(url)
    client, place = _client(url), _bucket_path(url)
    lines = sorted(_run_client(client, client.listing, url, place).splitlines())
    if not lines:
        message = "`{}` has no objects".format(url)
        raise SourceFault(message, "name a prefix, which is read as a directory")
    sizes = [words[client.size] for words in map(str.split, lines) if len(words) > client.size]
    identity = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return SourceListing(
        identity, sum(max(0, _byte_count(size)) for size in sizes), client.name, client.resumes
    )


def download(url: str, to: str) -> None:
    """Download a source, or its missing files, to a directory; raises SourceFault if that fails."""
    if scheme(url) != "s3":
        _download_from_web(url, to)
        return
    client = _client(url)
    _run_client(client, client.copy, url, _bucket_path(url), to)


def _bucket_path(url: str) -> str:
    path = url.partition("://")[2].rstrip("/")
    if not path or path.startswith("/"):
        message = "`{}` names no bucket".format(url)
        raise SourceFault(message, "write s3://BUCKET/PREFIX")
    return path


def _client(url: str) -> Client:
    for client in CLIENTS:
        if shutil.which(client.name):
            return client
    names = ", ".join(client.name for client in CLIENTS)
    message = "node {} has no client that reads `{}` ({})".format(os.uname().nodename, url, names)
    raise SourceFault(
        message, "load one in the job (`environment.modules`), or stage a copy on the shared file system"
    )


def _run_client(client: Client, words: List[str], url: str, place: str, to: str = "") -> str:
    filled = [client.name] + [word.format(place=place, to=to) for word in words]
    done = subprocess.run(
        filled, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        env=_environment(client.name), preexec_fn=_prepare_client,
    )  # fmt: skip
    if done.returncode:
        output = (done.stderr or done.stdout).decode("utf-8", "replace")
        message = "`{}` could not read `{}`: {}".format(client.name, url, _reason(output))
        listing = [client.name] + [word.format(place=place, to="") for word in client.listing]
        raise SourceFault(message, "try the same on the node: {}".format(_by_hand(listing)))
    return done.stdout.decode("utf-8", "surrogateescape")


def _reason(output: str) -> str:
    """The last line of a client's messages, without its time; indented lines continue the one before (rclone)."""
    lines = [line for line in output.splitlines() if line.strip() and not line[0].isspace()]
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
    found = dict(os.environ, RCLONE_CONFIG_DLRUN_TYPE="s3", RCLONE_CONFIG_DLRUN_ENV_AUTH="true")
    found.setdefault("RCLONE_CONFIG_DLRUN_PROVIDER", "AWS")
    # The AWS SDK of rclone fails if this variable is set.
    bundle = found.pop("AWS_CA_BUNDLE", "") if client == "rclone" else ""
    if bundle:
        found.setdefault("RCLONE_CA_CERT", bundle)
    endpoint = found.get("AWS_ENDPOINT_URL_S3") or found.get("AWS_ENDPOINT_URL")
    if endpoint:
        found.setdefault("S3_ENDPOINT_URL", endpoint)
        found.setdefault("RCLONE_CONFIG_DLRUN_ENDPOINT", endpoint)
        found["RCLONE_CONFIG_DLRUN_PROVIDER"] = "Other"
    return found


_UNKNOWN, _BROKE = -2, -1
"""Sizes of a file whose server sends none: unknown, and unknown after the connection broke before the end of the file."""

# --- Web servers ----------------------------------------------------------------------------------------------


def _open(url: str, method: str = "GET", headers: Optional[Dict[str, str]] = None) -> Any:
    """The response to an HTTP request; raises SourceFault for errors."""
    request = urllib.request.Request(url, headers=headers or {}, method=method)  # noqa: S310 - the scheme is known
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    # HTTPException: the server does not speak HTTP.
    except (OSError, ValueError, http.client.HTTPException) as fault:
        why = getattr(fault, "reason", None) or fault
        message = "`{}` cannot be read from node {}: {}".format(url, os.uname().nodename, why)
        raise SourceFault(
            message, "compute nodes of many clusters cannot reach web servers: download it on a login node"
        ) from None


def _list_web(url: str) -> SourceListing:
    _file_name(url)
    with _open(url, "HEAD") as answer:
        found = [answer.headers.get(key, "") for key in ("ETag", "Last-Modified", "Content-Length")]
    if not any(found[:2]):
        message = "`{}` has neither an ETag nor a time".format(url)
        raise SourceFault(
            message, "a change could not be detected: download it to the shared file system instead"
        )
    identity = hashlib.sha256("\n".join(found).encode("utf-8", "replace")).hexdigest()
    return SourceListing(identity, max(0, _byte_count(found[2])), "Python", False)


def _file_name(url: str) -> str:
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        message = "`{}` does not name a file".format(url)
        raise SourceFault(
            message, "a source on a web server is one file; stage several files as data sets of their own"
        )
    return name


def _download_from_web(url: str, to: str) -> None:
    """Download one file; after a broken connection resume at the last byte."""
    path, done, state, whole = os.path.join(to, _file_name(url)), 0, "", _UNKNOWN
    for _ in range(MAX_ATTEMPTS):
        with open(path, "ab" if done else "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            whole, modified, state = _append(url, file, done, state)
            done = file.tell()
        if whole in (_UNKNOWN, done):
            if modified is not None:
                os.utime(path, (modified, modified))
            return
    size = "{} of {}".format(done, whole) if whole >= 0 else str(done)
    message = "`{}` broke off after {} bytes, {} times".format(url, size, MAX_ATTEMPTS)
    raise SourceFault(message, "run again later")


def _append(url: str, file: Any, done: int, state: str) -> Tuple[int, Optional[float], str]:
    """Append the server's data from byte `done` on, or restart if the file's state (ETag or time) has changed.

    Returns (size of the whole file or `_UNKNOWN`, its time in seconds or None, its state).
    """
    headers = {"Range": "bytes={}-".format(done), "If-Range": state} if done and state else {}
    with _open(url, headers=headers) as answer:
        # Not 206 (partial content): the server ignores ranges or has a newer file, and sends the whole file.
        if done and answer.status != 206:
            file.seek(0)
            file.truncate()
            done = 0
        length = _byte_count(answer.headers.get("Content-Length") or "")
        whole = done + length if length >= 0 else _UNKNOWN
        modified = _modification_time(answer.headers.get("Last-Modified") or "")
        try:
            shutil.copyfileobj(answer, file, READ_SIZE)
        # The caller requests the rest.
        except (OSError, http.client.HTTPException) as broken:
            file.write(getattr(broken, "partial", b""))
            whole = max(whole, _BROKE)
        state = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    return whole, modified, state


def _byte_count(text: str) -> int:
    """A number of bytes as a server writes it; -1 for anything else."""
    # Not `isdigit`: that is also true of superscripts.
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else -1


def _modification_time(text: str) -> Optional[float]:
    """A file's time in seconds since 1970; None for an invalid or impossible one."""
    try:
        time = email.utils.parsedate_tz(text)
        found = email.utils.mktime_tz(time) if time else None
    except (ArithmeticError, ValueError, TypeError, IndexError):
        return None
    return found if found is not None and 0 <= found < 1 << 33 else None
