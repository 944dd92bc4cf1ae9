"""Collects the directives of one request with their reasons, and all problems found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.site import SchedulerSite
from dlrun.model.text import lazy_pattern
from dlrun.schedulers.options import OptionTable

LONGEST = 8000
"""Maximum length of a directive in characters: sbatch and qsub read a line into a fixed buffer of 8192 bytes."""

# A newline in a value would begin a new line of the script; U+0085 and U+2028 also end a line for some readers.
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
# Field of the request -> its name in `scheduler.forbidden` of a site profile, if the two differ.
_OPTIONS = {"gpus_per_node": "gpus", "memory_per_node": "memory"}
INDEX = "{index}"
"""Placeholder in the path of a log file for the array task's index, in the scheduler's syntax."""


def with_gpu_type(request: Request, site: SchedulerSite, joined: str) -> Request:
    """The request with what selects nodes with GPUs of its type as a constraint, where the site's profile has that.

    `joined`: what is between two constraints, both of which must hold.
    """
    selects = site.gpu_types.get(request.gpu_type or "")
    if not selects:
        return request
    both = f"{request.constraint}{joined}{selects}" if request.constraint else selects
    return replace(request, gpu_type=None, constraint=both)


class DirectiveList:
    """The directives of one job; `finish` returns them or raises every problem at once.

    `origins`: field of the request -> where it was written.
    """

    def __init__(
        self, prefix: str, request: Request, site: SchedulerSite, origins: Mapping[str, Origin]
    ) -> None:
        self.prefix = prefix
        self.request = request
        self.site = site
        self._origins = origins
        self._directives: list[Directive] = []
        self._problems: list[Problem] = []

    def add(self, text: str, because: str, field: str | None = None) -> None:
        """Add one directive; `field` is the request's field that it expresses.

        Fields that the site forbids are left out; the plan's checks report them to the user.
        """
        if self.refused(field):
            return
        if _CONTROL.search(text):
            self.problem(
                f"a directive cannot contain control characters: {text!r}",
                "put it on one line of plain text",
                field,
            )
        elif len(text) > LONGEST:
            self.problem(
                f"the directive `{text[:40]}…` has {len(text)} characters; the maximum is {LONGEST}",
                "shorten it; fold host lists",
                field,
            )
        else:
            self._directives.append(
                Directive(text=text, because=because, origin=self._origins.get(field or ""))
            )

    def add_if_set(self, field: str, form: str, because: str, written: Callable[[Any], str] = str) -> None:
        """Add the directive of a field if the request sets it; `form` and `because` have `{}` for the value.

        `written` is how the value is written in the directive.
        """
        value = getattr(self.request, field)
        if value:  # no field of these may be 0: a walltime is at least 1 s
            self.add(form.format(written(value)), because.format(value), field)

    def add_account(self, option: str, because: str, quote: Callable[[str], str]) -> None:
        """Add the account, by the site's option for it or else the scheduler's."""
        option = self.site.account.option or option
        self.add_if_set("account", "{}", because, lambda account: with_value(option, quote(account)))

    def add_requeue(self, yes: str, no: str) -> None:
        """Add whether the scheduler may requeue the job."""
        if self.request.requeue:
            self.add(yes, "the scheduler may requeue the job", "requeue")
        else:
            self.add(no, "`on_failure` has no requeues", "requeue")

    def add_array(self, array: Callable[[int, int | None], str]) -> None:
        """Add the array of a sweep."""
        if points := self.request.array:
            self.add(array(points, self.request.at_once), f"{points} points of the sweep", "array")

    def refused(self, field: str | None) -> bool:
        """True if the site rejects jobs that set this field of the request."""
        return _OPTIONS.get(field or "", field) in self.site.forbidden

    def problem(self, message: str, help: str, field: str | None = None) -> None:
        """Report that this scheduler cannot express the request."""
        problem = Problem(message=message, help=help, origin=self._origins.get(field or ""))
        if problem not in self._problems:
            self._problems.append(problem)

    def lacks(self, scheduler: str, fields: Mapping[str, tuple[str, str]]) -> None:
        """Report each field of the request that is set; `fields`: field -> (the missing feature, the help text)."""
        for field, (what, way_out) in fields.items():
            if getattr(self.request, field):
                self.problem(f"{scheduler} does not support {what}", way_out, field)

    def user_options(self, table: OptionTable) -> Iterator[tuple[str, str]]:
        """The user's options, without leading dashes; those that dlrun writes itself are reported with the key for them."""
        for name, value in self.request.options.items():
            rows = ((use.text, use.row) for use in table.uses(name, value))
            own = next(((text, row.key) for text, row in rows if row is not None and row.written), None)
            if own:
                instead = own[1] if own[1].startswith("`") else f"use {own[1]}"
                self.problem(f"the option {own[0]} is set by dlrun", instead, "options")
            else:
                yield name.lstrip("-"), value

    def merge(
        self, option: str, value: Callable[[str], str | None], join: Callable[[list[str]], str]
    ) -> None:
        """Join several directives for one option, of which the scheduler would use only the last.

        `value` returns the option's value in a directive, or None for directives of other options.
        """
        # The joined directive is written at the place of the first one; its reasons are those of all.
        values_by_index = {
            i: text
            for i, directive in enumerate(self._directives)
            if (text := value(directive.text)) is not None
        }
        if len(values_by_index) < 2:
            return
        merged = [self._directives[i] for i in values_by_index]
        joined = Directive(
            text=option + join(list(values_by_index.values())),
            because="; ".join(dict.fromkeys(directive.because for directive in merged)),
            origin=next((directive.origin for directive in merged if directive.origin), None),
        )
        first = min(values_by_index)
        self._directives = [
            joined if i == first else directive
            for i, directive in enumerate(self._directives)
            if i == first or i not in values_by_index
        ]

    def texts(self) -> tuple[str, ...]:
        """The directives so far, as written after the prefix."""
        return tuple(directive.text for directive in self._directives)

    def add_options(self, table: OptionTable, quote: Callable[[str], str]) -> None:
        """Add the options of `resources.options`, their values quoted."""
        for bare, value in self.user_options(table):
            text = f"-{bare}" if len(bare) == 1 else f"--{bare}"
            self.add(with_value(text, quote(value)) if value else text, "from resources.options", "options")

    def outlive_nodes(self, text: str) -> None:
        """Add the directive by which the loss of a node does not end the job, where the job can do without one."""
        if self.request.spare_nodes:
            self.add(text, "a failed node does not end the job: there are spare nodes", "spare_nodes")
        elif self.request.outlives_nodes:
            self.add(text, "a failed node does not end the job: its points run on the other nodes", "nodes")

    def add_raw(self, directives: Iterable[str], because: str, field: str) -> None:
        """Add directives verbatim; they are written without the prefix."""
        for text in directives:
            if text.lstrip().startswith(self.prefix):
                self.problem(
                    f"the directive `{text}` repeats `{self.prefix}`",
                    f"write what follows `{self.prefix}`",
                    field,
                )
            else:
                self.add(text.strip(), because, field)

    def finish(self) -> tuple[Directive, ...]:
        """The directives in order; raises InvalidFile with every problem found."""
        if self._problems:
            raise InvalidFile(self._problems)
        return tuple(self._directives)


def with_value(option: str, value: str) -> str:
    """An option with its value: `--x=v`, `-x v`, `-W x=v`, depending on the option's form."""
    if option.endswith("="):
        return option + value
    joint = "=" if option.startswith("--") or " " in option else " "
    return option + joint + value
