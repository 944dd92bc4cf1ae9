"""The launch line with the site's own arguments: an option that dlrun writes already is not written twice.

Options are compared as they are written, `--name=value` or `-x value`; the same option under another name is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from dlrun.launchers.protocol import Launcher, Step
from dlrun.model.site import LauncherSite, Site
from dlrun.model.text import Text


def settings_of(launcher: Launcher, site: Site) -> LauncherSite:
    """The site's settings of a launcher: none where the profile describes another one."""
    return site.launcher if site.launcher.name == launcher.NAME else LauncherSite(name=launcher.NAME)


def started(launcher: Launcher, step: Step, site: LauncherSite) -> tuple[Text, ...]:
    """The launcher's words, without those of the site's arguments that dlrun's own words say already."""
    own = _options(_own(launcher, step, site))
    kept = [words for words in _options(site.arguments) if words not in own]
    return tuple(
        launcher.start(step, replace(site, arguments=tuple(word for words in kept for word in words)))
    )


def contradictions(launcher: Launcher, step: Step, site: LauncherSite) -> list[tuple[str, str]]:
    """Each of the site's arguments that gives an option another value than dlrun does, with dlrun's."""
    own = _options(_own(launcher, step, site))
    return [
        (" ".join(words), " ".join(ours))
        for words in _options(site.arguments)
        for ours in own
        if _name(words) == _name(ours) and words != ours and _name(words).startswith("-")
    ]


def _own(launcher: Launcher, step: Step, site: LauncherSite) -> list[str]:
    return [str(word) for word in launcher.start(step, replace(site, arguments=()))]


def _options(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The words, an option together with the values behind it."""
    found: list[tuple[str, ...]] = []
    rest = list(words)
    while rest:
        values = takewhile(lambda word: not word.startswith("-"), rest[1:])
        option = (rest[0], *values) if rest[0].startswith("-") else (rest[0],)
        found.append(option)
        rest = rest[len(option) :]
    return found


def _name(option: tuple[str, ...]) -> str:
    return option[0].partition("=")[0]
