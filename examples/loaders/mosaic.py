"""MosaicML streaming over staged MDS shards: `local` is the staged directory, and there is no `remote`.

python mosaic.py /local/dlrun-ada/mds/data
"""

import sys

from streaming import StreamingDataset
from torch.utils.data import DataLoader


def main() -> None:
    """Read one epoch; the data set divides itself by RANK, WORLD_SIZE and LOCAL_WORLD_SIZE."""
    data = StreamingDataset(local=sys.argv[1], shuffle=False, batch_size=4)
    for batch in DataLoader(data, batch_size=4, num_workers=2):
        print(*batch["name"], flush=True)


if __name__ == "__main__":
    main()
