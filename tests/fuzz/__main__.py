"""At length: `python -m tests.fuzz [--cases N] [--first SEED] [AREA]...`; prints each bug with its area and seed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.areas import AREAS, case

SLOW = 2.0
"""Seconds of CPU that a case may take."""


def main() -> int:
    """Run cases of each area; 1 if there was a bug."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=1000, help="of each area")
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], default=[])
    asked = parser.parse_args()
    bad = 0
    for area in asked.areas or AREAS:
        kinds: Counter[str] = Counter()
        well = slow = 0
        begun = time.process_time()
        for seed in range(asked.first, asked.first + asked.cases):
            place, before = Path(tempfile.mkdtemp(prefix="dlrun-fuzz-")), time.process_time()
            try:
                well += case(area, place, seed)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                last = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} at {last.filename}:{last.lineno}"
                kinds[kind] += 1
                if kinds[kind] == 1:
                    print(f"{area} {seed}: {kind}: {str(error)[:1500]}", flush=True)
            if time.process_time() - before > SLOW:
                slow += 1
                print(f"{area} {seed}: {time.process_time() - before:.1f} s of CPU", flush=True)
            shutil.rmtree(place)
        bad += sum(kinds.values()) + slow
        print(f"{area}: {asked.cases} cases, {well} ended well, {sum(kinds.values())} bugs of {len(kinds)} kinds, {slow} slow, "
              f"{time.process_time() - begun:.0f} s of CPU", flush=True)  # fmt: skip
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
