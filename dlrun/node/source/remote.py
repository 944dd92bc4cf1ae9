"""A source that is not on a file system: `s3://` by a client that the node has, `http(s)://` by Python itself.

The first node lists it, and fetches it to its own storage unless a set with the same list is there; from then on it is
a source like any other. Files get the modes 0644 and 0755, since neither web servers nor S3 have any.
"""

import contextlib
import email.utils
import hashlib
import http.client
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..common.errors import SourceFault
from ..common.system import end_with_parent
from .selection import scheme

PIECE = 1 << 20  # bytes read from a web server at a time
PATIENCE = 60.0  # seconds without an answer from a web server
TRIES = 5  # connections to a web server that break, for one file


class Client(NamedTuple):
    """A program that reads S3, with the arguments that list and copy; `size` is the column of the list with the bytes.

    resumes: whether a copy that was killed can be continued, for a file has its name, or its time, only once it is whole.
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
"""The clients, the fastest first: s5cmd(1), rclone.org/s3, and the AWS CLI's reference.

s5cmd writes the parts of an object in any order under its last name (github.com/peak/s5cmd, issue 493): where it was killed there
may be a file of the right size with holes. The others remove what an unfinished copy left under another name.
"""


class Listed(NamedTuple):
    """What a source has now: a hash that changes with it, its bytes, who reads it, and whether that can go on after a kill."""

    identity: str
    size: int
    reader: str
    resumes: bool


def look(url: str) -> Listed:
    """List a source; SourceFault if this node cannot, or there is nothing."""
    if scheme(url) != "s3":
        return _look_at_web(url)
    client, place = _client(url), _place(url)
    lines = sorted(_run(client, client.listing, url, place).splitlines())
    if not lines:
        message = "`{}` has no objects".format(url)
        raise SourceFault(message, "name a prefix, which is read as a directory")
    sizes = [words[client.size] for words in map(str.split, lines) if len(words) > client.size]
    identity = hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return Listed(identity, sum(int(size) for size in sizes if size.isdigit()), client.name, client.resumes)


def fetch(url: str, to: str) -> None:
    """Copy a source to a directory, or what of it is not there yet; SourceFault if that fails."""
    if scheme(url) != "s3":
        _fetch_from_web(url, to)
        return
    client = _client(url)
    _run(client, client.copy, url, _place(url), to)


def _place(url: str) -> str:
    return url.partition("://")[2].rstrip("/")


def _client(url: str) -> Client:
    for client in CLIENTS:
        if shutil.which(client.name):
            return client
    names = ", ".join(client.name for client in CLIENTS)
    message = "node {} has no client that reads `{}` ({})".format(os.uname().nodename, url, names)
    raise SourceFault(
        message, "load one in the job (`environment.modules`), or stage a copy on the shared file system"
    )


def _run(client: Client, words: List[str], url: str, place: str, to: str = "") -> str:
    filled = [client.name] + [word.format(place=place, to=to) for word in words]
    done = subprocess.run(
        filled, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        env=_environment(client.name), preexec_fn=_as_client,
    )  # fmt: skip
    if done.returncode:
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        message = "`{}` could not read `{}`: {}".format(
            client.name, url, lines[-1] if lines else "no reason given"
        )
        raise SourceFault(
            message, "try the same on the node: {} {}".format(client.name, " ".join(filled[1:3]))
        )
    return done.stdout.decode("utf-8", "surrogateescape")


def _as_client() -> None:
    end_with_parent()
    os.umask(0o022)  # this program's own is 0, for it copies modes


def _environment(client: str) -> Dict[str, str]:
    """The environment in which each client has the AWS CLI's settings; credentials are on no command line."""
    found = dict(os.environ, RCLONE_CONFIG_DLRUN_TYPE="s3", RCLONE_CONFIG_DLRUN_ENV_AUTH="true")
    found.setdefault("RCLONE_CONFIG_DLRUN_PROVIDER", "AWS")
    bundle = found.pop("AWS_CA_BUNDLE", "") if client == "rclone" else ""  # its AWS SDK fails on that
    if bundle:
        found.setdefault("RCLONE_CA_CERT", bundle)
    endpoint = found.get("AWS_ENDPOINT_URL_S3") or found.get("AWS_ENDPOINT_URL")
    if endpoint:
        found.setdefault("S3_ENDPOINT_URL", endpoint)
        found.setdefault("RCLONE_CONFIG_DLRUN_ENDPOINT", endpoint)
        found["RCLONE_CONFIG_DLRUN_PROVIDER"] = "Other"
    return found


# --- Web servers ----------------------------------------------------------------------------------------------


def _open(url: str, method: str = "GET", headers: Optional[Dict[str, str]] = None) -> Any:
    """The answer to a request; SourceFault if there is none."""
    request = urllib.request.Request(url, headers=headers or {}, method=method)  # noqa: S310 - the scheme is known
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE)  # noqa: S310
    except (OSError, ValueError) as fault:
        why = getattr(fault, "reason", None) or fault
        message = "`{}` cannot be read from node {}: {}".format(url, os.uname().nodename, why)
        raise SourceFault(
            message, "compute nodes of many clusters reach no web server: fetch it on a login node"
        ) from None


def _look_at_web(url: str) -> Listed:
    _name(url)
    with _open(url, "HEAD") as answer:
        found = [answer.headers.get(key, "") for key in ("ETag", "Last-Modified", "Content-Length")]
    if not any(found[:2]):
        message = "`{}` has neither an ETag nor a time".format(url)
        raise SourceFault(message, "a change could not be found: fetch it to the shared file system instead")
    identity = hashlib.sha256("\n".join(found).encode("utf-8", "replace")).hexdigest()
    return Listed(identity, int(found[2]) if found[2].isdigit() else 0, "Python", False)


def _name(url: str) -> str:
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        message = "`{}` does not name a file".format(url)
        raise SourceFault(
            message, "a source at a web server is one file; stage several as data sets of their own"
        )
    return name


def _fetch_from_web(url: str, to: str) -> None:
    """Fetch one file; after a broken connection from where that broke."""
    path, done, state, whole = os.path.join(to, _name(url)), 0, "", -1
    for _ in range(TRIES):
        with open(path, "ab" if done else "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            whole, modified, state = _receive(url, file, done, state)
            done = file.tell()
        if whole < 0 or done == whole:
            if modified is not None:
                os.utime(path, (modified, modified))
            return
    message = "`{}` broke off after {} of {} bytes, {} times".format(url, done, whole, TRIES)
    raise SourceFault(message, "run again later")


def _receive(url: str, file: Any, done: int, state: str) -> Tuple[int, Optional[float], str]:
    """Append what a server sends from a byte on, if it still has the file in that state.

    The size of the whole, -1 if it sends none, the file's time, and its state.
    """
    headers = {"Range": "bytes={}-".format(done), "If-Range": state} if done and state else {}
    with _open(url, headers=headers) as answer:
        if done and answer.status != 206:
            file.seek(0)
            file.truncate()
            done = 0
        length = answer.headers.get("Content-Length")
        whole = done + int(length) if length and length.isdigit() else -1
        time = email.utils.parsedate_tz(answer.headers.get("Last-Modified") or "")
        with contextlib.suppress(OSError, http.client.HTTPException):  # the rest is asked for
            shutil.copyfileobj(answer, file, PIECE)
        state = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
    return whole, email.utils.mktime_tz(time) if time else None, state
