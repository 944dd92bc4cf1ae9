"""Trees of files: data sets, results and code of a spec, and the storage of a site profile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import ClassVar, Literal, TypeAlias
from urllib.parse import unquote

from dlrun.model.keys import AMOUNT, HEADER_NAME, PLAIN, VARIABLE_NAME, WORD, key, saved
from dlrun.model.record import record
from dlrun.model.text import Text, lazy_pattern
from dlrun.model.units import Bytes, Duration


@record(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Names of secrets with which a web server gives out a data set; their values reach only the program that fetches it."""

    url: str | None = key(
        "secret with the whole, presigned URL, of which `source` is the part before the `?`",
        default=None,
        pattern=VARIABLE_NAME,
    )
    headers: Mapping[str, str] = key(
        "HTTP header -> secret with its value, such as `{Authorization: DATA_TOKEN}`",
        factory=dict,
        names=HEADER_NAME,
        pattern=VARIABLE_NAME,
    )

    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets."""
        return (*filter(None, (self.url,)), *self.headers.values())


@record(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set that the training reads."""

    source: str = key(
        "directory, file or glob on the shared file system, a URL that the first node fetches (`s3://`, `https://`), or a "
        "repository of the Hugging Face Hub (`hf://ORG/NAME@REVISION`)",
        pattern=PLAIN,
        path=True,
    )
    strategy: Literal["auto", "copy", "shard", "in_place", "pack", "image", "part"] = key(
        "copy to every node, shard across nodes, pack into one tar file, copy one SquashFS image (made of a directory, or the "
        "source) and mount it, copy the part that fits and link to the rest, or read in place; auto: by size and space",
        default="auto",
    )
    unpack: bool = key(
        "the source is one archive (tar, also with gzip, bzip2, xz or zstd, or zip), at a path, `https://` or `s3://`: the data "
        "set is its content, which the first node unpacks for all",
        default=False,
    )
    size: Bytes | None = key(
        "expected size; a source that differs by more than 10 % is rejected", default=None, minimum=1
    )
    reads: int | None = key(
        "number of times the training reads the whole data set (epochs); a job on one node does not copy data that is read once",
        default=None,
        minimum=1,
    )
    keep: Literal["job", "cache"] = key(
        "job: remove the node-local copy when the job ends; cache: keep it for later jobs", default="job"
    )
    include: tuple[str, ...] = key("copy only names that match one of these patterns", default=())
    exclude: tuple[str, ...] = key("skip names that match one of these patterns", default=())
    start: str | None = key(
        "amount of data on each node at which the training starts (`10%`, `8 files` or `20GB`); the remaining files appear one "
        "by one",
        default=None,
        pattern=AMOUNT,
    )
    balance: Literal["files", "bytes"] = key(
        "with `strategy: shard`: parts with the same number of files, or of about the same size",
        default="files",
    )
    readers: int = key(
        "number of nodes that read from the source (at most all), each one part; the other nodes receive the data from "
        "them",
        default=1,
        minimum=1,
    )
    shape: Literal["auto", "chain", "tree"] = key(
        "how nodes relay the data: chain (each to one other), tree (each to two); auto: the one estimated to be faster",
        default="auto",
    )
    rate: Bytes | None = key(
        "limit of the read rate in bytes per second, to spare the shared file system", default=None, minimum=1
    )
    low_priority: bool = key("copy with the lowest CPU and I/O priority", default=False)
    verify: bool = key(
        "read every copy back before the training starts, including existing copies, and compare its hashes",
        default=False,
    )
    recheck: Literal["sample", "all", "none"] = key(
        "files whose size and time are compared with the source to decide whether an existing copy is current: `sample` (all if "
        "that takes less than a second, else the largest, the last modified and a random sample), `all`, or `none`",
        default="sample",
    )

    checksums: str | None = key(
        "checksums that every copy is compared with: a file as `sha256sum` writes it (by its absolute path, or its path in the "
        "data set), or `sha256:HASH` of a single file",
        default=None,
        pattern=PLAIN,
        path=True,
    )
    version: str | None = key(
        "`sha256:HASH`: the digest of all files that the data set must have, else the job ends before the training; `compute`: "
        "only report the digest",
        default=None,
        pattern=r"compute|sha256:[0-9a-f]{64}",
        expected="`compute`, or `sha256:` and 64 hexadecimal digits",
    )
    credentials: Credentials | None = key(
        "secrets of a source that is a URL (`https://`); with `s3://` the secrets named `AWS_…` are used by themselves",
        default=None,
    )

    @classmethod
    def from_scalar(cls, text: str) -> DataSet:
        """`imagenet: /scratch/imagenet` is short for its source."""
        return cls(source=text)


@record(frozen=True, slots=True, kw_only=True)
class Results:
    """Results that the program writes to node-local storage (`{{ results }}`), copied to shared storage at the end."""

    to: str = key(
        "directory on the shared file system; the files of all nodes are merged into it, those of each point of a sweep "
        "into a directory of its own there",
        pattern=PLAIN,
        path=True,
    )
    when: Literal["always", "ok"] = key(
        "always: also if the job fails; ok: only if it succeeds", default="always"
    )
    before_end: Duration = key(
        "time before the end of the walltime at which ranks are stopped, so that results can be copied",
        default=Duration(300),
        minimum=1,
    )

    @classmethod
    def from_scalar(cls, text: str) -> Results:
        """`results: /scratch/run17` is short for `to`."""
        return cls(to=text)


SCRIPT_LINE = r"#(?!SBATCH|PBS)[A-Za-z]+ [^\x00-\x1f\x7f]+"
"""A line of a job script for a program other than the scheduler, such as `#DW` or `#BB`."""


@record(frozen=True, slots=True, kw_only=True)
class NodeLocal:
    """Node-local storage, or storage that the nodes of a job share while it runs."""

    path: str = key("path; `$NAME` expands on the node", pattern=PLAIN)
    size: Bytes | None = key("space available to a job", default=None, minimum=1)
    kind: Literal["ssd", "disk", "memory"] = key("kind of storage", default="ssd")
    quota: Bytes | None = key(
        "limit for all data sets of a user on a node, including cached ones; the least recently used is evicted first",
        default=None,
        minimum=1,
    )
    images: bool = key(
        "copy the image file of a container there before the ranks start, unless a spec has `environment.stage: false`",
        default=False,
    )
    scope: Literal["node", "job"] = key(
        "node: each node has its own; job: one file system, such as BeeOND or a burst buffer, that is created for a job and "
        "shared by its nodes",
        default="node",
    )
    request: str | None = key(
        "directive that requests it, as written after the prefix; `{gb}` becomes `resources.node_local` in GB (the total of "
        "all nodes if they share it, or if `scheduler.arithmetic` is `whole_job`)",
        default=None,
        pattern=PLAIN,
    )
    lines: tuple[str, ...] = key(
        "job script lines that request it but are not scheduler directives, such as "
        "`#DW jobdw type=scratch access_mode=striped capacity={gb}GB`",
        default=(),
        pattern=SCRIPT_LINE,
        expected="one line that begins with `#` and a word other than the scheduler's prefix",
        single="text",
    )


@record(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where data can be stored."""

    node_local: NodeLocal | None = key("node-local storage", default=None)
    shared: tuple[str, ...] = key("mount points of shared file systems", default=())
    jobs: str | None = key(
        "parent of users' job directories, with variables of the login shell, such as `$SCRATCH/dlrun`; "
        "default: below the home directory",
        default=None,
        pattern=PLAIN,
    )
    REMOVED: ClassVar[Mapping[str, str]] = {
        "mover": "remove it: dlrun itself copies data from node to node, with one read of the source"
    }


CodeMode: TypeAlias = Literal["record", "strict", "snapshot", "off"]
"""What runs at a start if the code has changed since the submission: the changed code, nothing, or what was submitted."""


@record(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`code` as a mapping: `code: snapshot`, with other files or another limit."""

    include: tuple[str, ...] = key(
        "files to take, too, although git ignores them or their names are those of secrets, such as `lib/*.so`, `build/**`; "
        "relative to the top of the repository, without git to the working directory",
        default=(),
        pattern=PLAIN,
    )
    exclude: tuple[str, ...] = key(
        "files to leave out, such as `docs/**` or `*.ckpt`; a pattern without `/` matches names in every directory",
        default=(),
        pattern=PLAIN,
    )
    limit: Bytes = key("maximum size of all files together", default=Bytes(200_000_000), minimum=1)
    stage: bool = key(
        "copy the snapshot to node-local storage, as data sets are, and run there: many processes that import it would be slow "
        "on the shared file system. What the program writes to its working directory is copied back at the end",
        default=False,
    )


DATE = 946_684_800
"""2000-01-01: the time of all files of a snapshot, by which one that was written since is known."""


@record(frozen=True, slots=True, kw_only=True)
class FileList:
    """The files of a version of the code. files: path -> SHA-256 in hexadecimal digits; links: path -> target of a symbolic link;
    executable: those of `files` that can be executed.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    executable: frozenset[str] = frozenset()

    def text(self) -> str:
        """The list in the format of sha256sum(1), with comments for what that does not know."""
        lines = [f"# executable {json.dumps(name)}" for name in sorted(self.executable)]
        lines += [f"# link {json.dumps(link)}" for link in sorted(self.links.items())]
        lines += [checksum_line(name, digest) for name, digest in sorted(self.files.items())]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> FileList:
        """Read such a list; lines of another form are skipped."""
        files, links, executable = {}, {}, set()
        for line in text.split("\n"):
            with suppress(ValueError):
                if line.startswith("# executable "):
                    executable.add(json.loads(line[13:]))
                elif line.startswith("# link "):
                    name, target = json.loads(line[7:])
                    links[name] = target
                elif line.startswith("\\"):
                    digest, _, name = line[1:].partition("  ")
                    files[re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], name)] = (
                        digest
                    )
                elif "  " in line:
                    digest, _, name = line.partition("  ")
                    files[name] = digest
        return cls(files=files, links=links, executable=frozenset(executable))


def checksum_line(name: str, digest: str) -> str:
    """A line of sha256sum(1): a backslash or line feed in the name is escaped, which a backslash at its start announces."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{chr(92) if escaped != name else ''}{digest}  {escaped}"


_REPOSITORY = r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
HUB_COMMIT = r"[0-9a-f]{40}"
_HUB = "hf://"
HUB_FORMS = "`hf://ORG/NAME@REVISION` for a model, `hf://datasets/ORG/NAME@REVISION` for a data set"
_HUB_SOURCE = lazy_pattern(rf"hf://(datasets/)?({_REPOSITORY})(?:@([^/]+|refs/(?:pr|convert)/\w+))?")
_NOT_DATA = ("spaces/", "buckets/", "kernels/")
"""Kinds of the hub that are not data."""
_BRANCH = "main"


@record(frozen=True, slots=True, kw_only=True)
class HubSource:
    """A repository at a revision; commit: that of the revision, None before the hub has answered."""

    repository: str = saved(pattern=_REPOSITORY)
    kind: Literal["model", "dataset"]
    revision: str = saved(pattern=PLAIN)
    commit: str | None = saved(default=None, pattern=HUB_COMMIT)

    @property
    def folder(self) -> str:
        """Its name in a cache of the hub's library."""
        return f"{self.kind}s--{self.repository.replace('/', '--')}"

    def __str__(self) -> str:
        kind = "datasets/" if self.kind == "dataset" else ""
        return f"{_HUB}{kind}{self.repository}@{self.revision}"

    @property
    def noun(self) -> str:
        """What it is, in words."""
        return "data set" if self.kind == "dataset" else "model"

    @property
    def page(self) -> str:
        """Its path on the hub's site."""
        return ("datasets/" if self.kind == "dataset" else "") + self.repository


def is_hub(source: str) -> bool:
    """Whether a source is meant to be on the hub."""
    return source.startswith(_HUB)


def parse_hub(source: str) -> HubSource:
    """The repository of a source; raises ValueError for another form."""
    match = _HUB_SOURCE.fullmatch(source)
    if match is None or source.removeprefix(_HUB).startswith(_NOT_DATA):
        raise ValueError(f"expected {HUB_FORMS}")
    revision = unquote(match[3] or _BRANCH)
    if not re.fullmatch(PLAIN, revision):
        raise ValueError(f"expected {HUB_FORMS}")
    pinned = revision if re.fullmatch(HUB_COMMIT, revision) else None
    return HubSource(
        repository=match[2], kind="dataset" if match[1] else "model", revision=revision, commit=pinned
    )


@record(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """The directory of one compiler's cache, below that of the job's caches: one for the node, for each rank, or for this run.

    unless: a directory in the user's home that is used if it has entries. switch: a variable that is set to 1, unless it is set.
    """

    variable: str = saved(pattern=VARIABLE_NAME)
    directory: str = saved(pattern=WORD)
    each: Literal["node", "rank", "run"] = "node"
    unless: str = ""
    switch: str = ""


@record(frozen=True, slots=True, kw_only=True)
class CachesPlan:
    """Caches of compilers on node-local storage. base: directory on the node; key: subdirectory of this environment.

    keep: they begin with what earlier jobs have compiled, from the user's store, and what is new goes there. place: the directory
    of that store; empty: that of the job directories.
    """

    base: Text
    key: str = saved(pattern=WORD)
    caches: tuple[CachePlan, ...] = ()
    keep: bool = False
    place: str = ""


@record(frozen=True, slots=True, kw_only=True)
class ResultsPlan:
    """Copy of results: target, condition, and the time before the end of the walltime at which ranks are stopped for it.

    `to` is empty without `results`, if what the program writes beside its staged code is copied to `work/` of the run.
    """

    to: str
    when: Literal["always", "ok"]
    before_end: Duration
