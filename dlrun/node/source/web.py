"""Files of web servers: described by HEAD or a ranged GET, downloaded with resumption, every answer checked.

A presigned URL and headers such as Authorization come from environment variables and appear nowhere: messages have the URL
of the source, and a redirect to another server gets no credentials.
"""

import contextlib
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, Generator, NamedTuple, Optional, Tuple

from ..common.errors import NoParts, SourceFault, Usage
from .answers import UNKNOWN, Pieces, WebFile, byte_count, content_range, described, hashes_of, validator
from .selection import Access
from .stream import changed, damaged

READ_SIZE = 1 << 20  # bytes read from a web server at a time
CONNECT_SECONDS = 5.0  # to connect, TLS included
READ_SECONDS = 60.0  # between two pieces of an answer
MAX_ATTEMPTS = 5  # requests in succession without further data
FIRST_ATTEMPTS = 3  # requests until a server that has not answered yet is given up
LONGEST_WAIT = 60.0  # seconds of a server's Retry-After that are waited for
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # statuses that may be different on the next attempt
_MAX_REDIRECTS = 10
Log = Callable[[str], None]


def shown(url: str) -> str:
    """A URL for messages: without user name, password, query and fragment, which may be credentials."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def file_name(url: str) -> str:
    """The name of the file at a URL; raises SourceFault if it names none."""
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise SourceFault(
            "`{}` does not name a file".format(shown(url)),
            "a source on a web server is one file; stage several files as data sets of their own",
        )
    return name


class WebSource:
    """One file on a web server. Its methods raise SourceFault for what the server refuses, or after several attempts.

    signed: the presigned URL of an object of S3. seen: what the last answer says about the file.
    """

    def __init__(self, url: str, access: Access, log: Log, signed: str = "") -> None:
        parts = urllib.parse.urlsplit(signed or url)
        if "@" in parts.netloc:
            raise Usage(
                "`{}` has a user name or password".format(shown(url)),
                "give them in a header: `credentials: {headers: {Authorization: NAME}}`",
            )
        self.url, self._log, self._secret = shown(url), log, bool(access.url or access.headers)
        self._address, self._headers = signed or url, {}  # type: str, Dict[str, str]
        # S3 documents If-Match (GetObject), and not If-Range.
        self._exact = bool(signed)
        self.found = self.seen = WebFile("", "", UNKNOWN)
        self.unproved: Dict[str, bytes] = {}
        self._hashes: Dict[str, Any] = {}
        if access.url:
            self._address = _variable(access.url)
            other = urllib.parse.urlsplit(self._address)
            if other[:3] != parts[:3]:
                raise SourceFault(
                    "the URL in the secret `{}` is not of `{}`".format(access.url, self.url),
                    "`source:` is the same URL without the part from the `?` on",
                )
        for header, name in access.headers:
            self._headers[header] = _variable(name)

    def look(self) -> WebFile:
        """Describe the file, by HEAD or, where the server or a presigned URL allows only GET, by the first byte."""
        with contextlib.suppress(_Refused, http.client.HTTPException):
            # The URL of an object is signed for GET.
            if not self._exact:
                with self._request({}, "HEAD", FIRST_ATTEMPTS) as answer:
                    seen = described(answer, byte_count(answer.headers.get("Content-Length") or ""))
                if (seen.etag or seen.modified) and seen.size != UNKNOWN:
                    return seen
        try:
            with self._request({"Range": "bytes=0-0"}, "GET", FIRST_ATTEMPTS) as answer:
                part = content_range(answer)
                size = part[2] if answer.status == 206 and part else UNKNOWN
                if answer.status == 200:
                    size = byte_count(answer.headers.get("Content-Length") or "")
                self.unproved = hashes_of(answer)
                return described(answer, size)
        except _Refused as refusal:
            if refusal.status == 416:  # an empty file has no first byte
                return WebFile(
                    refusal.headers.get("ETag") or "", refusal.headers.get("Last-Modified") or "", 0
                )
            raise self._refusal(refusal) from None

    def pieces(self, part: "Optional[Part]" = None, end: int = UNKNOWN) -> Pieces:
        """Each piece of the file with its offset, after a `part` that is there; at the end `found` describes the file.

        After a broken connection they continue at the last byte, if the server proves that, else from the first one. With
        `end` they are those before it of the file that `part` describes, or an error is raised. `unproved`: the server's
        hashes of the file that were not compared, since not all of it was read here.
        """
        part = part or Part()
        most, failures, resume = part.size, 0, True
        while True:
            try:
                part = yield from self._answer(part if resume else part._replace(size=0), end)
            except _Refused as refusal:
                raise (changed(self.url) if refusal.status == 412 else self._refusal(refusal)) from None
            if not part.why:
                break
            resume = resume and not part.why.startswith(_WRONG_RANGE)
            if end != UNKNOWN and not resume:
                raise NoParts("`{}` cannot be read in parts: {}".format(self.url, part.why))
            failures = 0 if part.size > most else failures + 1
            most = max(most, part.size)
            if failures >= MAX_ATTEMPTS:
                size = "{} of {}".format(part.size, part.whole) if part.whole >= 0 else str(part.size)
                raise SourceFault(
                    "`{}` broke off after {} bytes, {} times: {}".format(
                        self.url, size, MAX_ATTEMPTS, part.why
                    ),
                    "run again later",
                )
            self._wait(part.why, failures)
        self.unproved = dict(part.hashes)
        for name, hasher in self._hashes.items():
            if hasher.digest() != self.unproved.pop(name, hasher.digest()):
                raise damaged(self.url, name, hasher.hexdigest(), dict(part.hashes)[name])
        self.found = WebFile(part.etag, part.modified, part.whole if end != UNKNOWN else part.size)

    def _answer(self, part: "Part", stop: int = UNKNOWN) -> "Generator[Tuple[int, bytes], None, Part]":
        """What a server sends after a part of the file, or from the beginning if the file has changed since; the part then.

        stop: the byte after the last one that is asked for.
        """
        resumed, bounded, headers = part.size if part.state else 0, stop != UNKNOWN, {}  # type: int, bool, Dict[str, str]
        if resumed or bounded:
            headers = {"Range": "bytes={}-{}".format(resumed, stop - 1 if bounded else "")}
            headers["If-Match" if self._exact and part.state.startswith('"') else "If-Range"] = part.state
        with self._request(headers) as answer:
            self.seen = described(answer, byte_count(answer.headers.get("Content-Length") or ""))
            state = validator(self.seen)
            whole = length = self.seen.size
            words = (answer.headers.get("Content-Range") or "none")[:80]
            wrong = part._replace(
                why="{} `{}` to a request from byte {}".format(_WRONG_RANGE, words, resumed)
            )
            end = UNKNOWN  # of the part that is answered
            if bounded and state not in ("", part.state):
                raise changed(self.url)
            if answer.status == 206:
                span = content_range(answer)
                # The server may not say of how many bytes the range is one, but it must be known.
                whole = part.whole if span is None or span[2] == UNKNOWN else span[2]
                if (
                    span is None
                    or (answer.headers.get("Content-Type") or "").lower().startswith("multipart/byteranges")
                    or span[0] != resumed
                    or length not in (UNKNOWN, span[1] - resumed + 1)
                    or state not in ("", part.state)
                    or whole == UNKNOWN
                    or part.whole not in (UNKNOWN, whole)
                    or (bounded and span[1] >= stop)
                ):
                    return wrong
                end = span[1] + 1
            elif bounded:
                return wrong
            else:  # the server ignores ranges or has a newer file, and sends the whole file
                resumed = 0
            self.seen = self.seen._replace(size=whole)
            hashes = tuple(sorted(hashes_of(answer).items()))
            if not resumed and not bounded:
                self._hashes = {name: hashlib.new(name) for name, _ in hashes}
            size, why = resumed, ""
            while not why:
                data, why = _read(answer)
                if size + len(data) > end >= 0:
                    return wrong
                if not data:
                    break
                for hasher in self._hashes.values():
                    hasher.update(data)
                yield size, data
                size += len(data)
        wanted = stop if bounded else whole
        if size == wanted:
            why = ""
        elif not why and wanted != UNKNOWN:
            why = "the connection was closed too early"
        return Part(
            size,
            state or part.state,
            whole=whole,
            etag=self.seen.etag or (part.etag if resumed or bounded else ""),
            modified=self.seen.modified or (part.modified if resumed or bounded else ""),
            why=why,
            hashes=hashes,
        )

    def _request(self, headers: Dict[str, str], method: str = "GET", attempts: int = MAX_ATTEMPTS) -> Any:
        """The response to a request; attempted again, with a message, where that may help."""
        for attempt in range(1, attempts + 1):
            wait = ""
            try:
                return _open(self._address, dict(self._headers), headers, method)
            except urllib.error.HTTPError as refusal:
                with refusal:
                    # The reason of a redirect that is not followed has its target, with credentials.
                    words = str(refusal.reason)
                    if not words.startswith(_ELSEWHERE):
                        words = http.client.responses.get(refusal.code, "")
                    why = "HTTP {} {}".format(refusal.code, words).rstrip()
                    wait = refusal.headers.get("Retry-After") or ""
                    if refusal.code not in _PASSING or attempt == attempts:
                        raise _Refused(refusal.code, why, refusal.headers) from None
            except (OSError, ValueError, http.client.HTTPException) as fault:
                why = _reason(fault)
                if method == "HEAD" and isinstance(fault, http.client.HTTPException):
                    raise
                if attempt == attempts or isinstance(fault, ValueError):
                    raise SourceFault(
                        "`{}` cannot be read from node {}: {}".format(self.url, os.uname().nodename, why),
                        "compute nodes of many clusters cannot reach web servers: download it on a login node",
                    ) from None
            self._wait(why, attempt, wait, attempts)
        raise AssertionError("the last attempt returns or raises")

    def _wait(self, why: str, attempt: int, asked: str = "", attempts: int = MAX_ATTEMPTS) -> None:
        seconds = (
            min(LONGEST_WAIT, float(asked))
            if re.fullmatch("[0-9]{1,6}", asked)
            else min(2.0**attempt / 2, 8.0)
        )
        self._log(
            "`{}`: {}; attempt {} of {} in {:.0f} s".format(self.url, why, attempt + 1, attempts, seconds)
        )
        time.sleep(seconds)

    def _refusal(self, refusal: "_Refused") -> SourceFault:
        message = "`{}` cannot be read: {}".format(self.url, refusal.why)
        if refusal.status in (404, 410):
            return SourceFault(message, "the server has no such file: check the URL")
        if refusal.status in (401, 403):
            name = (
                "the credentials are not accepted, or have expired"
                if self._secret
                else "it needs credentials"
            )
            return SourceFault(message, name + ": see `credentials` of the data set")
        return SourceFault(message, "the server refuses or fails; try the same with curl on the node")


_ELSEWHERE = "it redirects"
_WRONG_RANGE = "the server answered with the range"


class Part(NamedTuple):
    """The part of a file that is there: bytes, what proves that it is of the same file (ETag or time), the file's size, its ETag
    and time, why the part ended early, the server's hashes of the file.
    """

    size: int = 0
    state: str = ""
    whole: int = UNKNOWN
    etag: str = ""
    modified: str = ""
    why: str = ""
    hashes: Tuple[Tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, file: WebFile, size: int) -> "Part":
        """The first `size` bytes of a file that has a validator."""
        return cls(size, validator(file), file.size, file.etag, file.modified)


def _read(answer: Any) -> Tuple[bytes, str]:
    """The next data of an answer, none at its end; and why it broke off, or an empty text."""
    try:
        return answer.read(READ_SIZE), ""
    except (OSError, http.client.HTTPException) as broken:
        return getattr(broken, "partial", b""), _reason(broken)


class _Refused(Exception):
    """A status of 400 or more, with the answer's headers."""

    def __init__(self, status: int, why: str, headers: Any) -> None:
        super().__init__(why)
        self.status, self.why, self.headers = status, why, headers


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value or "\n" in value or "\r" in value:
        raise SourceFault(
            "the secret `{}` is {} on node {}".format(
                name, "empty" if not value else "more than one line", os.uname().nodename
            ),
            "correct its source under `secrets`",
        )
    return value


def _reason(fault: BaseException) -> str:
    """Why a request failed, without the addresses that some errors quote."""
    why = getattr(fault, "reason", None) or fault
    if isinstance(why, OSError) and why.strerror:
        return why.strerror
    text = str(why) or type(fault).__name__
    return re.sub(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+", lambda match: shown(match.group()), text)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web servers only; another server gets no credentials, and TLS is not left."""

    max_redirections = _MAX_REDIRECTS

    def __init__(self, secret: Dict[str, str]) -> None:
        self._secret = {name.capitalize() for name in secret}

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> "Optional[urllib.request.Request]":
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if new.scheme not in ("http", "https") or (old.scheme == "https" and new.scheme != "https"):
            why = "{} from {} to {}".format(_ELSEWHERE, old.scheme, new.scheme or "nowhere")
            raise urllib.error.HTTPError(shown(req.full_url), code, why, headers, fp)
        made = super().redirect_request(req, fp, code=code, msg=msg, headers=headers, newurl=newurl)
        if made is not None:
            made.method = req.get_method()  # HEAD stays HEAD
            if (old.scheme, old.netloc) != (new.scheme, new.netloc):
                for name in self._secret:
                    made.headers.pop(name, None)
        return made


def _connect(connection: http.client.HTTPConnection, connect: Callable[[], None]) -> None:
    """Connect within CONNECT_SECONDS; the request's own limit is that of each read."""
    limit, connection.timeout = connection.timeout, CONNECT_SECONDS
    connect()
    connection.timeout = limit
    connection.sock.settimeout(limit)


class _Plain(http.client.HTTPConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


class _Encrypted(http.client.HTTPSConnection):
    def connect(self) -> None:
        _connect(self, super().connect)


class _Http(urllib.request.HTTPHandler):
    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:  # noqa: ARG002 - as urllib calls it
        return super().do_open(_Plain, req, **http_conn_args)


class _Https(urllib.request.HTTPSHandler):
    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:  # noqa: ARG002 - as urllib calls it
        return super().do_open(_Encrypted, req, **http_conn_args)


def _open(url: str, secret: Dict[str, str], headers: Dict[str, str], method: str) -> Any:
    opener = urllib.request.build_opener(_Http(), _Https(), _Redirects(secret))
    request = urllib.request.Request(url, headers=dict(headers, **secret), method=method)  # noqa: S310 - the scheme is known
    return opener.open(request, timeout=READ_SECONDS)
