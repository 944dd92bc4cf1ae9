"""A PyTorch `Dataset` over a pack (`strategy: pack`): one tar file, and an index, so that each sample takes one read.

python pack.py /local/dlrun-ada/images/data/images.tar
"""

import os
import sys
from pathlib import Path

from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pack(Dataset):
    """The files of a pack: their names and bytes. The index has a record `offset size name` for each, ended by a zero byte."""

    def __init__(self, path: str) -> None:
        records = Path(path + ".index").read_bytes().split(b"\0")[:-1]
        self.index = [record.split(b" ", 2) for record in records]
        self.file = os.open(
            path, os.O_RDONLY
        )  # worker processes may share it: pread does not use the file position

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> tuple[str, bytes]:
        offset, size, name = self.index[number]
        return os.fsdecode(name), os.pread(self.file, int(size), int(offset))


def main() -> None:
    """Read one epoch."""
    data = Pack(sys.argv[1])
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    sampler = DistributedSampler(
        data, ranks, rank
    )  # every node has the whole pack, so a global sampler is correct
    for batch in DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, collate_fn=list):
        print(*(name for name, _ in batch), sum(len(content) for _, content in batch), flush=True)


if __name__ == "__main__":
    main()
