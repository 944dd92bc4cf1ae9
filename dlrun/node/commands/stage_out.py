"""`stage-out`: copy results from node-local storage to the shared file system, with the guarantees of `stage`.

A new destination appears atomically, complete. In an existing one (`--update`) each new or changed file appears
atomically; other files are kept. A file that changes during the copy is reported and left for the next run.
"""

import argparse
import os
import re
import sys
import time
from array import array
from typing import List, Optional, Set

from ..blocks import hashing, journal
from ..blocks.blocks import Blocks
from ..blocks.progress_board import ProgressBoard
from ..common import text
from ..common.errors import NodeError, SourceFault
from ..common.progress import Progress, Totals
from ..common.safety import DIRECTORY_FLAGS
from ..common.system import worker_count
from ..source import survey
from ..source.manifest import FILE, Manifest
from ..source.selection import Options, parse
from ..source.subset import subset
from ..store import tree
from ..store.build import Build
from ..store.destination import ResultsDirectory
from ..store.finish import finish
from ..store.merge import merge, unchanged_files
from ..transfer import local, read_blocks
from ..transfer.task import Task
from .options import Parser, duration, effort_options, file_options, report_options


def arguments(argv: List[str]) -> argparse.Namespace:
    """Parse the arguments of `stage-out`; raises Usage if they are invalid."""
    parser = Parser(
        "stage-out", "Copy results from node-local storage to a directory on the shared file system."
    )
    parser.add_argument(
        "--source", required=True, metavar="PATH", help="directory, file or glob on this node"
    )
    parser.add_argument("--to", required=True, metavar="DIR", help="destination directory")
    file_options(parser)
    effort_options(parser)
    parser.add_argument("--update", action="store_true", help="DIR may exist: copy new and changed files")
    parser.add_argument(
        "--known",
        metavar="LIST",
        help="DIR has the files that LIST (of sha256sum) names: copy those that have changed",
    )
    parser.add_argument(
        "--known-time",
        type=int,
        default=0,
        metavar="SECONDS",
        help="their time unless they have changed, since 1970",
    )
    parser.add_argument(
        "--sync", choices=("none", "set", "file"), default="file", help="when to flush to disk (file)"
    )
    parser.add_argument(
        "--deadline", type=duration, metavar="TIME", help="stop after TIME; complete files are kept"
    )
    report_options(parser)
    return parser.parse_args(argv)


class StageOut:
    """One `stage-out` command."""

    def __init__(self, parsed: argparse.Namespace) -> None:
        self.given = parsed
        self.source = parse(parsed.source, parsed.include, parsed.exclude)
        self.walk = Options(False, parsed.skip_special, not parsed.no_xattrs)
        self.hasher = hashing.hasher(parsed.hash)
        self.worker_count = worker_count(parsed.worker_count)
        self.end = time.monotonic() + parsed.deadline if parsed.deadline is not None else None
        self.target = ResultsDirectory(parsed.to)
        self.known = _listed(parsed.known) if parsed.known is not None else set()
        self.progress = Progress(os.fsdecode(self.target.name), parsed.json, parsed.quiet, parsed.interval)
        self.notes: List[str] = []
        self.copied = 0

    def run(self) -> None:
        """Copy everything; raises SourceFault for files that changed meanwhile, NodeError for a passed deadline."""
        if self.target.exists() and not self.given.update:
            raise NodeError(
                "`{}` already exists".format(self.given.to), "--update copies new and changed files into it"
            )
        if self.given.low_priority:
            read_blocks.lower_priority()
        fault = self._copy_round()
        if isinstance(fault, SourceFault) and self.given.update:
            # File by file, so that a file that is still being written does not keep out the others of its block.
            fault = self._copy_round(singly=True)
        if fault is not None:
            raise fault
        self._done()

    def _copy_round(self, singly: bool = False) -> Optional[NodeError]:
        """Copy the files that the destination lacks; returns the error of files that could not be copied, or None.

        singly: each file in a block of its own.
        """
        manifest, findings = survey.survey(self.source, self.walk)
        self.notes = survey.lost_properties(findings, self.walk)
        manifest = self._without_known(manifest)
        root = self._open_existing()
        if root is not None:
            there = unchanged_files(root, manifest)
            manifest = subset(manifest, lambda entry: entry not in there)
        if singly:
            manifest.cuts = array("I", range(len(manifest.names)))
        blocks = Blocks(manifest)
        build = Build(self.target, self.target.name, manifest, blocks, self.hasher)
        build.require_space(self.target.path)
        build.begin()
        fault = self._copy(build)
        if fault is None:
            build.take_hashes()
            self.notes += build.complete()
        elif not self.given.update:
            return fault
        else:
            manifest = _finished_files(build)
        # Flushed before names appear in the destination: after a crash they must not refer to empty files.
        if self.given.sync != "none":
            self.target.sync()
        if root is None and not self.given.update:
            build.publish(sync=False)
        else:
            kept = merge(build.tree, root if root is not None else self._create_target(manifest), manifest)
            if kept:
                message = "newer files are kept: {}; the copied ones are beside them, with `.older-1` in their names"
                self.notes.append(message.format(text.names(kept)))
            build.abandon()
        return fault

    def _without_known(self, manifest: Manifest) -> Manifest:
        """The manifest without known files that nothing has written to; one that has got hard links is not among them."""
        linked = set(manifest.hard)

        def wanted(entry: int) -> bool:
            dated = manifest.kinds[entry] == FILE and manifest.mtimes[entry] == self.given.known_time * 10**9
            return not dated or entry in linked or manifest.path(entry) not in self.known

        return subset(manifest, wanted) if self.known else manifest

    def _open_existing(self) -> Optional[int]:
        if not self.target.exists():
            return None
        try:
            return os.open(self.target.name, DIRECTORY_FLAGS, dir_fd=self.target.directory)
        except OSError as fault:
            raise NodeError(
                "`{}` is not a writable directory: {}".format(self.given.to, fault.strerror)
            ) from None

    def _create_target(self, manifest: Manifest) -> int:
        os.mkdir(self.target.name, manifest.dir_modes[0] | 0o700, dir_fd=self.target.directory)
        return os.open(self.target.name, DIRECTORY_FLAGS, dir_fd=self.target.directory)

    def _copy(self, build: Build) -> Optional[NodeError]:
        board = ProgressBoard(len(build.blocks), self.worker_count, build.kept)
        missing, files = build.missing, build.manifest.files()
        source = os.open(self.source.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        task = Task(
            build.manifest,
            build.blocks,
            identity=build.identity,
            hasher=self.hasher,
            board=board,
            source=source,
            layout=build.layout,
            directory=build.directory,
            sync=self.given.sync == "file",
            rate=float(self.given.rate),
        )

        def totals() -> Totals:
            return Totals(missing, files, board.total("bytes"), board.total("files"))

        try:
            local.copy(task, self.worker_count, lambda: self.progress.update(totals), self.end)
        except (SourceFault, local.DeadlineExceeded) as fault:
            return fault
        finally:
            self.copied += board.total("bytes")
        return None

    def _done(self) -> None:
        self.target.close()
        for note in self.notes:
            self.progress.log(note)
        seconds = self.progress.seconds()
        self.progress.event(
            "done",
            path=os.fsdecode(self.target.path),
            copied=self.copied,
            seconds=round(seconds, 3),
            notes=self.notes,
        )
        self.progress.log("{} in {}".format(text.size(self.copied), text.seconds(seconds)))
        if not self.given.json:
            sys.stdout.write(os.fsdecode(self.target.path) + "\n")


def _listed(path: str) -> Set[bytes]:
    """The names in a list of sha256sum(1), which escapes line feeds and backslashes."""
    names = set()
    with open(path, "rb") as file:
        for line in file:
            name = line.rstrip(b"\n").partition(b"  ")[2]
            if line.startswith(b"\\"):
                name = re.sub(
                    rb"\\(.)", lambda match: b"\n" if match.group(1) == b"n" else match.group(1), name
                )
            names.add(name)
    return names


def _finished_files(build: Build) -> Manifest:
    """The manifest of the complete files of a partial copy; incomplete files are removed from the tree."""
    finished = journal.read(build.directory, build.identity)
    pieces: "dict[int, int]" = {}
    for number, block in enumerate(build.blocks):
        for entry in range(block.first, block.first + block.file_count):
            pieces[entry] = pieces.get(entry, 0) + (number not in finished)
    whole = subset(build.manifest, lambda entry: pieces.get(entry, 0) == 0)
    tree.remove_unwanted(build.tree, whole, {e for e, k in enumerate(whole.kinds) if k == FILE})
    finish(build.tree, whole, Blocks(whole).large)
    return whole


def main(argv: List[str]) -> None:
    """Run `stage-out`."""
    parsed = arguments(argv)
    os.umask(0)
    StageOut(parsed).run()
