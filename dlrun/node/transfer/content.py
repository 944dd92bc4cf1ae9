"""What a data set contains, proved: checksums of its publisher, and a digest of all files that a job can name.

The digest is the SHA-256 of the lines `HASH  PATH` of all regular files, sorted by path: what
`find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum` prints in the data set.
"""

import argparse
import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Tuple

from ..blocks.blocks import Blocks, file_ranges, is_chunk
from ..blocks.buffer import SLACK, BufferPool
from ..blocks.hashing import Hasher
from ..common import text
from ..common.errors import Damaged, SourceFault, Usage
from ..common.safety import DIRECTORY_FLAGS, closing
from ..source.manifest import FILE, HARD, LINK, Manifest, sha256
from ..store import warm
from ..store.area import Area

if TYPE_CHECKING:
    from ..store.layout import Layout

DIGEST = r"sha256:[0-9a-f]{64}\Z"
MAX_SIZE = 1 << 30  # bytes of a file of checksums
_ALGORITHMS = {
    32: "md5",
    40: "sha1",
    56: "sha224",
    64: "sha256",
    96: "sha384",
    128: "sha512",
}  # by hexadecimal digits
_LINE = re.compile(
    rb"(\\?)(?:([0-9A-Fa-f]{32,128})(?: [ *]|\t)(.+)|(?:MD5|SHA[0-9]{1,3}) ?\((.+)\) ?= ?([0-9A-Fa-f]{32,128}))\Z",
    re.DOTALL,
)
_ESCAPES = {b"n": b"\n", b"r": b"\r"}


class Demands(NamedTuple):
    """What a user asks of the content: checksums (`sha256:…` of the only file, or a file of checksums) and a digest.

    version: the digest that the set must have, `compute` to report it, or empty.
    """

    checksums: str = ""
    version: str = ""

    def __bool__(self) -> bool:
        return bool(self.checksums or self.version)

    def fingerprint(self) -> str:
        """A value that changes with the given checksums."""
        content = b""
        if self.checksums.startswith("/"):
            with contextlib.suppress(OSError), open(self.checksums, "rb") as file:
                content = file.read(MAX_SIZE)
        return sha256(self.checksums.encode("utf-8", "surrogateescape") + b"\n" + content).hexdigest()


def demands(checksums: str, version: str) -> Demands:
    """The user's demands; raises Usage for a digest of another form."""
    if version not in ("", "compute") and not re.match(DIGEST, version):
        raise Usage(
            "--version is `{}`".format(version), "it is `compute`, or `sha256:` and 64 hexadecimal digits"
        )
    if checksums.startswith("sha256:") and not re.match(DIGEST, checksums):
        raise Usage("--checksums is `{}`".format(checksums), "`sha256:` is followed by 64 hexadecimal digits")
    return Demands(checksums, version)


def parse_checksums(content: bytes, name: str) -> "Dict[bytes, Tuple[str, str]]":
    """Path -> (algorithm, hexadecimal hash) of a file as sha256sum, md5sum or BSD's `sha256` write it; SourceFault for others."""
    checksums: "Dict[bytes, Tuple[str, str]]" = {}
    for number, line in enumerate(content.replace(b"\r\n", b"\n").split(b"\n"), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        match = _LINE.match(line)
        if match is None or len(match.group(2) or match.group(5)) not in _ALGORITHMS:
            raise SourceFault(
                "line {} of the checksums in `{}` is not a hash and a path".format(number, name),
                "expected lines as `sha256sum` writes them",
            )
        escaped, path, digest = (
            match.group(1),
            match.group(3) or match.group(4),
            match.group(2) or match.group(5),
        )
        if escaped:  # GNU coreutils: a backslash, a line feed or a carriage return in the name
            path = re.sub(rb"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), path)
        while path.startswith(b"./"):
            path = path[2:]
        value = (_ALGORITHMS[len(digest)], digest.decode("ascii").lower())
        if checksums.setdefault(path, value)[1] != value[1] and checksums[path][0] == value[0]:
            raise SourceFault(
                "the checksums in `{}` have two hashes of `{}`".format(name, text.name(path)),
                "correct line {}".format(number),
            )
    if not checksums:
        raise SourceFault("the checksums in `{}` are empty".format(name))
    return checksums


class Proof:
    """The proof of a set's content on this node: `digest`, if asked for, and lines for the report."""

    def __init__(self, arguments: argparse.Namespace, hasher: Hasher) -> None:
        # That of an archive was compared before it was unpacked.
        checksums = (
            "" if arguments.unpack and arguments.checksums.startswith("sha256:") else arguments.checksums
        )
        demands(arguments.checksums, arguments.version)
        self._asked = demands(checksums, arguments.version)
        self._partial = arguments.strategy in ("shard", "part") or bool(
            arguments.include or arguments.exclude
        )
        self._hasher = hasher
        self.digest = ""
        self.notes: List[str] = []

    def of(self, layout: "Layout", manifest: Manifest, blocks: Blocks) -> None:
        """Compare a copy with the user's demands, and record the proof in its manifest; raises Damaged or SourceFault."""
        if not self._asked:
            return
        content = _Content(layout, manifest, blocks, self._hasher)
        self.digest, self.notes = content.prove(self._asked, self._partial)
        check_version(self.digest, self._asked.version)
        manifest.info["proved"] = {"checksums": self._asked.fingerprint(), "digest": self.digest}

    def of_published(self, area: Area, name: bytes, layout_name: str) -> None:
        """The same for the published copy, which is known not to have changed since it was published."""
        manifest = warm.load(area, name) if self._asked else None
        if manifest is None:
            return
        proved = manifest.info.get("proved") or {}
        if proved.get("checksums") == self._asked.fingerprint() and (
            proved.get("digest") or not self._asked.version
        ):
            self.digest = str(proved.get("digest") or "")
            check_version(self.digest, self._asked.version)
            return
        blocks = Blocks(manifest)
        from ..store.layout import layout_of  # only here: mostly nothing is asked of the content

        with closing(os.open(warm.tree_path(area, name), DIRECTORY_FLAGS)) as tree:
            self.of(layout_of(layout_name, tree, manifest, blocks, name), manifest, blocks)


class _Content:
    """The content of one copy, read and hashed once."""

    def __init__(self, layout: "Layout", manifest: Manifest, blocks: Blocks, hasher: Hasher) -> None:
        self._layout, self._manifest, self._blocks, self._hasher = layout, manifest, blocks, hasher

    def prove(self, asked: Demands, partial: bool) -> "Tuple[str, List[str]]":
        """(the digest, if asked for, else empty; lines for the report); raises Damaged for any difference.

        `partial`: this node has only some of the files, so that checksums of others are not compared.
        """
        sums, notes = self._checksums(asked.checksums), []  # type: Dict[bytes, Tuple[str, str]], List[str]
        paths = {
            entry: self._manifest.path(entry)
            for entry, kind in enumerate(self._manifest.kinds)
            if kind in (FILE, HARD)
        }
        algorithms = {entry: {sums[path][0]} if path in sums else set() for entry, path in paths.items()}
        if asked.version:
            if LINK in self._manifest.kinds and self._manifest.info.get("part"):
                raise Damaged(
                    "the data set is here only in part, and a digest is of all its files",
                    "use `strategy: copy`, or leave out `version`",
                )
            for wanted in algorithms.values():
                wanted.add("sha256")
        hashes = self._hashes(algorithms)
        if sums:
            notes.append(_compare(sums, paths, hashes, partial))
        if not asked.version:
            return "", notes
        digest = _set_digest(paths, hashes)
        return digest, [*notes, "its digest is " + digest]

    def _checksums(self, source: str) -> "Dict[bytes, Tuple[str, str]]":
        if not source:
            return {}
        if source.startswith("sha256:"):
            files = [entry for entry, kind in enumerate(self._manifest.kinds) if kind == FILE]
            if len(files) != 1:
                raise SourceFault(
                    "one checksum is given for {}".format(text.count(len(files), "file")),
                    "name a file with the checksums of all of them (`sha256sum`)",
                )
            return {self._manifest.path(files[0]): ("sha256", source.partition(":")[2])}
        try:
            if source.startswith("/"):
                with open(source, "rb") as file:
                    content = file.read(MAX_SIZE)
            else:
                content = self._own_file(source.encode("utf-8", "surrogateescape"))
        except OSError as fault:
            raise SourceFault(
                "the checksums in `{}` cannot be read: {}".format(source, fault.strerror),
                "a path that is not absolute is one in the data set",
            ) from None
        return parse_checksums(content, source)

    def _own_file(self, path: bytes) -> bytes:
        """The content of a file of the set, from whatever layout it has."""
        manifest = self._manifest
        entry = next(
            (e for e, k in enumerate(manifest.kinds) if k == FILE and manifest.path(e) == path), None
        )
        if entry is None:
            raise FileNotFoundError(2, "the data set has no such file")
        return b"".join(data for number, data in self._pieces({entry}) if number == entry)

    def _pieces(self, wanted: Any) -> "Iterator[Tuple[int, memoryview]]":
        """(entry, data) of the wanted files, in order; a large file in several pieces."""
        reader = self._layout.reader(self._hasher)
        view = BufferPool(1).acquire()
        try:
            for block in self._blocks:
                entries = range(block.first, block.first + block.file_count)
                if not any(entry in wanted for entry in entries):
                    continue
                reader.read(block, view[: block.length + SLACK])
                if is_chunk(block, self._manifest):
                    yield block.first, view[: block.length]
                else:
                    for entry, start, end in file_ranges(block, self._manifest):
                        if entry in wanted:
                            yield entry, view[start:end]
        finally:
            reader.close()

    def _hashes(self, algorithms: "Dict[int, Any]") -> "Dict[int, Dict[str, str]]":
        """Entry -> algorithm -> hash. A hard link has the hashes of the file with its data."""
        import hashlib  # only here, as in `sha256`

        firsts = dict(self._manifest.hard_links())
        needed = {}  # type: Dict[int, Any]
        for entry, wanted in algorithms.items():
            needed.setdefault(firsts.get(entry, entry), set()).update(wanted)
        hashing = {e: {name: hashlib.new(name) for name in wanted} for e, wanted in needed.items() if wanted}
        for entry, data in self._pieces(hashing):
            for hasher in hashing[entry].values():
                hasher.update(data)
        done = {
            entry: {name: hasher.hexdigest() for name, hasher in by.items()} for entry, by in hashing.items()
        }
        return {entry: done.get(firsts.get(entry, entry), {}) for entry in algorithms}


def _compare(
    sums: "Dict[bytes, Tuple[str, str]]",
    paths: "Dict[int, bytes]",
    hashes: "Dict[int, Dict[str, str]]",
    partial: bool,
) -> str:
    wrong = [
        path
        for entry, path in paths.items()
        if path in sums and hashes[entry][sums[path][0]] != sums[path][1]
    ]
    if wrong:
        raise Damaged(
            "{} {} from the given checksum: {}".format(
                text.count(len(wrong), "file"), "differs" if len(wrong) == 1 else "differ", text.names(wrong)
            ),
            "the source is damaged or of another version, or the checksums are",
        )
    known = set(paths.values())
    missing = [path for path in sums if path not in known]
    if len(missing) == len(sums) or (missing and not partial):
        raise Damaged(
            "{} with a checksum {} not in the data set: {}".format(
                text.count(len(missing), "file"), "is" if len(missing) == 1 else "are", text.names(missing)
            ),
            "the source is incomplete, or its paths begin elsewhere than those of the checksums",
        )
    others = len(known) - (len(sums) - len(missing))
    return "{} as in the checksums{}".format(
        text.count(len(sums) - len(missing), "file"),
        ", {} without a checksum".format(others) if others else "",
    )


def _set_digest(paths: "Dict[int, bytes]", hashes: "Dict[int, Dict[str, str]]") -> str:
    total = sha256()
    for path, entry in sorted((path, entry) for entry, path in paths.items()):
        special = b"\\" in path or b"\n" in path or b"\r" in path
        line = path
        if special:  # as sha256sum writes such names
            line = path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        head = (b"\\" if special else b"") + hashes[entry]["sha256"].encode("ascii")
        total.update(head + b"  " + line + b"\n")
    return "sha256:" + total.hexdigest()


def check_version(digest: str, wanted: str) -> None:
    """Raise SourceFault if a set has another digest than the job asks for."""
    if wanted not in ("", "compute", digest):
        raise SourceFault(
            "the data set is {}, not {}".format(digest, wanted),
            "the source has changed: take the version that you mean, or correct `version`",
        )
