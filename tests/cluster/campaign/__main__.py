"""Force the faults by hand: `python -m tests.cluster.campaign [--scheduler pbs] [--only NAME]... [--json FILE]`.

It prints a table: the fault, the seconds from it to the job's end, the cause that `dlrun why` names and whether it is the
right one, and the processes that are left on any node. The exit code is 1 if a cause is wrong or a process is left. By hand
and nightly; `test_campaign.py` runs ten of the faults.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.cluster.campaign import run
from tests.cluster.campaign.every import of
from tests.cluster.campaign.grounds import GROUNDS, cluster


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign by hand."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign", description=__doc__)
    parser.add_argument("--scheduler", choices=[*GROUNDS], default="slurm", help="default: slurm")
    parser.add_argument("--only", action="append", default=[], help="faults whose names begin so")
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts")
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--at-once", type=int, default=3, help="faults of programs side by side (default 3)")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file")
    options = parser.parse_args(arguments)
    ground = GROUNDS[options.scheduler]
    chosen = [f for f in of(ground) if not options.only or f.name.startswith(tuple(options.only))]
    part, parts = map(int, options.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    if options.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    skipped = [f"{fault.name}: {reason}" for fault in chosen if (reason := fault.why_not())]
    chosen = [fault for fault in chosen if not fault.why_not()]
    print(run.HEAD, flush=True)
    with cluster(ground) as up:
        outcomes = run.run(up, ground, chosen, options.at_once)
    print(run.summary(outcomes))
    for text in skipped:
        print(f"  skipped: {text}")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1) + "\n")
    return 0 if all(one.well for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
