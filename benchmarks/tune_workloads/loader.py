"""A training that waits for its data: each batch takes 40 ms of a remote storage's time, the step 6 ms, with almost no CPU.

    loader.py WORKERS PREFETCH READ

READ is the number of batches that one request fetches: more save latency (25 ms of the 40) and make loaders wait longer.
Processes simulate loaders, with a queue of PREFETCH batches per loader between them and the step.
"""

import multiprocessing
import sys
import time

BATCH, LATENCY, TRANSFER, STEP = 32, 0.025, 0.015, 0.006


def load(queue, read):
    """A loader: requests to the storage, one after the other."""
    while True:
        time.sleep(LATENCY + read * TRANSFER)
        for _ in range(read):
            queue.put(None)


def main(workers, prefetch, read):
    """Train for 90 steps; the first 30 fill the queues."""
    queue = multiprocessing.Queue(workers * prefetch)
    for _ in range(workers):
        multiprocessing.Process(target=load, args=(queue, read), daemon=True).start()
    for part in range(3):
        began = time.monotonic()
        for _ in range(30):
            queue.get()
            time.sleep(STEP)
        if part:
            print(f"throughput: {30 * BATCH / (time.monotonic() - began):.1f} samples/s", flush=True)


main(*map(int, sys.argv[1:]))
