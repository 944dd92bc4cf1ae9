"""LMDB: each worker opens it, without a lock file, which would be an additional file beside the staged data.

python lmdb_records.py /local/dlrun-ada/records/data
"""

import os
import sys

import lmdb
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Records(Dataset):
    """The records of an LMDB, in the order of their keys."""

    def __init__(self, path: str) -> None:
        self.path, self.opened = path, None
        with lmdb.open(path, readonly=True, lock=False) as opened, opened.begin() as reading:
            self.keys = [bytes(key) for key in reading.cursor().iternext(values=False)]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, number: int) -> tuple[str, int]:
        if self.opened is None:
            self.opened = lmdb.open(self.path, readonly=True, lock=False, readahead=False)
        with self.opened.begin() as reading:
            return self.keys[number].decode(), len(reading.get(self.keys[number]))


def main() -> None:
    """Read one epoch."""
    data = Records(sys.argv[1])
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    for keys, _sizes in DataLoader(
        data, batch_size=4, sampler=DistributedSampler(data, ranks, rank), num_workers=2
    ):
        print(*keys, flush=True)


if __name__ == "__main__":
    main()
