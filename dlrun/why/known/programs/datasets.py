"""Errors of the library datasets: columns that differ, processes that map."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_HF = "https://github.com/huggingface/"
_GET = _HF + "datasets/blob/02330915196892879c189ebf2485cda01261f66b/src/datasets/utils/file_utils.py"
_ANSWERED = r"ConnectionError: Couldn't reach \S+ \(error "
"""Before the status with which a server answered: only without one was it not reached."""

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="datasets",
        source=_HF + "datasets",
        forms=(
            Form(
                cause="file-missing",
                texts=(),
                regex=r"(?:FileNotFoundError|No such file or directory).*?'([^']*(?:_(?:doc|sample|shuffle)_idx\.npy|[-_](?:document|sample|shuffle)_index\.npy|indexmap\w*\.npy|\.idx))'",
                source="https://github.com/deepspeedai/Megatron-DeepSpeed/issues/356",
                means="an index of the data set is not there, which one rank builds for all: the nodes do not share its directory, or the others did not wait for it: {1}",
                check="`ls -l` of it on each node",
                next="put the cache of indexes on a file system that all nodes see (Megatron: `--data-cache-path`), or build it once before the job with one rank",
            ),
            Form(
                cause="cache-file",
                texts=(),
                regex=r"(?:No such file or directory|Failed to open local file).*\.incomplete\b|\.incomplete\b.*No such file or directory",
                source="https://github.com/huggingface/datasets/blob/main/src/datasets/builder.py",
                means="several jobs or ranks prepared the same data set in one cache at a time, and one removed the other's unfinished files",
                check="whether another job or rank wrote to this cache",
                next="prepare the data set once before the job or in one rank, or give each job its own cache (`environment.variables: {HF_DATASETS_CACHE: …}`)",
            ),
            Form(
                cause="file-damaged",
                texts=("Invalid data found when processing input",),
                source="https://ffmpeg.org/doxygen/trunk/group__lavu__error.html",
                passing=True,
            ),
            Form(
                cause="file-locks",
                texts=("lmdb.LockError: {1}: Resource temporarily unavailable",),
                source="https://lmdb.readthedocs.io/en/release/#lmdb.Environment",
                means="an LMDB database could not be locked: its file system has no locks, or too many processes read it",
                next="open it with `lmdb.open(…, readonly=True, lock=False)` where it is only read",
            ),
            Form(
                cause="hub-limit",
                texts=(),
                regex=_ANSWERED + r"429\)",
                source=_GET,
            ),
            Form(
                cause="not-found",
                texts=(),
                regex=_ANSWERED + r"(?:404|410)\)",
                source=_GET,
                means="a web server was reached and has nothing at this address (404, 410): the data set has moved, or its name is wrong",
            ),
            Form(
                cause="no-access",
                texts=(),
                regex=_ANSWERED
                + r"(4\d\d)\)|ConnectionError: (Unauthorized) for URL |Couldn't reach \S+ \(ConnectionError\(.(Unauthorized) for URL ",
                source="https://github.com/huggingface/datasets/issues/4728",
                means="the server that has the data set was reached and refused the request ({1}): it wants a token, has withdrawn the file, or serves no programs",
                check="open the address that the line names, without being logged in",
                next="give the token under `secrets:` if the data set needs one; otherwise take it from another address (a newer version of its script, a copy on the Hub), and name it under `data`",
            ),
            Form(
                cause="no-network",
                texts=(),
                regex=_ANSWERED + r"(5\d\d)\)",
                source=_GET,
                means="the server that has the data set was reached, and is out of order or overloaded ({1})",
                check="open the address that the line names, or the status page of the service",
                next="submit again later, or download beforehand and work offline (`environment.variables: {HF_HUB_OFFLINE: 1}`)",
            ),
            Form(
                cause="no-network",
                texts=("ConnectionError: Couldn't reach http{1}",),
                source="https://github.com/huggingface/datasets/issues/647",
                check="`curl -I` of the address that the line names, on a compute node",
            ),
            Form(
                cause="no-network",
                texts=(),
                regex=r"pipe:(?:curl|wget|aws|gsutil)\b.*\bexit (\d+) \(read\)",
                source="https://github.com/webdataset/webdataset/blob/main/webdataset/gopen.py",
                means="the command by which WebDataset reads a shard ended with {1} (of curl 6: no such host; 7, 28: not reached; 22: refused)",
                check="run that command on a compute node",
                next="fetch the shards before the job (`data`), or run the command on a compute node to see its own error",
            ),
            Form(
                cause="file-missing",
                texts=(),
                regex=r"\[ADIOS2 EXCEPTION\] .*couldn't open file ([^,]+),.* No such file or directory",
                source="https://github.com/ornladios/ADIOS2/blob/master/source/adios2/toolkit/transport/file/FilePOSIX.cpp",
            ),
            Form(
                cause="loader",
                texts=(),
                regex=r"_worker_loop.*(?:bad object header|Unable to (?:synchronously )?open object(?! \(object '[^']*' doesn't exist)|inflate\(\) failed|addr overflow)",
                source="https://github.com/pytorch/pytorch/issues/11929",
                means="the loader's processes share one HDF5 file that was opened before they began, so their reads are mixed",
                next="open the file in each loader process (at its first `__getitem__`, or in `worker_init_fn`), not in `__init__`",
            ),
            Form(
                cause="loader",
                texts=(),
                regex=r"(?:bad object header|Unable to (?:synchronously )?open object(?! \(object '[^']*' doesn't exist)|inflate\(\) failed|addr overflow)",
                source="https://github.com/pytorch/pytorch/issues/11929",
                stack=r"\bin _worker_loop\b",
                means="the loader's processes share one HDF5 file that was opened before they began, so their reads are mixed",
                next="open the file in each loader process (at its first `__getitem__`, or in `worker_init_fn`), not in `__init__`",
            ),
            Form(
                cause="ranks",
                texts=(),
                regex=r"IndexError: list index out of range",
                stack=r"/webdataset\.py\", line \d+, in _split_generators",
                source="https://github.com/huggingface/datasets/issues/8201",
                means="the data set has no file (shard) for this node: it has fewer than there are nodes or ranks, or its pattern matches none",
                check="the number of files that its pattern matches on each node",
                next="make more, smaller shards than there are ranks, give each rank all of them and split by sample, or use fewer nodes",
            ),
            Form(
                cause="no-network",
                texts=(
                    "Curl returned error code {1}",
                    "UnknownError: {}Unable to connect to endpoint",
                    "botocore.exceptions.ConnectionClosedError: {1}",
                    "fsspec.exceptions.FSTimeoutError",
                ),
                source="https://github.com/allenai/scirepeval/issues/48",
                means="an object store did not answer in time, or closed the connection",
                check="how many processes read from it or write to it at once, and its address from a compute node",
                next="stage the data on the nodes (`data`), write checkpoints to a file system and copy them afterwards, or let fewer processes ask at once",
                passing=True,
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "The features can't be aligned because",
                    "Couldn't cast array of type {1} to",
                    "CastError: Couldn't cast",
                    "ArrowInvalid: Schema at index {1} was different",
                ),
                source=_HF + "datasets/blob/main/src/datasets/table.py",
                means="the files of a data set do not have the same columns, or types of them",
                check="the columns of each file (`pyarrow.parquet.read_schema`)",
                next="load files of one kind together (`data_files`), or give `features` for all of them",
            ),
            Form(
                cause="no-access",
                texts=(),
                regex=r"(?:CAS service error|Xet|xet).*\bStatus\((?:401|403)\)",
                source="https://github.com/huggingface/xet-core/issues/238",
                means="the storage of Hugging Face refused an address that it had signed: the address had expired, or a proxy changed it",
                check="`date` on the node, and whether `https_proxy` is set in the job",
                next="name it under `data` (as `hf://ORG/NAME`), and `dlrun submit` downloads it; or `environment.variables: {HF_HUB_DISABLE_XET: 1}`",
            ),
            Form(
                cause="no-network",
                texts=("CAS service error : {1}",),
                source="https://github.com/meta-pytorch/torchforge/pull/109",
                means="the storage of Hugging Face (Xet) did not answer, or the connection to it broke",
                next="name it under `data` (as `hf://ORG/NAME`), and `dlrun submit` downloads it; or `environment.variables: {HF_HUB_DISABLE_XET: 1}`",
            ),
            Form(
                cause="loader",
                texts=("One of the subprocesses has abruptly died during map operation",),
                source=_HF + "datasets/blob/main/src/datasets/utils/py_utils.py",
                means="a process that maps a data set ended; often it was killed for memory",
                next="run `map` once with `num_proc=1` to see its own error; use fewer processes, or more `resources.memory_per_node`",
                consequence=True,
            ),
        ),
    ),
)
