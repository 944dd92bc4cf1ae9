"""The problem codes of data sets, in numerical order."""

from __future__ import annotations

# ruff: noqa: E501, ISC004 - a page of prose, one code an entry
DATA_CODES: dict[str, tuple[str, str]] = {
    "DLR096": (
        "node-local storage without a size",
        "The site creates node-local storage for each job (BeeOND, a burst buffer) with the requested size, so the spec must "
        "set the size per node: `resources: {node_local: 200GB}`.",
    ),
    "DLR108": (
        "a global sampler over sharded data",
        "With `strategy: shard` each node has a part of the files. A sampler that divides all indices among all ranks "
        "(`DistributedSampler`, and what Lightning and Accelerate insert by themselves) then skips most of each part: let "
        "each rank divide its node's part with the ranks of its node (`LOCAL_RANK`, `LOCAL_WORLD_SIZE`), or use `copy`.",
    ),
    "DLR109": (
        "training cannot start before this data set is complete",
        "With `start` the training begins while files of one data set are still being copied. It cannot be combined with `strategy: "
        "pack` or `image` (a single file) or `verify` (which reads the whole copy first), only one data set of a job can have it, and it must "
        "not exceed the size of the data set.",
    ),
    "DLR110": (
        "a data set that is not on a file system",
        "`s3://`, `http://` and `https://` are fetched by the first node of the job (S3 with `s5cmd`, `rclone` or `aws`, where the node "
        "has one) and passed on to the others, with `strategy: copy`, `pack` or `image`. `hf://ORG/NAME@REVISION` and "
        "`hf://datasets/ORG/NAME@REVISION` are fetched at the submission. Any other place, and nodes that reach no network: "
        "fetch the data once to the shared file system (`aws s3 sync`, `s5cmd`, `rclone`, `wget`), then stage the copy.",
    ),
    "DLR116": (
        "checksums without a copy to compare",
        "`checksums` and `version` are compared with the copy on each node before the training starts. With `strategy: in_place` "
        "there is none, and with `shard` no node has all files of which `version` is the digest.",
    ),
    "DLR115": (
        "credentials of a data set that cannot be used",
        "`credentials: {url: NAME}` names the secret with the whole, presigned URL of a source on a web server, and "
        "`credentials: {headers: {Authorization: NAME}}` secrets that are sent as headers. Each NAME must be under `secrets`, "
        "which names the source of the value; it is read on the node that fetches the data, and is never written or printed.",
    ),
    "DLR141": (
        "an archive that cannot be unpacked",
        "With `unpack: true` the source is one archive (tar, also with gzip, bzip2, xz or zstd; zip), at a path, `https://` or `s3://`, which "
        "the first node unpacks on node-local storage and passes on to the others. It is read as a whole, so `strategy` is `copy` or "
        "`pack`.",
    ),
    "DLR146": (
        "a data set that cannot be one image",
        "With `strategy: image` a data set is one SquashFS file on each node, which the ranks see as a directory: the first node "
        "makes it of the source with `mksquashfs`, or the source is such a file. `squashfuse` mounts it, without root, on each node "
        "of the job, which must have its nodes' storage for itself. With `runtime: apptainer` the program in the container sees that "
        "mount, and where a node has no `squashfuse`, Apptainer mounts the image. With `runtime: enroot` the container of a step is "
        "started first, and it sees no later mount.",
    ),
}
"""Code -> title, explanation."""
