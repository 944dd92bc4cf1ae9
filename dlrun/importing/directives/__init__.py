"""Directives of batch scripts: `read` converts them to keys of the spec; a module for each scheduler's qsub."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from dlrun import backends
from dlrun.importing.directives import flux, foreign, gridengine, pbs, slurm
from dlrun.importing.directives.table import TableReader
from dlrun.importing.draft import SpecDraft

_LANGUAGES: tuple[tuple[ModuleType, bool], ...] = (
    (slurm, True),
    (pbs, True),
    (gridengine, False),
    (flux, False),
)
"""Module, and whether its scheduler reads no directives after the first command."""
_IGNORED = "the scheduler reads no directives after the first command"
STARTS_AT_HOME = (pbs, gridengine)
"""Schedulers that start a job in the home directory."""


def read(text: str, draft: SpecDraft) -> set[object]:
    """Read all directives of a script; the readers of the schedulers that it is written for."""
    used: set[object] = set()
    languages: tuple[tuple[ModuleType | TableReader, bool], ...] = (*_LANGUAGES, *_of_other_packages())
    commands = False
    for number, line in enumerate(text.splitlines(), start=1):
        draft.line = number
        for module, stops in languages:
            if match := module.LINE.match(line):
                if commands and stops:
                    draft.leave(number, line.strip(), _IGNORED)
                else:
                    if not used and module in STARTS_AT_HOME:
                        draft.starts_in_submit_directory = False
                    used.add(module)
                    module.directive(number, match[1], draft)
                    if draft.tasks and "sweep" not in draft.origins:
                        draft.came_from("sweep")
                break
        else:
            if match := foreign.LINE.match(line):
                used.add(foreign)
                foreign.directive(number, match[1], match[2], draft)
            commands = commands or bool(line.strip() and not line.lstrip().startswith("#"))
    draft.line = 0
    if len(used) > 1:
        draft.check(
            1, "", "directives of several schedulers: which of them apply depends on where it is submitted"
        )
    return used


def _of_other_packages() -> Iterator[tuple[TableReader, bool]]:
    """A reader for each scheduler of another package that has a table of options."""
    for name in backends.elsewhere("schedulers"):
        back_end = backends.scheduler(name)
        if back_end.PREFIX and back_end.OPTIONS.rows:
            yield TableReader(back_end), False


def settle(used: set[object], draft: SpecDraft) -> None:
    """Convert what depends on the launch line, after it was read."""
    for module in (flux, gridengine):
        if module in used:
            module.settle(draft)


def anywhere(used: set[object]) -> tuple[str, ...]:
    """The profile that stands for any site of a script's scheduler, and settings that it needs; empty without one."""
    found = [getattr(module, "ANYWHERE", ()) for module in used or {slurm}]
    return found[0] if len(found) == 1 else ()
