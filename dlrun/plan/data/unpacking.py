"""Why the archive of a data set (`unpack: true`) cannot be unpacked."""

from __future__ import annotations

from dlrun.model.data import DataSet, NodeLocal


def not_unpacked(data: DataSet, local: NodeLocal | None, *, fetched: bool) -> tuple[str, str] | None:
    """Why an archive cannot be unpacked, and the way out; None if it can. fetched: the source is a URL that is fetched."""
    if local is None:
        return (
            "there is no node-local storage in the site profile",
            "unpack it once on the shared file system",
        )
    if data.strategy not in ("auto", "copy", "pack"):
        return (
            f"it is read as a whole, and no node has all of it with `strategy: {data.strategy}`",
            "leave out `strategy`, or unpack it once on the shared file system and name the directory",
        )
    if data.source.lower().startswith("s3://"):
        return "`s3://` is read as a directory", "name it by `https://` (a presigned URL), or fetch it once"
    if set("*?[") & set(data.source) and not fetched:
        return "a glob may match several files", "name one archive for each data set"
    return None
