"""What the headers of a web server's answer say about a file; values of another form count as absent."""

import binascii
import email.utils
import re
from typing import Any, Dict, Generator, List, NamedTuple, Optional, Tuple

UNKNOWN = -1  # size of a file whose server sends none
Pieces = Generator[Tuple[int, bytes], None, None]
"""Data of a file, each with its offset."""


class WebFile(NamedTuple):
    """What a server says about a file: ETag, time of the last change, size in bytes or UNKNOWN."""

    etag: str
    modified: str
    size: int


def described(answer: Any, size: int) -> WebFile:
    """What an answer says about a file of `size` bytes."""
    return WebFile(answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or "", size)


def differs(file: WebFile, other: WebFile) -> bool:
    """Whether two answers describe different files, by ETag, else by time, and by size, where both have it."""
    if file.size != other.size and UNKNOWN not in (file.size, other.size):
        return True
    for a, b in ((file.etag, other.etag), (file.modified, other.modified)):
        if a and b:
            # Whether a tag is weak is about the comparison, not about the file.
            return a[a.startswith("W/") * 2 :] != b[b.startswith("W/") * 2 :]
    return False


def content_range(answer: Any) -> Optional[Tuple[int, int, int]]:
    """(first byte, last byte, size of the file or UNKNOWN) of a partial answer; None for anything else."""
    text = answer.headers.get("Content-Range") or ""
    match = re.fullmatch(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", text.strip(), re.IGNORECASE)
    if match is None:
        return None
    first, last = int(match.group(1)), int(match.group(2))
    size = UNKNOWN if match.group(3) == "*" else int(match.group(3))
    return (first, last, size) if first <= last and (size == UNKNOWN or last < size) else None


def validator(file: WebFile) -> str:
    """What proves that two answers are of equal bytes: a strong ETag (RFC 9110, If-Range), else the time; or empty."""
    return file.etag if file.etag and not file.etag.startswith("W/") else file.modified


def hashes_of(answer: Any) -> Dict[str, bytes]:
    """Algorithm -> hash of the whole file, from the headers of web servers (RFC 9530, RFC 3230), S3 and Google."""
    headers = answer.headers
    encoded: List[Tuple[str, str]] = []
    for field in ("Repr-Digest", "Digest", "x-goog-hash"):
        for word in ",".join(headers.get_all(field) or []).split(","):
            name, _, value = word.strip().partition("=")
            encoded.append((name.lower().replace("sha-", "sha"), value.strip(":")))
    # S3 writes `HASH-PARTS` for an object of several parts: a hash of hashes.
    encoded += [(name, headers.get("x-amz-checksum-" + name) or "") for name in ("sha256", "sha1")]
    if answer.status == 200:
        encoded.append(("md5", headers.get("Content-MD5") or ""))
    hashes = {}
    for name, value in encoded:
        size = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}.get(name, 0)
        if not re.fullmatch("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}={1,2})?", value):
            continue
        decoded = binascii.a2b_base64(value)
        if size and len(decoded) == size:
            hashes[name] = decoded
    etag = re.fullmatch('"([0-9a-f]{32})"', headers.get("ETag") or "")
    encrypted = "aws:kms" in (headers.get("x-amz-server-side-encryption") or "")
    customer = headers.get("x-amz-server-side-encryption-customer-algorithm")
    # The MD5 of S3's objects of one part, unless they are encrypted with a key of KMS or the customer's (S3, "Object").
    if etag and headers.get("x-amz-request-id") and not encrypted and not customer:
        hashes["md5"] = binascii.a2b_hex(etag.group(1))
    return hashes


def byte_count(text: str) -> int:
    """A number of bytes as a server writes it; UNKNOWN for anything else."""
    # Not `isdigit`: that is also true of superscripts.
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else UNKNOWN


def modification_time(text: str) -> Optional[float]:
    """A file's time in seconds since 1970; None for an invalid or impossible one."""
    try:
        time = email.utils.parsedate_tz(text)
        seconds = email.utils.mktime_tz(time) if time else None
    except (ArithmeticError, ValueError, TypeError, IndexError):
        return None
    return seconds if seconds is not None and 0 <= seconds < 1 << 33 else None
