"""How fast data reaches nodes, compared with other tools on the same machine in the same run.

    python benchmarks/staging.py [--scale F] [--rounds R] [--only large,small,...] [--dir PATH]

large   one file of 4 GB to one node; the limit of the disk is measured by `fio` and `dd` with the same amount
small   50,000 files of 33 KB to one node; the limit is a C program that only copies, with two processes, and the same
        program with the calls for size, attributes and times that dlrun's guarantees need
tiny    200,000 files of 4 KB to one node
slow    5,000 files of 33 KB from a source with a slow metadata server (a FUSE file system: needs libfuse3)
warm    the files of `small` once more: nothing is copied
delta   20,000 files of 8 KB of which 1 % were rewritten: the next version by dlrun, and by rsync and rclone in place
reads   random reads per second from the staged files, from the same set packed, as a mounted image, and from LMDB
objects 2,000 objects of 33 KB and one of 200 MB from an S3 server of the tests (`moto_server`, in this machine's memory), by
        dlrun, which lets s5cmd fetch the small ones, and by the clients alone
chain   256 MB, as one file and as 20,000 small ones, from one host to N others over links limited to --link Mbit/s
        (network namespaces: needs root, `ip` and `tc`), with a node killed half-way, with one and with two at
        a quarter of the rate, compared with N rsync clients and `sbcast` on a Slurm of the tests (tests/cluster)
start   training that begins with a tenth of its 400 files of 1 MB, from a source of 40 MB per second, compared with
        training that begins when all is staged: the first batch, the first epoch (8 seconds' work) and its end; the last
        row has the ratios
relay   the CPU time of a node in the middle of a chain
model   the cost model of chain and tree for many nodes, fitted to `chain`; a computation, not a measurement

Sizes and numbers of files are multiplied by --scale. There are R rounds, each with all ways in another random order; a row
has median and minimum of the times until the data is on the disk (`sync`), and the median ratio to dlrun's time in the same
round. Peers that are not installed are listed and skipped. dlrun runs with the
Python that runs this program, and hashes with XXH3 if that has xxhash.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from staging_parts import chain, here, objects, start
from staging_parts.bench import Bench

PARTS = {
    "large": here.large,
    "small": here.small,
    "tiny": here.tiny,
    "slow": here.slow,
    "warm": here.warm,
    "delta": here.delta,
    "reads": here.reads,
    "objects": objects.objects,
    "start": start.start,
    "chain": chain.chain,
    "relay": chain.relay,
    "model": chain.model,
}
KINDS = ("one", "small", "killed", "slow", "two", "rsync", "sbcast")


def arguments():
    """The options of this run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--ways", help="only these rows besides dlrun, separated by commas")
    parser.add_argument("--dir", help="where to work; a disk like the nodes' own")
    parser.add_argument(
        "--image", type=int, default=0, metavar="GB",
        help="copy to a new file system of this size for every way (needs root)",
    )  # fmt: skip
    parser.add_argument("--link", type=int, default=400, metavar="MBIT", help="rate of every link in `chain`")
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=[1, 2, 4, 8], help="hosts in `chain` besides the head"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="rows of `chain`, separated by commas")
    given = parser.parse_args()
    given.only, given.kinds = given.only.split(","), given.kinds.split(",")
    for asked, there, what in ((given.only, PARTS, "part"), (given.kinds, KINDS, "kind")):
        unknown = [name for name in asked if name not in there]
        if unknown:
            parser.error(f"no {what} `{unknown[0]}`; there are {', '.join(there)}")
    return given


def main():
    """Run the selected parts."""
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that namespaces and files are removed
    bench = Bench(given)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, hash {here.hash_of(bench)}")
    try:
        for name in given.only:
            PARTS[name](bench)
    finally:
        bench.close()


if __name__ == "__main__":
    main()
