"""The launch line with the site's arguments, without options that dlrun already writes.

Options are compared as text, `--name=value` or `-x value`; an alias of an option counts as another option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.site import LauncherSite, Site
from dlrun.model.text import Text

PLAIN_SSH = (Text.of("ssh"), Text.of("-o"), Text.of("BatchMode=yes"))
"""The command for one host where the launcher has none."""


def settings_of(launcher: Launcher, site: Site) -> LauncherSite:
    """The site's settings of a launcher; defaults if the profile's launcher is another one."""
    return site.launcher if site.launcher.name == launcher.NAME else LauncherSite(name=launcher.NAME)


def started(launcher: Launcher, step: Step, site: LauncherSite) -> tuple[Text, ...]:
    """The launch line; arguments of the site that dlrun writes anyway are left out."""
    own = _options(_own(launcher, step, site))
    kept = [words for words in _options(site.arguments) if words not in own]
    return tuple(
        launcher.start(step, replace(site, arguments=tuple(word for words in kept for word in words)))
    )


def contradictions(launcher: Launcher, step: Step, site: LauncherSite) -> list[tuple[str, str]]:
    """(site's argument, dlrun's argument) for options with different values."""
    own = _options(_own(launcher, step, site))
    # Words that are not options, such as a wrapper before the program, cannot contradict each other.
    return [
        (" ".join(words), " ".join(ours))
        for words in _options(site.arguments)
        for ours in own
        if _name(words) == _name(ours) and words != ours and _name(words).startswith("-")
    ]


def _own(launcher: Launcher, step: Step, site: LauncherSite) -> list[str]:
    return [str(word) for word in launcher.start(step, replace(site, arguments=()))]


def _options(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The words grouped by option, each with its values."""
    options: list[tuple[str, ...]] = []
    rest = list(words)
    while rest:
        # The number of values of an option is unknown here, so all following words without a dash are its values.
        values = takewhile(lambda word: not word.startswith("-"), rest[1:])
        option = (rest[0], *values) if rest[0].startswith("-") else (rest[0],)
        options.append(option)
        rest = rest[len(option) :]
    return options


def _name(option: tuple[str, ...]) -> str:
    return option[0].partition("=")[0]
