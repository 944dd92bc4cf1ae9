"""Facts that are found on the submitting host before planning: the job's environment, sizes of data sets."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.model.record import record
from dlrun.model.units import Bytes


@record(frozen=True, slots=True, kw_only=True)
class Installed:
    """Python packages with their versions (names in lower case, `-` for `_`), and locks left by dead compilers.

    `packages` is None if the environment cannot be inspected (modules, containers, conda by name).
    """

    packages: Mapping[str, str] | None = None
    locks: tuple[str, ...] = ()

    def has(self, package: str) -> bool | None:
        """True if a package is installed; None if unknown."""
        return None if self.packages is None else package in self.packages

    def version(self, package: str) -> tuple[int, ...]:
        """The leading numbers of a package's version; empty if it is not installed or not known."""
        numbers: list[int] = []
        for part in (self.packages or {}).get(package, "").split("."):
            digits = part[: len(part) - len(part.lstrip("0123456789"))]
            if not digits:
                break
            numbers.append(int(digits))
        return tuple(numbers)


@record(frozen=True, slots=True, kw_only=True)
class DataSize:
    """Bytes and number of regular files of a source; `whole` is False if the scan was stopped early."""

    size: Bytes
    files: int
    whole: bool = True


@record(frozen=True, slots=True, kw_only=True)
class HubCopy:
    """A revision of a hub's repository that is in the user's store: its commit, directory, bytes and number of files."""

    commit: str
    directory: str
    size: Bytes
    files: int
