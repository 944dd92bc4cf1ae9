"""TFRecord files that are still being copied (`start: 4 files`), read without TensorFlow.

python tfrecords.py /local/dlrun-ada/records/data [shard]
"""

import os
import sys

import dlrun_data  # from the job directory; outside of jobs: dlrun/node/dlrun_data.py
from tfrecord.reader import tfrecord_loader


def main() -> None:
    """Read one epoch: files are divided among ranks. With TensorFlow: `tf.data.TFRecordDataset(dlrun_data.wait(path))`."""
    local = (
        "LOCAL_" if sys.argv[2:] == ["shard"] else ""
    )  # each node has files of its own: its ranks divide them
    ranks, rank = int(os.environ.get(f"{local}WORLD_SIZE", "1")), int(os.environ.get(f"{local}RANK", "0"))
    for path in dlrun_data.files(sys.argv[1], "*.tfrecord")[rank::ranks]:
        for sample in tfrecord_loader(dlrun_data.wait(path), None, {"name": "byte"}):
            print(bytes(sample["name"]).decode(), flush=True)


if __name__ == "__main__":
    main()
