"""Feature extraction in NumPy, CPU-bound: normalise, tanh, project. Throughput is relative to CPU time, so that other work on
the machine does not count.

    features.py CHUNK IN_PLACE

CHUNK is the number of rows per operation: few cost interpreter time, many do not fit into the cache. IN_PLACE (0 or 1)
reuses one buffer.
"""

import sys
import time

import numpy as np

ROWS, COLUMNS = 1 << 17, 64


def main(chunk, in_place):
    """Seven passes over the rows, two to warm up."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    weights = draw.standard_normal((COLUMNS, 8), dtype=np.float32)
    mean, deviation = rows.mean(0), rows.std(0)
    out = np.empty((ROWS, 8), dtype=np.float32)
    buffer = np.empty((chunk, COLUMNS), dtype=np.float32)
    for part in range(7):
        began = time.process_time()
        for start in range(0, ROWS, chunk):
            if in_place:
                np.subtract(rows[start : start + chunk], mean, out=buffer)
                np.divide(buffer, deviation, out=buffer)
                np.tanh(buffer, out=buffer)
                np.matmul(buffer, weights, out=out[start : start + chunk])
            else:
                out[start : start + chunk] = (
                    np.tanh((rows[start : start + chunk] - mean) / deviation) @ weights
                )
        if part > 1:
            print(f"throughput: {ROWS / (time.process_time() - began):.0f} samples/s", flush=True)


main(*map(int, sys.argv[1:]))
