"""Directives of batch scripts: `read` converts them to keys of the spec, by the module `batch_scripts` of each scheduler.

Such a module has `LINE`, a pattern whose group is what follows the prefix, and `directive`, which reads it. It may have
`settle`, which converts what depends on the launch line; `ANYWHERE`, the profile that stands for any site of the scheduler
and settings that it needs; `SUBMIT_DIRECTORY`, the variable with the directory of the submission; `UNTIL_COMMAND`, True if
the scheduler reads no directives after the first command; and `STARTS_AT_HOME`, True if it starts a job in the home directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dlrun import backends
from dlrun.importing.directives import foreign
from dlrun.schedulers.draft import SpecDraft
from dlrun.schedulers.slurm import batch_scripts as slurm
from dlrun.schedulers.table_reader import TableReader

SUBMIT_DIRECTORIES = tuple(
    reader.SUBMIT_DIRECTORY
    for reader in backends.parts("batch_scripts")
    if hasattr(reader, "SUBMIT_DIRECTORY")
)
"""The schedulers' variables with the directory of the submission."""
VARIABLES = rf"(?:{'|'.join(name.partition('_')[0] for name in SUBMIT_DIRECTORIES)}|LSB)_\w+"
"""Regular expression of the variables that schedulers set in a job."""
_IGNORED = "the scheduler reads no directives after the first command"


def read(text: str, draft: SpecDraft) -> list[Any]:
    """Read all directives of a script; the readers of the schedulers that it is written for."""
    used: list[Any] = []
    readers = tuple(_readers())
    commands = False
    for number, line in enumerate(text.splitlines(), start=1):
        draft.line = number
        for module in readers:
            if match := module.LINE.match(line):
                if commands and getattr(module, "UNTIL_COMMAND", False):
                    draft.leave(number, line.strip(), _IGNORED)
                else:
                    if not used and getattr(module, "STARTS_AT_HOME", False):
                        draft.starts_in_submit_directory = False
                    _use(module, used)
                    module.directive(number, match[1], draft)
                    if draft.tasks and "sweep" not in draft.origins:
                        draft.came_from("sweep")
                break
        else:
            if match := foreign.LINE.match(line):
                _use(foreign, used)
                foreign.directive(number, match[1], match[2], draft)
            commands = commands or bool(line.strip() and not line.lstrip().startswith("#"))
    draft.line = 0
    if len(used) > 1:
        draft.check(
            1, "", "directives of several schedulers: which of them apply depends on where it is submitted"
        )
    return used


def _use(reader: object, used: list[Any]) -> None:
    if reader not in used:
        used.append(reader)


def _readers() -> Iterator[Any]:
    """What reads directives: modules, then the tables of options of other packages' schedulers."""
    yield from backends.parts("batch_scripts")
    for name in backends.elsewhere("schedulers"):
        back_end = backends.scheduler(name)
        if back_end.PREFIX and back_end.OPTIONS.rows:
            yield TableReader(back_end)


def settle(used: list[Any], draft: SpecDraft) -> None:
    """Convert what depends on the launch line, after it was read."""
    for module in used:
        if hasattr(module, "settle"):
            module.settle(draft)


def anywhere(used: list[Any]) -> tuple[str, ...]:
    """The profile that stands for any site of a script's scheduler, and settings that it needs; empty without one."""
    profiles = [getattr(module, "ANYWHERE", ()) for module in used or [slurm]]
    return profiles[0] if len(profiles) == 1 else ()
