"""The keys of S3's objects as paths of files, and on the command lines of clients that fetch some of them."""

import re
import shlex
from typing import Iterable, List, Optional, Tuple

from ..common.errors import SourceFault
from .objects import Object

# Bytes of an object from which on it is fetched in parts: to sign its URL, a client starts once.
LARGE = 64 << 20
# A batch of smaller objects: so much that the start of a client is little beside it, and so little that a kill loses little.
BATCH = 4 << 30  # bytes
BATCH_OBJECTS = 50_000
# Bytes of keys on a command line: Linux allows 128 KiB for each argument, and 2 MiB for all.
MAX_ARGUMENTS = 60_000


def check(url: str, keys: List[str]) -> None:
    """Raise SourceFault for keys that cannot be paths of files: clients skip them, write elsewhere, or do not name them."""
    known = set(keys)
    for key in keys:
        parts, why = (key[:-1] if key.endswith("/") else key).split("/"), ""
        if ".." in parts or "." in parts:
            why = "has a part `{}`".format(".." if ".." in parts else ".")
        elif "" in parts and key:
            why = (
                "has two slashes side by side"
                if "//" in key.strip("/")
                else "begins or ends with several slashes"
            )
        else:
            above = next((k for k in ("/".join(parts[:n]) for n in range(1, len(parts))) if k in known), None)
            if above is not None:
                why = "lies below the object `{}`, and a file cannot be a directory, too".format(above)
        if why:
            raise SourceFault(
                "the object `{}` of `{}` cannot be a file: its key {}".format(key, url, why),
                "rename it, or stage prefixes without it",
            )


def large(client: str, objects: Iterable[Object]) -> List[Object]:
    """The objects of at least LARGE bytes, so many that a client's command line can leave them out."""
    room, chosen = MAX_ARGUMENTS, []
    for stored in objects:
        room -= 0 if client == "s5cmd" or stored.size < LARGE else 2 * len(stored.key) + 20
        if stored.size >= LARGE and room > 0:
            chosen.append(stored)
    return chosen


def batches(objects: List[Object]) -> List[List[Object]]:
    """All objects: first those of at least LARGE bytes, then the others in batches of at most BATCH bytes, if not one alone."""
    made, left = [[stored for stored in objects if stored.size >= LARGE], []], BATCH
    for stored in objects:
        if stored.size < LARGE:
            if stored.size > left or len(made[-1]) >= BATCH_OBJECTS:
                made, left = [*made, []], BATCH
            made[-1].append(stored)
            left -= stored.size
    return [batch for batch in made if batch]


def without(
    client: str, copy: List[str], place: str, to: str, keys: List[str], rest: List[str]
) -> Tuple[List[str], str]:
    """(arguments, standard input) of a client that copies all below `place` except for `keys`, which is the `rest`."""
    if client == "s5cmd":  # its patterns have no escapes
        return fetching(client, place, to, rest) or (copy, "")
    special, escaped = (r"([*?\[\]{}\\])", r"\\\1") if client == "rclone" else (r"([*?\[])", r"[\1]")
    anchor, words = "/" if client == "rclone" else "", copy[:]
    for key in keys:
        words += ["--exclude", _plain(anchor + re.sub(special, escaped, key))]
    return words, ""


def _plain(word: str) -> str:
    """A word that `str.format` leaves as it is."""
    return word.replace("{", "{{").replace("}", "}}")


def fetching(client: str, place: str, to: str, keys: List[str]) -> Optional[Tuple[List[str], str]]:
    """(arguments, standard input) of a client that fetches these keys below `place` to a directory; None if it cannot."""
    if client == "s5cmd":
        lines = [
            "cp --raw {} {}\n".format(
                shlex.quote("s3://{}/{}".format(place, key)), shlex.quote(to + "/" + key)
            )
            for key in keys
        ]
        return ["--log", "error", "run"], "".join(lines)
    if client == "aws" and sum(map(len, keys)) + 20 * len(keys) < MAX_ARGUMENTS:
        words = ["s3", "sync", "--only-show-errors", "s3://{place}", "{to}", "--exclude", "*"]
        for key in keys:
            words += ["--include", _plain(re.sub(r"([*?\[])", r"[\1]", key))]
        return words, ""
    return None
