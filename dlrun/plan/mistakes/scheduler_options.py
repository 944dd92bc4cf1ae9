"""Options of the scheduler under `resources.options`: misspelt names, values that it does not know, and those to be filled in."""

from __future__ import annotations

import re

from dlrun import backends
from dlrun.model.nearest import nearest
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.decisions import Ledger
from dlrun.plan.mistakes.placeholders import is_name

_MAIL = lazy_pattern(
    r"(?:your|my)?[-_.]?(?:e?-?mail|address|name|user)s?@(?:example\.\w+|.*\.\.\.|your.*)|.*@example\.(?:com|org)|your.*",
    re.IGNORECASE,
)
_MAIL_TYPES = frozenset(
    {
        "NONE",
        "BEGIN",
        "END",
        "FAIL",
        "REQUEUE",
        "ALL",
        "INVALID_DEPEND",
        "STAGE_OUT",
        "TIME_LIMIT",
        "TIME_LIMIT_90",
        "TIME_LIMIT_80",
        "TIME_LIMIT_50",
        "ARRAY_TASKS",
    }
)
"""Words of sbatch's --mail-type (sbatch(1), Slurm 25.05)."""


def check(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each option that does nothing, or not what was meant."""
    table = backends.scheduler(site.scheduler.type).OPTIONS
    for name, value in spec.resources.options.items():
        key = f"resources.options.{name}"
        if near := table.misspelt(name):
            ledger.problem(
                "DLR133",
                f"`{name}` is not an option of {site.scheduler.type}",
                key,
                help=f"the nearest is `{near}`",
            )
        elif name == "mail-type" and (
            wrong := [mail_type for mail_type in value.split(",") if mail_type.upper() not in _MAIL_TYPES]
        ):
            close = nearest(wrong[0].upper(), _MAIL_TYPES)
            ledger.problem(
                "DLR133",
                f"`mail-type` has no `{wrong[0]}`",
                key,
                help=f"the nearest is `{close}`"
                if close
                else "write `END`, `FAIL`, `BEGIN`, several with commas, or `ALL`",
            )
        elif is_name(value) or (name in ("mail-user", "M") and _MAIL.fullmatch(value)):
            ledger.problem(
                "DLR125",
                f"`{value}` is a placeholder, not a value of `{name}`",
                key,
                help="write the one that you mean, or leave the option out",
            )
