"""Data sets and results of a spec, and the storage of a site profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from dlrun.model.keys import AMOUNT, PLAIN, key
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration


@record(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set that the training reads."""

    source: str = key(
        "directory, file or glob on the shared file system, or a URL that the first node fetches (`s3://`, `https://`)",
        pattern=PLAIN,
        path=True,
    )
    strategy: Literal["auto", "copy", "shard", "in_place", "pack", "part"] = key(
        "copy to every node, shard across nodes, pack into one tar file, copy the part that fits and link to the rest, or read "
        "in place; auto: by size and space",
        default="auto",
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
        "files to compare with the source to decide whether an existing copy is current: a sample (all if they are few), all, "
        "or none",
        default="sample",
    )

    @classmethod
    def from_scalar(cls, text: str) -> DataSet:
        """`imagenet: /scratch/imagenet` is short for its source."""
        return cls(source=text)


@record(frozen=True, slots=True, kw_only=True)
class Results:
    """Results that the program writes to node-local storage (`{{ results }}`), copied to shared storage at the end."""

    to: str = key(
        "directory on the shared file system; the files of all nodes are merged into it",
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
