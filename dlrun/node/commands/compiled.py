"""`compiled-find`, `compiled-seed`, `compiled-save`: entries of compilers' caches, from the user's store to nodes, and back.

A job that cannot have them compiles, as without a store: every failure is one line, and the exit status of `compiled-seed`.
"""

import contextlib
import json
import os
import sys
import time
from argparse import Namespace
from typing import List

from ..common import cache_lines, text
from ..common.errors import NodeError
from ..common.machine import machine
from ..store import eviction
from ..store.area import Area, set_name
from . import stage
from .compiled_archive import DamagedArchive, Entries, latest
from .compiled_entries import RUNS, complete_entries, place_of, remove_unused
from .compiled_store import ENTRIES, Store
from .compiled_unpack import Unpacking
from .options import Parser, duration, size

_LIMIT = 2 << 30  # bytes of an archive
_LOCK_SECONDS = 30.0
_OTHER_KIND = 3  # exit code of a node for which the archive was not made (templates/lib/compiled.sh)
_UNUSED = 30 * 86400.0  # seconds after which what a run had for itself goes


def _log(line: str) -> None:
    sys.stdout.write(cache_lines.LINE.format(line) + "\n")


def _reason(fault: Exception) -> str:
    if isinstance(fault, NodeError):
        return fault.message
    return os.strerror(fault.errno) if isinstance(fault, OSError) and fault.errno else str(fault)


# --- Before the ranks ---------------------------------------------------------------------------------------


def find(argv: List[str]) -> int:
    """`compiled-find`: write machine, digest and path of the newest archive for this machine; nothing without one."""
    parser = Parser(
        "compiled-find", "Find what compilers have compiled for this machine in the user's store."
    )
    _store_options(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="file for machine, digest and path")
    arguments = parser.parse_args(argv)
    name, _ = machine()
    try:
        store = Store(arguments.store, arguments.key)
    except FileNotFoundError:
        return 0
    except (NodeError, OSError) as fault:
        _log(cache_lines.STORE_NOT_USED.format(_reason(fault)))
        return 0
    try:
        version = store.newest(name)
        if version is not None:
            store.use(version)
            with open(arguments.out, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write("{} {} {}\n".format(name, version.digest, version.path))
    except OSError as fault:
        _log(cache_lines.STORE_NOT_USED.format(_reason(fault)))
    finally:
        _log_notes(store)
        store.close()
    return 0


def seed(argv: List[str]) -> int:
    """`compiled-seed`: stage the archive, by `stage` with the further arguments, and add its files to the caches' directory."""
    parser = Parser(
        "compiled-seed", "Stage an archive of compiled entries, and add them to the caches of this node."
    )
    parser.add_argument("--into", required=True, metavar="DIR", help="directory of the caches on this node")
    parser.add_argument(
        "--run", required=True, metavar="ID", help="of the run, for entries that all nodes must have"
    )
    parser.add_argument("--machine", required=True, help="for which the entries were compiled")
    parser.add_argument("--archive", required=True, metavar="FILE", help="in the user's store")
    parser.add_argument("--digest", required=True, help="of the archive")
    parser.add_argument("--name", required=True, help="of the data set")
    parser.add_argument("--to", required=True, metavar="DIR", help="staging directory")
    arguments, rest = parser.parse_known_args(argv)
    if "--hosts" not in rest and _has_all(arguments.archive, arguments.into, arguments.run):
        _log("this node has what is in the user's store")
        return 0
    # One file, which each node unpacks into its place: no tree of many small files is made twice, and removed again.
    words = ["--name", arguments.name, "--to", arguments.to, "--source", arguments.archive, "--keep", "cache"]
    words += ["--sync", "none", "--join-timeout", "60s"]
    began = time.monotonic()
    umask = os.umask(0o077)
    try:
        if machine()[0] != arguments.machine:
            stage.main([*words, *rest])  # other nodes get it from this one
            _log(cache_lines.BY_ITSELF.format("it is of another kind than the first"))
            return _OTHER_KIND
        remove_unused(os.path.join(arguments.into, RUNS), arguments.run, _UNUSED)
        remove_unused(*os.path.split(arguments.into), _UNUSED)
        with contextlib.closing(Unpacking(arguments.into, arguments.run, arguments.digest)) as unpacking:
            stage.main([*words, *rest], unpacking.watch)
            count, room = unpacking.finish(_staged(arguments))
    except (NodeError, OSError) as fault:
        _log(cache_lines.BY_ITSELF.format(_reason(fault)))
        return 1
    finally:
        os.umask(umask)
        with contextlib.suppress(NodeError, OSError):
            eviction.remove(Area(arguments.to, make=False), set_name(arguments.name))
    took = text.seconds(time.monotonic() - began)
    _log("{} in {} from the user's store in {}".format(text.size(room), text.count(count, "file"), took))
    return 0


def _staged(arguments: Namespace) -> str:
    """The archive on this node."""
    directory = Area(arguments.to, make=False).data_path(set_name(arguments.name))
    return os.path.join(directory, os.path.basename(arguments.archive))


def check(argv: List[str]) -> int:
    """`compiled-check`: leave an archive with another digest aside."""
    parser = Parser(
        "compiled-check", "Compare an archive with its digest, and leave it aside if it is damaged."
    )
    _store_options(parser)
    arguments = parser.parse_args(argv)
    with contextlib.suppress(NodeError, OSError):
        store = Store(arguments.store, arguments.key)
        version = store.newest(machine()[0])
        if version is not None and store.is_damaged(version):
            store.set_aside(version.name)
        _log_notes(store)
        store.close()
    return 0


def _has_all(archive: str, into: str, run: str) -> bool:
    """Whether a node, which passes nothing on, has all entries of an archive: from an earlier job or point."""
    try:
        with open(os.path.join(os.path.dirname(archive), ENTRIES), "rb") as file:
            listed = json.loads(file.read().decode("ascii"))
        places = ((os.path.join(into, place_of(path, run)), size) for path, (size, _) in listed.items())
        return all(os.lstat(place).st_size == size for place, size in places)
    except (AttributeError, OSError, TypeError, ValueError):
        return False


# --- While they run, and at the end -------------------------------------------------------------------------


def save(argv: List[str]) -> int:
    """`compiled-save`: add the new entries of this node's caches to the user's store."""
    parser = Parser("compiled-save", "Add what compilers have compiled on this node to the user's store.")
    _store_options(parser)
    parser.add_argument(
        "--run", required=True, metavar="ID", help="of the run, for entries that all nodes must have"
    )
    parser.add_argument("--from", required=True, metavar="DIR", dest="root", help="directory of the caches")
    parser.add_argument("--settled", type=duration, default=0.0, metavar="TIME", help="only what is this old")
    parser.add_argument("--limit", type=size, default=_LIMIT, metavar="SIZE", help="of the archive (2GiB)")
    arguments = parser.parse_args(argv)
    try:
        entries = complete_entries(arguments.root, arguments.settled, arguments.run)
        if entries:
            _save(arguments, entries)
    except (NodeError, OSError) as fault:
        _log("what was compiled is not kept: {}".format(_reason(fault)))
        return 1
    return 0


def _save(arguments: Namespace, entries: Entries) -> None:
    limit = arguments.limit

    def place(path: str) -> str:
        return os.path.join(arguments.root, place_of(path, arguments.run))

    store = Store(arguments.store, arguments.key, make=True)
    try:
        if not store.lock(_LOCK_SECONDS):
            _log("what was compiled is not kept: another job is writing to {}".format(store.path))
            return
        kind = machine()
        old = store.newest(kind[0])
        known = store.entries(old) if old is not None else {}
        wanted = latest(dict(known, **entries), limit)
        new = [path for path in wanted if known.get(path) != wanted[path]]
        if new:
            try:
                store.add(kind, wanted, place, entries, old)
            except DamagedArchive:
                if old is not None:
                    store.set_aside(old.name)
                store.add(kind, latest(entries, limit), place, entries, None)
            room = text.size(sum(wanted[path][0] for path in new))
            _log("{} in {} added to {}".format(room, text.count(len(new), "file"), store.path))
        _log_notes(store)
    finally:
        store.close()


def _store_options(parser: Parser) -> None:
    parser.add_argument("--store", required=True, metavar="DIR", help="the user's store")
    parser.add_argument("--key", required=True, help="of the environment")


def _log_notes(store: Store) -> None:
    for note in store.notes:
        _log(note)
