"""The types of the table of known errors that a scheduler's folder needs: a writer of messages and their forms."""

from __future__ import annotations

from dataclasses import dataclass

EXCLUDE_THE_NODE = "exclude the node that it names (`resources.exclude`) and submit again; if every node is affected, check with `dlrun verify` whether they reach one another and their clocks agree"  # fmt: skip # noqa: E501
FEWER_THAN_THE_JOB_HAS = "compare the command's own `srun` options, and `arguments` under `launcher` in the site profile, with `dlrun plan`: they request what the job does not have"  # fmt: skip # noqa: E501
"""Ways out of errors that several modules have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One error: its cause, the texts of its line, and where they are published.

    regex: further lines, where a text cannot describe them. consequence: it counts only if no log has a cause; passing:
    programs may log it and continue, so it counts only if no exception follows. anywhere: its words are its writer's even in a
    line without its mark. exact: its texts begin a word, and the case of their letters counts (`TERM_LOAD`). stack: regular
    expression of a call that the traceback above the line must have. means, check, next: in place of those of the cause.
    """

    cause: str
    texts: tuple[str, ...]
    source: str = ""
    regex: str = ""
    means: str = ""
    check: str = ""
    next: str = ""
    consequence: bool = False
    passing: bool = False
    anywhere: bool = False
    exact: bool = False
    stack: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A library or program, and its errors.

    line: regular expression of the lines that are surely its own: only its forms are compared with them. source: address
    of its source or documentation, for forms without one.
    """

    name: str
    source: str
    forms: tuple[Form, ...]
    line: str = ""
