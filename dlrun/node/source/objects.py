"""The objects of an S3 source as its clients list them.

An object is unchanged if its ETag, time and size are: every upload gives it another time, and other content another ETag.
"""

import hashlib
import json
import re
from typing import Dict, Iterable, List, NamedTuple

STATE = 16  # hexadecimal digits of an object's state in a manifest
_LINES = {
    "s5cmd": re.compile(r"(?P<time>\S+ \S+) +(?P<etag>\S+) +(?P<size>[0-9]{1,18}) +(?P<key>.+)"),
    # The time may be that of the file that was uploaded, which another upload can have as well.
    "rclone": re.compile(r" *(?P<size>[0-9]{1,18}) (?P<time>\S+ \S+) (?P<key>.+)"),
}


class Object(NamedTuple):
    """An object: its key below the prefix, its size in bytes, its time, its ETag (empty if the client does not list it)."""

    key: str
    size: int
    time: str
    etag: str

    @property
    def path(self) -> bytes:
        """The key as a path: a node may have a locale whose names are in ASCII alone."""
        return self.key.encode("utf-8", "surrogateescape")

    def state(self) -> str:
        """A value that is another one for every other upload of the object; empty if that is not certain."""
        words = "\n".join(("2", self.key, str(self.size), self.time, self.etag))
        return (
            hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:STATE] if self.etag else ""
        )


def parse(client: str, prefix: str, output: str) -> List[Object]:
    """The objects in a client's listing, sorted by key; an unknown line is an object without a key."""
    objects: List[Object] = []
    if client == "aws":
        for key, size, etag, time in json.loads(output or "null") or []:
            name = key[len(prefix) :] if key.startswith(prefix) else key
            objects.append(Object(name, int(size), str(time), str(etag).strip('"')))
        return sorted(objects)
    for line in output.splitlines():
        match = _LINES[client].match(line)
        if match is None:
            objects.append(Object("", 0, line, ""))
        else:
            words = match.groupdict()
            objects.append(Object(words["key"], int(words["size"]), words["time"], words.get("etag") or ""))
    return sorted(objects)


def states(objects: Iterable[Object]) -> Dict[bytes, str]:
    """Path -> state; empty if a state is not certain, or if a key is that of a directory."""
    by_path: Dict[bytes, str] = {}
    for stored in objects:
        state = stored.state()
        if not state or stored.key.endswith("/"):
            return {}
        by_path[stored.path] = state
    return by_path
