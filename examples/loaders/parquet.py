"""Parquet with `strategy: shard`: each node has a share of the files, and its ranks divide their row groups.

python parquet.py /local/dlrun-ada/tables/data
"""

import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Rows(IterableDataset):
    """The rows of this rank and this worker, from the files of this node."""

    def __init__(self, directory: str) -> None:
        self.paths = sorted(Path(directory).glob("*.parquet"))

    def __iter__(self):
        ranks, rank = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
        worker = get_worker_info()
        parts, part = (worker.num_workers, worker.id) if worker else (1, 0)
        groups = [
            (path, group) for path in self.paths for group in range(pq.ParquetFile(path).num_row_groups)
        ]
        for path, group in groups[rank * parts + part :: ranks * parts]:
            yield from pq.ParquetFile(path).read_row_group(group).to_pylist()


def main() -> None:
    """Read one epoch."""
    for batch in DataLoader(Rows(sys.argv[1]), batch_size=4, num_workers=2):
        print(*batch["name"], flush=True)


if __name__ == "__main__":
    main()
