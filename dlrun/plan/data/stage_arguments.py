"""Arguments of the node program that copy one data set, for jobs and for `dlrun stage-data`."""

from __future__ import annotations

from dlrun.model.plan import DataPlan, Request
from dlrun.model.text import Shell, Text, Word
from dlrun.model.units import Bytes


def stage_words(
    data: DataPlan, request: Request, quota: Bytes | None, source: Text | None = None
) -> tuple[Text, ...]:
    """The arguments after `stage`, without directory, job and hosts; `quota` in bytes is for all data sets of a node.

    source: where it is known on the nodes alone.
    """
    name, source = Text.of(data.name), source or Text.of(data.source)
    if data.is_code:  # each run has its own
        name, source = (
            Text.of(f"{data.name}-", Shell("$_dlrun_job")),
            Text.of(Shell("$DLRUN_RUN_DIR"), "/work"),
        )
    words: list[Word] = ["--name", name, "--source", source, "--strategy", data.strategy]
    if data.checksums is not None:
        words += ["--checksums", data.checksums]
    if data.version is not None:
        words += ["--version", data.version]
    if data.credentials is not None:
        words += ["--url-from", data.credentials.url] if data.credentials.url else []
        for header, secret in data.credentials.headers.items():
            words += ["--header-from", f"{header}={secret}"]
    if data.strategy == "shard" and request.nodes == 1:
        words += ["--shard", "0/1"]
    if data.room is not None:
        words += ["--room", str(int(data.room))]
    words += ["--keep", data.keep]
    if request.walltime is not None:
        words += ["--lasting", f"{int(request.walltime)}s"]
    for pattern in data.include:
        words += ["--include", pattern]
    for pattern in data.exclude:
        words += ["--exclude", pattern]
    if data.size is not None:
        words += ["--expect", str(int(data.size))]
    if data.balance != "files":
        words += ["--balance", data.balance]
    if data.start is not None:
        words += ["--start", data.start, "--started", Text.of(Shell("$_dlrun_started"))]
    if data.readers > 1:
        words += ["--readers", str(data.readers)]
    if data.shape != "auto":
        words += ["--shape", data.shape]
    if quota is not None:
        words += ["--quota", str(int(quota))]
    if data.rate is not None:
        words += ["--rate", str(int(data.rate))]
    if data.low_priority:
        words.append("--low-priority")
    if data.unpack:
        words.append("--unpack")
    if data.verify:
        words.append("--verify")
    if data.recheck != "sample":
        words += ["--recheck", data.recheck]
    if data.fallback:
        words += ["--else-in-place", Text.of(Shell("$DLRUN_RUN_DIR"), f"/in-place-{data.name}")]
    return tuple(Text.of(word) for word in words)
