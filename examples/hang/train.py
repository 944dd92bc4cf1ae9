"""Two ranks that wait for each other in every step; rank 1 waits for a file that never comes in step 3."""

import os
import time
from pathlib import Path

RANK = int(os.environ["RANK"])


def reads_data(step):
    """Wait for the data of a step."""
    while step == 3 and RANK == 1 and not Path("shard-3.tar").exists():
        time.sleep(1)


def all_reduce(step):
    """Wait for the other rank."""
    Path(f"{step}.{RANK}").touch()
    while not Path(f"{step}.{1 - RANK}").exists():
        time.sleep(0.1)


for step in range(1, 6):
    reads_data(step)
    all_reduce(step)
    print(f"step {step} done", flush=True)
