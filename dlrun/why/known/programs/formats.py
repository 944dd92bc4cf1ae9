"""Errors of the libraries that read and write data sets: Arrow, LMDB, zarr, SQLite, tokenizers."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="data formats",
        source="https://arrow.apache.org/docs/python/",
        forms=(
            Form(
                cause="file-damaged",
                texts=(
                    "ArrowInvalid: Not an Arrow file",
                    "ArrowInvalid: Could not open Parquet input source {1}:",
                    "ArrowInvalid: Parquet file size is {1}",
                    "ArrowInvalid: Tried reading schema message, was null or length 0",
                    "ArrowInvalid: Expected to read {} metadata bytes, but only read {1}",
                    "ArrowInvalid: JSON parse error: {1}",
                    "ArrowInvalid: CSV parse error: {1}",
                    "ArrowInvalid: File is too small: {1}",
                ),
                source="https://github.com/apache/arrow/tree/main/cpp/src",
            ),
            Form(
                cause="disk-full",
                texts=("error closing file",),
                source="https://github.com/apache/arrow/blob/main/cpp/src/arrow/util/io_util.cc",
                means="a file could not be written to its end: its file system is full, a quota is used up, or its server failed",
                next="see `df -h` and the quota of its directory, then submit again",
            ),
            Form(
                cause="file-damaged",
                texts=("cannot mmap an empty file",),
                source="https://docs.python.org/3/library/mmap.html",
            ),
            Form(
                cause="file-missing",
                texts=("lmdb.Error: {1}: No such file or directory",),
                source="https://lmdb.readthedocs.io/en/release/",
            ),
            Form(
                cause="configuration",
                texts=("Environment mapsize limit reached",),
                source="https://lmdb.readthedocs.io/en/release/#lmdb.MapFullError",
                means="an LMDB database has reached the size with which it was opened",
                next="open it with a larger `map_size` (`lmdb.open(…, map_size=…)`); the file grows only as it is filled",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "zarr.errors.GroupNotFoundError: {1}",
                    "zarr.errors.PathNotFoundError: {1}",
                    "zarr.errors.ArrayNotFoundError: {1}",
                ),
                source="https://github.com/zarr-developers/zarr-python/blob/main/src/zarr/errors.py",
            ),
            Form(
                cause="file-locks",
                texts=(
                    "sqlite3.OperationalError: database is locked",
                    "sqlite3.OperationalError: locking protocol",
                    "sqlite3.OperationalError: disk I/O error",
                    "(sqlite3.OperationalError) database is locked",
                ),
                source="https://www.sqlite.org/faq.html#q5",
                means="an SQLite database could not be locked: several processes write it, or its file system has no locks that work",
                check="whether several ranks or jobs write the file that the program opens, and `df -T` of its directory",
                next="let one process alone write it, on node-local storage; for a shared study use a storage for several processes (Optuna: `JournalStorage`)",
            ),
            Form(
                cause="file-damaged",
                texts=("database disk image is malformed", "sqlite3.DatabaseError: file is not a database"),
                source="https://www.sqlite.org/howtocorrupt.html",
                means="an SQLite database is damaged: often several nodes wrote it on a network file system",
                next="restore or remove the database that the program opens, and let one process alone write it",
            ),
            Form(
                cause="build-mismatch",
                texts=("data did not match any variant of untagged enum {1}",),
                source="https://github.com/huggingface/tokenizers/issues/1562",
                means="the installed `tokenizers` is older than the file of the tokenizer, and cannot read it",
                next="install newer `tokenizers` and `transformers` in the job's environment",
            ),
        ),
    ),
)
