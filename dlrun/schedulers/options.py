"""The options of a scheduler's clients as one table: what each means in a spec, whether dlrun writes it, how it is named.

The table answers which key replaces an option under `resources.options`, whether the option sets what a site forbids, and
what a directive of a batch script means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from dlrun.model.nearest import SLIP, nearest
from dlrun.model.record import record
from dlrun.model.site import Option, SchedulerSite
from dlrun.model.text import lazy_pattern

Read = Callable[[str], Mapping[str, object] | None]
"""The value of an option in a batch script -> keys of the spec with their values; None if the user has to look at it."""


@record(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """Options with one meaning.

    `names` without dashes; those with `NAME:` before them stand in the value of the option NAME, as `l:walltime` in
    `-l walltime=1:00`. `key` replaces them in a spec. `written`: dlrun writes them, so that `resources.options` may not.
    `part` is the part of a request that they set, as in `scheduler.forbidden` of a site profile; with `pattern`, only if
    their value contains that regular expression. `read` converts the value in a batch script (a key `count.tasks` is a
    number of `SpecDraft.counts`); without it the value is that of `key`. `reason` is why a spec does not need the option.
    """

    names: tuple[str, ...]
    key: str
    part: Option | None = None
    written: bool = False
    pattern: str = ""
    read: Read | None = None
    reason: str = ""


def written(names: str, key: str, part: Option | None = None, read: Read | None = None) -> OptionRow:
    """Options that dlrun writes itself, separated by blanks."""
    return OptionRow(names=tuple(names.split()), key=key, part=part, written=True, read=read)


def optional(names: str, key: str, part: Option, *, pattern: str = "", read: Read | None = None) -> OptionRow:
    """Options that a spec may also have under `resources.options`, separated by blanks."""
    return OptionRow(names=tuple(names.split()), key=key, part=part, pattern=pattern, read=read)


def not_needed(names: str, reason: str, *, written: bool = False) -> OptionRow:
    """Options of batch scripts that a spec does not need, and why; `resources.options` may have them unless `written`."""
    return OptionRow(names=tuple(names.split()), key=reason, reason=reason, written=written)


@record(frozen=True, slots=True, kw_only=True)
class Use:
    """An option as a spec has it (`text`: `J`, or `l` with `h_vmem`), its `name` in the table, and its row if it has one."""

    text: str
    name: str
    row: OptionRow | None


# Names in `a=1,b>=2`, in chunks `2:ncpus=4+1:mem=8gb`, and without a value between commas.
_MEMBER = lazy_pattern(
    r"(?:^|[,:+])\s*([A-Za-z_][\w.-]*)\s*(?=[=<>!])|(?:^|,)\s*([A-Za-z_][\w.-]*)\s*(?=,|$)"
)


class OptionTable:
    """The options of one scheduler.

    `lists`: options whose value is a list of NAME=VALUE. `resources`: the one of them that has all names longer than a
    letter (`walltime` under `resources.options` is `-l walltime`), except `long`. `abbreviated`: the client accepts the
    beginning of a long name, as getopt_long(3) does. `others`: all further long options; without them, no name is checked.
    """

    def __init__(
        self,
        rows: Sequence[OptionRow] = (),
        *,
        lists: str = "",
        resources: str = "",
        long: str = "",
        abbreviated: bool = False,
        others: str = "",
    ) -> None:
        self.rows = rows
        self.long = frozenset(long.split())
        self._lists = frozenset(lists.split())
        self._resources = resources
        self._abbreviated = abbreviated
        self._named = {name: row for row in rows for name in row.names}
        self._others = frozenset(others.split())

    def uses(self, name: str, value: str) -> Iterator[Use]:
        """What `name: value` under `resources.options` sets: one option, or those in its value."""
        bare = self._whole_name(name.lstrip("-"))
        row = self._named.get(bare)
        if self._resources and len(bare) > 1 and row is None and bare not in self.long:
            row = self._named.get(f"{self._resources}:{bare}")
        if bare in self._lists:
            for with_value, alone in _MEMBER.findall(value):
                member = with_value or alone
                yield Use(
                    text=f"`{name}` with `{member}`", name=member, row=self._named.get(f"{bare}:{member}")
                )
        yield Use(text=f"`{name}`", name=bare, row=row)

    def part(self, use: Use, value: str, site: SchedulerSite) -> Option | None:
        """The part of a request that a use of an option sets at a site, which may have names of its own for some."""
        complexes = site.complexes
        of_site: dict[str | None, Option] = {
            (site.account.option or "").lstrip("-").rstrip("= "): "account",
            complexes.memory: "memory",
            complexes.gpu: "gpus",
            complexes.exclusive: "exclusive",
        }
        if use.row is None:
            return of_site.get(use.name)
        return use.row.part if re.search(use.row.pattern, value) else None

    def row(self, name: str) -> OptionRow | None:
        """The row of an option in a batch script, without dashes; None for other options."""
        return self._named.get(self._whole_name(name))

    def begun_by(self, name: str) -> list[str]:
        """The long names that the client takes a long name for: itself, else all that begin with it (it rejects several)."""
        known = {*self._others, *(option for option in self._named if len(option) > 1)}
        if not name or name in known or not self._abbreviated:
            return [name]
        return sorted(option for option in known if option.startswith(name))

    def misspelt(self, name: str) -> str | None:
        """The nearest option to a name that the client does not have; None if it has it, or if none is near."""
        bare = name.lstrip("-")
        known = {*self._others, *(option for option in self._named if len(option) > 1)}
        # Plug-ins add options to a client, so a name that is far from all is left alone.
        if not self._others or len(bare) < 2 or any(option.startswith(bare) for option in known):
            return None
        return nearest(bare, known, cutoff=SLIP)

    def _whole_name(self, name: str) -> str:
        if not self._abbreviated or name in self._named or len(name) < 2:
            return name
        longer = [known for known in self._named if len(known) > 1 and known.startswith(name)]
        # A beginning of options with different meanings is ambiguous, and the client rejects it.
        return longer[0] if len({id(self._named[known]) for known in longer}) == 1 else name
