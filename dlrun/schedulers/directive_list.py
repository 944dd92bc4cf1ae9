"""Collects the directives of one request, each with its reason, and every fault found on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from dlrun.model.origin import Origin
from dlrun.model.plan import Directive, Request
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.site import SchedulerSite

LONGEST = 8000
"""Characters that a directive may have: sbatch and qsub read one into a fixed buffer of 8192 bytes."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]")
_OPTIONS = {"gpus_per_node": "gpus", "memory_per_node": "memory"}
INDEX = "{index}"
"""Placeholder in the path of a log file for the array task's index, in the scheduler's syntax."""


class DirectiveList:
    """The directives of one job in the making; `finish` gives them or raises all that is wrong.

    `origins` is where the fields of the request were written, by the field's name.
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

        What the site refuses is left out: where a user asked for it, the plan's checks have reported it.
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

    def refused(self, field: str | None) -> bool:
        """True if the site takes no job that gives this field of the request."""
        return _OPTIONS.get(field or "", field) in self.site.forbidden

    def problem(self, message: str, help: str, field: str | None = None) -> None:
        """Report that this scheduler cannot express the request."""
        problem = Problem(message=message, help=help, origin=self._origins.get(field or ""))
        if problem not in self._problems:
            self._problems.append(problem)

    def lacks(self, scheduler: str, fields: Mapping[str, tuple[str, str]]) -> None:
        """Report each of these fields that is asked for, with what the scheduler lacks for it and the way out."""
        for field, (what, way_out) in fields.items():
            if getattr(self.request, field):
                self.problem(f"{scheduler} does not know {what}", way_out, field)

    def user_options(self, own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """The user's options, names without dashes; one that dlrun writes itself is reported with what `own` has for it."""
        for name, value in self.request.options.items():
            bare = name.lstrip("-")
            if bare in own:
                self.problem(f"the option `{name}` is set by dlrun", f"use {own[bare]}", "options")
            else:
                yield bare, value

    def merge(
        self, option: str, value: Callable[[str], str | None], join: Callable[[list[str]], str]
    ) -> None:
        """Make one directive of several of which the scheduler would use only the last.

        `value` gives what a directive says about the option, or None if it is about another.
        """
        found = {
            i: said
            for i, directive in enumerate(self._directives)
            if (said := value(directive.text)) is not None
        }
        if len(found) < 2:
            return
        merged = [self._directives[i] for i in found]
        joined = Directive(
            text=option + join(list(found.values())),
            because="; ".join(dict.fromkeys(directive.because for directive in merged)),
            origin=next((directive.origin for directive in merged if directive.origin), None),
        )
        first = min(found)
        kept = enumerate(self._directives)
        self._directives = [
            joined if i == first else directive for i, directive in kept if i == first or i not in found
        ]

    def texts(self) -> tuple[str, ...]:
        """The directives so far, as written after the prefix."""
        return tuple(directive.text for directive in self._directives)

    def add_raw(self, directives: Iterable[str], because: str, field: str) -> None:
        """Add directives as they were written, which is after the prefix."""
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
        """The directives in order; raises InvalidFile with every problem noted."""
        if self._problems:
            raise InvalidFile(self._problems)
        return tuple(self._directives)


def spell(option: str, value: str) -> str:
    """An option with its value, the way its spelling asks for: `--x=v`, `-x v`, `-W x=v`."""
    if option.endswith("="):
        return option + value
    joint = "=" if option.startswith("--") or " " in option else " "
    return option + joint + value
