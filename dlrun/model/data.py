"""What a spec says of data: the sets that the training reads, and the results that it writes on its nodes."""

from __future__ import annotations

from typing import Literal

from dlrun.model.keys import PLAIN, key
from dlrun.model.record import record
from dlrun.model.units import Bytes, Duration


@record(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set that the training reads."""

    source: str = key("directory, file or glob on the shared file system", pattern=PLAIN)
    strategy: Literal["auto", "copy", "shard", "in_place", "pack"] = key(
        "copy to every node, shard across nodes, pack into one tar file, or read in place; auto: by size and space",
        default="auto",
    )
    size: Bytes | None = key(
        "expected size; a source that differs by more than 10 % is rejected", default=None
    )
    reads: int | None = key(
        "how often the training reads the whole data set (epochs); for a single read, one node does not copy it",
        default=None,
        minimum=1,
    )
    keep: Literal["job", "cache"] = key(
        "job: remove the node-local copy when the job ends; cache: keep it for later jobs", default="job"
    )
    include: tuple[str, ...] = key("copy only names that match one of these patterns", default=())
    exclude: tuple[str, ...] = key("skip names that match one of these patterns", default=())
    readers: int = key(
        "number of nodes that read from the source, each one part; the other nodes receive the data from them",
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
        "read every copy back before the training starts, also one that is already there, and compare its hashes",
        default=False,
    )
    recheck: Literal["sample", "all", "none"] = key(
        "what to look at to recognise a copy that is already there: a sample of the files (all of few), all, or none",
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
        "directory on the shared file system; the files of all nodes are merged into it", pattern=PLAIN
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
