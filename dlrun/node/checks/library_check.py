"""An all-reduce and a ring of messages over all ranks, with the training's communication library.

Runs in a child process of `check-rank` (check_rank.py) with the first installed one of `torch` (NCCL or RCCL with GPUs,
else Gloo) and `mpi4py`. The library's log lines about its transport go to the rank's log, where dlrun reads them.
Prints one line: `dlrun-library` and JSON.
"""

import importlib
import importlib.util
import json
import os
import site
import sys
from array import array
from datetime import timedelta
from typing import Any, Dict, List

from .check_network import number, publish, published

TIMEOUT = 240.0
"""Seconds that a rank waits for the others: imports from a cold file system take minutes on some nodes."""
COUNT = 1 << 18
"""Elements of 4 bytes in the all-reduce: 1 MiB."""

Result = Dict[str, Any]


def by_torch(rank: int, world: int) -> Result:
    """Test torch.distributed; its exceptions pass through."""
    torch, dist = importlib.import_module("torch"), importlib.import_module("torch.distributed")
    gpus = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "nccl" if gpus else "gloo"
    timeout = timedelta(seconds=TIMEOUT)
    address = os.environ["DLRUN_MASTER_ADDR"]
    if rank == 0:
        # A port of its own: the framework's agent may listen on that of the rendezvous.
        store = dist.TCPStore(address, 0, world, True, timeout=timeout, wait_for_workers=False)
        publish("library-port", store.port)
    else:
        store = dist.TCPStore(
            address, int(published("library-port", TIMEOUT)[0]), world, False, timeout=timeout
        )
    device = torch.device("cpu")
    if gpus:
        local = number("LOCAL_RANK")
        device = torch.device("cuda", local % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    numbers = torch.full((COUNT,), float(rank + 1), device=device)
    previous = torch.zeros(1, device=device)
    ring = [
        dist.P2POp(dist.isend, numbers[:1].clone(), (rank + 1) % world),
        dist.P2POp(dist.irecv, previous, (rank - 1) % world),
    ]
    for request in dist.batch_isend_irecv(ring):
        request.wait()
    dist.all_reduce(numbers)
    least, most = int(numbers.min()), int(numbers.max())
    # A barrier, because rank 0 serves the store, which other ranks may still need.
    dist.barrier()
    dist.destroy_process_group()
    version = "torch {}".format(torch.__version__)
    seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "by": version,
        "backend": backend,
        "gpus": seen,
        "sums": [least, most],
        "before": int(previous) - 1,
    }


def by_mpi4py(rank: int, world: int) -> Result:
    """Test MPI; raises RuntimeError if MPI's number of ranks is not the job's."""
    mpi = importlib.import_module("mpi4py.MPI")
    ranks = mpi.COMM_WORLD
    if ranks.Get_size() == 1 < world:
        msg = "each rank is alone: MPI has 1 rank, not {}; its process manager is not that of the launcher".format(
            world
        )
        raise RuntimeError(msg)
    if ranks.Get_size() != world:
        msg = "MPI has {} ranks, not {}".format(ranks.Get_size(), world)
        raise RuntimeError(msg)
    numbers, sums = array("i", [rank + 1]) * COUNT, array("i", [0]) * COUNT
    ranks.Allreduce(numbers, sums)
    previous = ranks.sendrecv(rank, dest=(rank + 1) % world, source=(rank - 1) % world)
    library = mpi.Get_library_version().splitlines()[0].split(",")[0].strip("\0 ")
    return {"by": library, "backend": "mpi", "sums": [min(sums), max(sums)], "before": previous}


LIBRARIES = {"torch": by_torch, "mpi4py": by_mpi4py}


def main(libraries: List[str]) -> int:
    """Print the result. Exit status 0 also after a failed test: the result has the error."""
    rank = number("RANK")
    world = number("WORLD_SIZE")
    # This Python runs isolated, so that no file of the user's replaces one of its own library; theirs follow those now.
    sys.path += [
        place for place in os.environ.get("PYTHONPATH", "").split(":") if place and place not in sys.path
    ]
    sys.path.append(site.getusersitepackages())
    installed = [way for way in libraries if importlib.util.find_spec(way) is not None]
    result = {"rank": rank}  # type: Result
    if installed:
        try:
            result.update(LIBRARIES[installed[0]](rank, world))
        except Exception as error:  # noqa: BLE001 - whatever a library raises is its answer
            result.update(by=installed[0], failed=(str(error).strip() or repr(error)).splitlines()[0][:300])
    sys.stdout.write("dlrun-library " + json.dumps(result) + "\n")
    sys.stdout.flush()
    if "failed" in result:
        # Not a return: a library that has failed may hang in its exit handlers.
        os._exit(0)
    return 0
