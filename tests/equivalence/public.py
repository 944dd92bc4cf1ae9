"""Public batch scripts, compared as those of `cases/` are: makes the table `public.tsv` of a folder with the scripts.

    python -m tests.equivalence.public FOLDER [-j PROCESSES] [-o TABLE]

The scripts are others' work and not part of dlrun: the table names repository, path and commit of each. For each script `X` the
folder has `X.src` with these three, separated by tabs. Differences go to stdout, and to `X.result`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dlrun.importing import read_script
from tests.equivalence.compare import Comparison, compare

ARGUMENTS = ("main.py", "two", "3", "4")
"""Given to the scripts that read arguments, and to their import."""
MEANINGS = {
    "equal": "exit code 0, and each rank was the same",
    "check": "exit code 5, with a draft and what is to be checked",
    "differs": "exit code 0, and a difference",
    "refused": "another exit code",
    "error": "the sandbox could not run it",
    "unfit": "neither the script nor its import starts anything in the sandbox",
}


def _compared(path: Path) -> tuple[Path, Comparison]:
    text = path.read_text("utf-8", "replace")
    draft = read_script(text, path.name)
    if any("arguments of the script" in entry.because for entry in draft.to_check):
        draft = read_script(text, path.name, arguments=ARGUMENTS)
        arguments = ARGUMENTS
    else:
        arguments = ()
    try:
        # What is to be checked needs no run: the import says so itself.
        made = Comparison("check") if draft.to_check else compare(text, *arguments)
    except Exception as error:  # noqa: BLE001 - a script that the sandbox cannot run is a line of the table, too
        made = Comparison("error", [f"{type(error).__name__}: {error}"])
    path.with_name(f"{path.name}.result").write_text(
        json.dumps({"verdict": made.verdict, "differences": made.differences, "result": made.result}), "utf-8"
    )
    return path, made


def main() -> None:
    """Compare each script of a folder, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("-j", type=int, default=2, metavar="PROCESSES")
    parser.add_argument("-o", type=Path, default=Path(__file__).with_name("public.tsv"), metavar="TABLE")
    given = parser.parse_args()
    scripts = sorted(path.with_suffix("") for path in given.folder.glob("*.src"))
    rows, counted = [], Counter[str]()
    with ThreadPoolExecutor(given.j) as pool:
        for path, made in pool.map(_compared, scripts):
            print(f"{made.verdict:8} {path.name}", *made.differences[:4], sep="\n    ", flush=True)
            counted[made.verdict] += 1
            source = path.with_name(f"{path.name}.src").read_text("utf-8").strip()
            rows.append(f"{source}\t{made.verdict}")
    given.o.write_text(
        "repository\tpath\tcommit\tverdict\n" + "".join(f"{row}\n" for row in sorted(rows)), "utf-8"
    )
    for verdict, number in counted.most_common():
        print(f"{number:5} {verdict}: {MEANINGS[verdict]}")


if __name__ == "__main__":
    main()
