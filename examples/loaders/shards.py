"""WebDataset tar files that are still being copied (`start: 10%`): wait for each before it is opened.

python shards.py /local/dlrun-ada/shards/data [shard]
"""

import os
import sys

import dlrun_data  # from the job directory; outside of jobs: dlrun/node/dlrun_data.py
import webdataset as wds


def arrived(sources):
    """Yield each shard when it is complete."""
    for source in sources:
        dlrun_data.wait(source["url"])
        yield source


def of_this_rank(sources):
    """Divide shards among all ranks or, with `strategy: shard`, where each node has its own, among the ranks of the node."""
    local = "LOCAL_" if sys.argv[2:] == ["shard"] else ""
    ranks, rank = int(os.environ.get(f"{local}WORLD_SIZE", "1")), int(os.environ.get(f"{local}RANK", "0"))
    yield from list(sources)[rank::ranks]


def main() -> None:
    """Read one epoch: shards are divided among ranks, then among the workers of each."""
    urls = dlrun_data.files(sys.argv[1], "*.tar")  # all shards, in the order in which they are copied
    data = wds.DataPipeline(
        wds.SimpleShardList(urls), of_this_rank, wds.split_by_worker, arrived,
        wds.tarfile_to_samples(), wds.to_tuple("__key__", "txt"),
    )  # fmt: skip
    for key, content in wds.WebLoader(data, batch_size=None, num_workers=2):
        print(key, len(content), flush=True)


if __name__ == "__main__":
    main()
