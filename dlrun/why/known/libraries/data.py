"""Errors of libraries that read data: Arrow, pandas, NumPy, LMDB, HDF5, images, DALI."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_ARROW = "https://github.com/apache/arrow/tree/main/cpp/src/arrow/"
_LMDB = "https://lmdb.readthedocs.io/en/release/#exceptions"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="data",
        source="https://arrow.apache.org/docs/python/",
        forms=(
            Form(
                cause="configuration",
                texts=(
                    "offset overflow while concatenating arrays",
                    "cannot contain more than 2147483646 bytes",
                    "List array cannot contain more than",
                ),
                source="https://github.com/huggingface/datasets/issues/6206",
                means="a column of one part of the data set is larger than its type of Arrow can hold (2 GiB, or 2³¹ entries)",
                check="the length of the longest column of a batch or shard",
                next="write smaller parts (`map(…, batch_size=…, writer_batch_size=100)`, more shards), or use `large_string` and `large_list`",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "JSON parse error: Column({1}) changed from",
                    "JSON parse error: Column({1}) was specified twice",
                    "ArrowInvalid: Could not convert {1} with type",
                    "ArrowTypeError: {1}",
                    "ArrowInvalid: cannot mix list and non-list, non-null values",
                ),
                source=_ARROW + "json/parser.cc",
                means="a column of the data has values of different types",
                check="the rows of that column, around the one that the line names",
                next="give the column one type in all rows (numbers as numbers, empty lists rather than texts), or name its type (`features`, a schema)",
            ),
            Form(
                cause="configuration",
                texts=("straddling object straddles two block boundaries",),
                source=_ARROW + "json/chunker.cc",
                means="an object of a JSON file is larger than the block in which it is read, or the file is one array rather than a line for each object",
                next="write JSON Lines (a line for each object), or read with a larger block (`load_dataset('json', chunksize=…)`, `field=…`)",
            ),
            Form(
                cause="configuration",
                texts=("ArrowInvalid: Column {} named {1} expected length",),
                source="https://huggingface.co/docs/datasets/about_map_batch",
                means="what `map(batched=True)` returns has columns of other lengths than those that it keeps: {1}",
                next="remove the old columns (`remove_columns=dataset.column_names`), or return as many rows as the batch has",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "DataFilesNotFoundError: {1}",
                    "EmptyDatasetError: {1}",
                    "doesn't contain any data files",
                ),
                source="https://github.com/huggingface/datasets/blob/main/src/datasets/exceptions.py",
                means="there are no files of data in that directory, of a kind and name that the library reads",
            ),
            Form(
                cause="configuration",
                texts=("MDB_READERS_FULL: {1}", "lmdb.ReadersFullError"),
                source=_LMDB,
                means="more processes read an LMDB database than it has places for (`max_readers`, 126 by default)",
                check="ranks and their loader processes on a node, which all count",
                next="open it with `lmdb.open(…, readonly=True, lock=False)`, or a larger `max_readers`; places of killed processes are freed by `mdb_stat -rr`",
            ),
            Form(
                cause="configuration",
                texts=(
                    "MDB_BAD_RSLOT: {1}",
                    "lmdb.BadRslotError",
                    "MDB_TLS_FULL: {1}",
                    "lmdb.TlsFullError",
                    "MDB_BAD_TXN: {1}",
                    "MDB_DBS_FULL: {1}",
                    "lmdb.DbsFullError",
                    "MDB_BAD_VALSIZE: {1}",
                    "MDB_INCOMPATIBLE: {1}",
                    "is already open in this process",
                ),
                source=_LMDB,
                means="an LMDB database is used in a way that it does not allow: opened twice in a process, or before the loader's processes were forked, or with too few databases",
                next="open it in each loader process (at its first `__getitem__`) with `readonly=True, lock=False`, once for each process; give `max_dbs` for named ones",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "MDB_CORRUPTED: {1}",
                    "MDB_PAGE_NOTFOUND: {1}",
                    "MDB_INVALID: {1}",
                    "MDB_VERSION_MISMATCH: {1}",
                    "MDB_PANIC: {1}",
                ),
                source=_LMDB,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"Unable to (?:synchronously )?open object \(object '([^']*)' doesn't exist\)",
                source="https://docs.h5py.org/en/stable/high/group.html",
                means="an HDF5 file has no data set or group of this name ({1}), or the loader's processes share a file that was opened before they began",
                check="`h5ls -r FILE | grep NAME`",
                next="correct the name, or take the file that has it; if it is there, open the file in each loader process (at its first `__getitem__`), not in `__init__`",
            ),
            Form(
                cause="checkpoint-damaged",
                texts=(),
                regex=r"Unable to (?:synchronously )?open file \(truncated file",
                source="https://support.hdfgroup.org/documentation/hdf5/latest/",
                means="an HDF5 file is shorter than it was written: the copy or the job that wrote it was cut off, or its file system is full",
                next="copy data from their source once more; of checkpoints remove the newest checkpoint and start from the previous one, and write them to a new name, then rename them",
            ),
            Form(
                cause="file-exists",
                texts=(
                    "Unable to create dataset (name already exists)",
                    "Unable to create group (name already exists)",
                    "Unable to synchronously create dataset (name already exists)",
                    "Unable to synchronously create group (name already exists)",
                    "Unable to create link (name already exists)",
                    "ContainsGroupError: {1}",
                    "ContainsArrayError: {1}",
                ),
                source="https://docs.h5py.org/en/stable/high/group.html",
                means="a data set or group of this name is in the file already: an earlier run, or another rank, wrote it",
                next="write to a new file for each run, or use `require_dataset`; let one rank write, or give each its own file",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "Failed to read all data for array",
                    "No data left in file",
                    "Cannot load file containing pickled data when allow_pickle=False",
                    "This file contains pickled (object) data",
                    "magic string is not correct; expected",
                ),
                source="https://github.com/numpy/numpy/blob/main/numpy/lib/_format_impl.py",
                means="a file of NumPy is cut off, empty, or not one: often the pointer of Git LFS or a page of a web server stands for it",
            ),
            Form(
                cause="configuration",
                texts=("Object arrays cannot be loaded when allow_pickle=False",),
                source="https://numpy.org/doc/stable/reference/generated/numpy.load.html",
                means="the file has Python objects, which NumPy loads only if it is allowed to",
                next="if you trust the file, `np.load(…, allow_pickle=True)`; or write it with a plain type of number",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "EmptyDataError: {1}",
                    "Error tokenizing data. {1}",
                    "Usecols do not match columns, {1}",
                ),
                source="https://pandas.pydata.org/docs/reference/errors.html",
                means="a table of text (CSV) is empty, cut off, or has other columns or separators than the program expects",
                check="the lines of the file around the one that is named",
                next="correct the file, or how it is read (`sep`, `quoting`, `on_bad_lines`, `usecols`)",
            ),
            Form(
                cause="configuration",
                texts=("could be decompression bomb DOS attack",),
                source="https://pillow.readthedocs.io/en/stable/reference/Image.html",
                means="an image has more pixels than Pillow opens by default",
                next="if you trust the data, set `PIL.Image.MAX_IMAGE_PIXELS = None` before it is opened; or make the images smaller",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "unrecognized data stream contents when reading image file",
                    "broken PNG file",
                    "OSError: Truncated File Read",
                    "not a PNG file",
                    "decoder error -{1} when reading image file",
                    "Decompressed data too large for PngImagePlugin",
                ),
                source="https://pillow.readthedocs.io/en/stable/",
            ),
            Form(
                cause="file-damaged",
                texts=(),
                regex=r"\(-215:Assertion failed\) (?:!?_?\w*(?:src|ssize|img|image|buf|m)\w*\.(?:empty|data)\(?\)?|!ssize\.empty\(\)|\w*\.?size\(?\)?\.?width ?> ?0)",
                source="https://docs.opencv.org/4.x/d4/da8/group__imgcodecs.html",
                means="OpenCV was given an empty image: its file does not exist, may not be read, or has no image in it (`cv2.imread` then returns None)",
                check="print the path that is read, and `ls -l` of it on a compute node",
                next="correct the path, copy the file from its source once more, or skip images that are None",
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "NVJPEG_STATUS_BAD_JPEG",
                    "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
                    "Unrecognized image format",
                    "Could not decode image {1}",
                    "Failed to decode a JPEG{1}",
                ),
                regex=r"\bError in thread \d+: .*(?:jpeg|png|tiff|webp|image|decode)",
                source="https://github.com/NVIDIA/DALI/tree/main/dali/image",
                means="DALI could not decode an image: it is damaged, or of a kind that it does not know",
                next="find it by decoding the files alone (`python -m PIL.Image`, `jpeginfo -c`), and copy or remove it; for unusual kinds decode on the CPU (`device='cpu'`)",
            ),
            Form(
                cause="file-damaged",
                texts=("Vocabulary size too high ({}). Please set it to a value <= {1}",),
                source="https://github.com/google/sentencepiece/blob/master/src/trainer_interface.cc",
                means="the text from which a tokenizer is made is too small for its vocabulary",
                next="give it more text, or a smaller vocabulary",
            ),
        ),
    ),
)
