"""Stands in for a program with oneCCL: each rank's workers have cores that no rank computes on."""

import os

from training import NODE, expect, train

cores = [int(cpu) for cpu in os.environ["CCL_WORKER_AFFINITY"].split(",")]
expect("worker cores", len(set(cores)), NODE.size * int(os.environ["CCL_WORKER_COUNT"]))
expect("CCL_ATL_TRANSPORT", os.environ["CCL_ATL_TRANSPORT"], "mpi")
for rank, theirs in enumerate(NODE.allgather(os.sched_getaffinity(0))):
    expect(f"cores that are both rank {rank}'s and a worker's", theirs & set(cores), set())
train()
