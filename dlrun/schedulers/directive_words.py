"""What the directives of all schedulers have in common: their words, placeholders, times."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

JOB_LOGS = "dlrun writes the job's and each rank's log into the job directory: `dlrun logs`"
"""Why output options are not converted."""
OWN_ENVIRONMENT = "the job sets up its own environment; variables are under `environment.variables`"
REQUEUES = "maximum number of requeues; rank 0 has WANDB_RUN_ID: all runs continue one W&B run"
"""What `on_failure.requeue` does besides."""
PLACEHOLDER = re.compile(r"\s*[<\[{].*|")
"""A placeholder of a guide (`<account>`), or no value."""
OPTION = re.compile(r"(?=.{1,64}\Z)[A-Za-z]\w*(?:-\w+)*", re.ASCII)
TIME = re.compile(r"[0-9:-]{1,30}")


def words_of(text: str) -> list[str]:
    """The words of a directive, as a shell splits them where it can."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def long_options(
    words: list[str], short: Mapping[str, str], flags: Collection[str], whole: Callable[[str], str] = str
) -> Iterator[tuple[str, str]]:
    """Long names and values of options.

    `short`: letter -> long name; `flags`: options without a value; `whole`: the name that one is short for.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = whole(name)
        elif word.startswith("-") and len(word) > 1:
            name, value, equals = short.get(word[1], word[1]), word[2:], word[2:]
            value = value.removeprefix("=")
        else:
            yield "", word
            continue
        if not equals and name not in flags and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield name, value
