"""`list`, `evict`, `clean` and `verify`: manage the data sets of a node by hand or from a script."""

import contextlib
import json
import os
import sys
import time
from typing import Any, Dict, List

from ..blocks import hashing
from ..blocks.blocks import Blocks
from ..common import text
from ..common.errors import NodeError, Usage
from ..common.safety import DIRECTORY_FLAGS
from ..store import eviction, space, uses, warm
from ..store.area import Area, missing, set_name
from ..store.layout import layout_of
from ..store.read_back import verify_set as read_back
from .options import Parser, size, store_options

_SHOWN = 20  # files of others in one message


def list_sets(argv: List[str]) -> None:
    """`list`: print the data sets of a staging directory, the least recently used first."""
    parser = Parser("list", "List the data sets of a node, the least recently used first.")
    store_options(parser)
    _json_option(parser)
    arguments = parser.parse_args(argv)
    area = Area(arguments.to, make=False)
    entries = eviction.entries(area)
    if arguments.json:
        sets = [
            dict(entry._asdict(), name=entry.name.decode("ascii"), path=area.data_path(entry.name))
            for entry in entries
        ]
        _print_json({"free": space.free(area.directory), "sets": sets})
        return
    now = time.time()
    for entry in entries:
        used = (
            "used by " + ", ".join(entry.users)
            if entry.users
            else "unused for " + text.seconds(max(0.0, now - entry.used))
        )
        line = (
            entry.name.decode("ascii"),
            text.size(entry.bytes),
            text.count(entry.files, "file"),
            used,
            entry.source,
        )
        sys.stdout.write("{:<24} {:>9} {:>16}  {:<24} {}\n".format(*line))


def evict(argv: List[str]) -> None:
    """`evict`: remove one set, or the least recently used ones until a limit is met; NodeError if it cannot."""
    parser = Parser("evict", "Remove data sets that no running job uses, the least recently used first.")
    store_options(parser)
    parser.add_argument("--name", help="only this set")
    parser.add_argument(
        "--quota", type=size, metavar="SIZE", help="until all sets together take at most SIZE"
    )
    parser.add_argument("--free", type=size, metavar="SIZE", help="until SIZE is free on the disk")
    _json_option(parser)
    arguments = parser.parse_args(argv)
    if [arguments.name, arguments.quota, arguments.free].count(None) != 2:
        raise Usage("give one of --name, --quota and --free")
    area = Area(arguments.to, make=False)
    if arguments.name is not None:
        if area.published(set_name(arguments.name)) is None:
            raise missing(arguments.name, arguments.to)
        if not eviction.remove(area, set_name(arguments.name)):
            _refuse_others(area, set_name(arguments.name))
            if set_name(arguments.name) not in uses.recorded(area):
                raise NodeError(
                    "dlrun has no record of having staged `{}` in `{}`: it is kept".format(
                        arguments.name, arguments.to
                    ),
                    "if it is a copy that you made, remove it yourself",
                )
            raise NodeError(
                "`{}` is in use or being copied".format(arguments.name),
                "`dlrun stage-data --list` shows which job",
            )
        gone = [set_name(arguments.name)]
    elif arguments.quota is not None:
        gone = [e.name for e in eviction.make_room(area, arguments.quota, 0, 0, b"")]
    else:
        gone = [e.name for e in eviction.evict(area, lambda: space.free(area.directory) >= arguments.free)]
        if space.free(area.directory) < arguments.free:
            # The removed sets are reported even when they did not free enough.
            _print_removed(gone, arguments.json)
            raise NodeError(
                "{} are free, not {}".format(text.size(space.free(area.directory)), text.size(arguments.free))
            )
    _print_removed(gone, arguments.json)


def clean(argv: List[str]) -> None:
    """`clean`: remove the remains of ended jobs, or with --all every set that is not in use."""
    parser = Parser("clean", "Remove the remains of ended jobs.")
    store_options(parser)
    parser.add_argument(
        "--job", metavar="ID", help="the job has ended: release its sets, remove those kept for it only"
    )
    parser.add_argument("--all", action="store_true", help="remove every set that no running job uses")
    _json_option(parser)
    arguments = parser.parse_args(argv)
    # Every job ends with `clean`, even on nodes where nothing was staged.
    if not os.path.isdir(arguments.to):
        return
    area = Area(arguments.to, make=False)
    gone = eviction.end_job(area, arguments.job) if arguments.job else []
    _print_removed(
        gone + (eviction.remove_unused(area) if arguments.all else eviction.clean_up(area)), arguments.json
    )
    for entry in eviction.entries(area) if arguments.all else ():
        if area.others(entry.name):
            sys.stderr.write("kept {}: {}\n".format(entry.name.decode("ascii"), _described(area, entry.name)))


def verify(argv: List[str]) -> None:
    """`verify`: read a published set back; raises Damaged if it differs from its manifest."""
    parser = Parser("verify", "Read a data set back and compare it with the hashes of its manifest.")
    store_options(parser)
    parser.add_argument("--name", required=True, help="of the data set")
    _json_option(parser)
    arguments = parser.parse_args(argv)
    area, name = Area(arguments.to, make=False), set_name(arguments.name)
    manifest = warm.load(area, name)
    if manifest is None:
        raise missing(arguments.name, arguments.to)
    tree, blocks = os.open(warm.tree_path(area, name), DIRECTORY_FLAGS), Blocks(manifest)
    shape = layout_of(manifest.info["strategy"], tree, manifest, blocks, name)
    read_back(shape, manifest, blocks, hashing.hasher(manifest.info["hash"]), warm.locks(manifest))
    if arguments.json:
        _print_json({"verified": arguments.name, "files": manifest.files(), "bytes": manifest.size()})
        return
    sys.stdout.write(
        "{}: {}, {}, as in its manifest\n".format(
            arguments.name, text.count(manifest.files(), "file"), text.size(manifest.size())
        )
    )


def _refuse_others(area: Area, name: bytes) -> None:
    """Raise NodeError if a set has files that dlrun did not write."""
    if area.others(name):
        raise NodeError(
            "`{}` is kept: {}".format(name.decode("ascii"), _described(area, name)),
            "move these files to another directory, or remove them, and repeat the command",
        )


def _described(area: Area, name: bytes) -> str:
    """The files of a set that dlrun did not write, by name and size."""
    descriptions = []
    for path in area.others(name):
        with contextlib.suppress(OSError):
            status = os.lstat(b"/".join((area.path, name, path)))
            descriptions.append("{} ({})".format(text.name(path), text.size(status.st_size)))
    return (
        "dlrun did not write "
        + ", ".join(descriptions[:_SHOWN])
        + (", …" if len(descriptions) > _SHOWN else "")
    )


def _json_option(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _print_json(record: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(dict(record, version=1), sort_keys=True) + "\n")


def _print_removed(names: List[bytes], as_json: bool) -> None:
    if as_json:
        _print_json({"removed": [name.decode("ascii") for name in names]})
        return
    for name in names:
        sys.stdout.write("removed {}\n".format(name.decode("ascii")))
