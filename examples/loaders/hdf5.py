"""HDF5: each worker opens the file itself, because forked processes must not share an open HDF5 file.

python hdf5.py /local/dlrun-ada/images/data/images.h5
"""

import os
import sys

import h5py
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Images(Dataset):
    """The rows of the data set `images`."""

    def __init__(self, path: str) -> None:
        self.path, self.file = path, None
        with h5py.File(path, "r") as file:
            self.length = len(file["images"])

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return number, self.file["images"][number]


def main() -> None:
    """Read one epoch."""
    data = Images(sys.argv[1])
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    for numbers, rows in DataLoader(
        data, batch_size=4, sampler=DistributedSampler(data, ranks, rank), num_workers=2
    ):
        print(*numbers.tolist(), tuple(rows.shape), flush=True)


if __name__ == "__main__":
    main()
