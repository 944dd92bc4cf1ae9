"""Table of sbatch options that are mutually exclusive or need a minimum version of Slurm.

From SchedMD's CHANGELOG and sbatch(1) of the versions named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dlrun.schedulers.directive_list import DirectiveList


@dataclass(frozen=True, slots=True)
class Clash:
    """Two options that Slurm from version `since` on rejects, or resolves silently, when given together."""

    one: str
    other: str
    why: str
    since: tuple[int, int] = (0, 0)


CLASHES = (
    Clash("--gpus-per-node", "--gres=gpu", "sbatch(1): GPUs can be requested in one form only"),
    Clash("--gpus-per-task", "--gres=gpu", "sbatch(1): GPUs can be requested in one form only"),
    Clash("--mem", "--mem-per-cpu", "sbatch(1): memory can be requested in one form only"),
    Clash("--mem", "--mem-per-gpu", "sbatch(1): memory can be requested in one form only"),
    Clash("--exclusive", "--oversubscribe", "Slurm 23.02 and later reject them together", (23, 2)),
    Clash("--cpus-per-task", "--cpus-per-gpu", "Slurm 23.11 and later reject them together", (23, 11)),
)

NEEDS = {
    "--prefer": (22, 5),
    "--tres-per-task": (23, 2),
    "--network=disable_rdzv_get": (23, 11),
    "--stepmgr": (24, 5),
}
"""Option -> the first Slurm version that has it."""


def version(text: str | None) -> tuple[int, int] | None:
    """`23.11.4` -> (23, 11); None if the text is None or not a version."""
    match = re.match(r"(\d+)\.(\d+)", text or "")
    return (int(match[1]), int(match[2])) if match else None


def check_rules(draft: DirectiveList) -> None:
    """Report mutually exclusive options, and options that the site's Slurm is too old for."""
    here = version(draft.site.version)
    for clash in CLASHES:
        # An unknown version counts as the newest: all clashes apply, and all options exist.
        if (here or (99, 0)) >= clash.since and _has(draft, clash.one) and _has(draft, clash.other):
            draft.problem(f"`{clash.one}` and `{clash.other}` cannot be combined", clash.why, "options")
    for option, first in NEEDS.items():
        if here and here < first and _has(draft, option):
            draft.problem(
                f"`{option}` needs Slurm {first[0]}.{first[1]:02d}, and this site has {draft.site.version}",
                "remove it here",
                "options",
            )


def _has(draft: DirectiveList, option: str) -> bool:
    """True if the draft has this option (`--mem` does not match `--mem-per-cpu`)."""
    end = "" if "=" in option else r"(?:[= ]|$)"
    return any(re.match(re.escape(option) + end, text) for text in draft.texts())
