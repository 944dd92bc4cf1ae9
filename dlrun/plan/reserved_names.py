"""Names of variables reserved by bash or dlrun: a value from a spec or profile would not reach the program."""

from __future__ import annotations

import re

from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.decisions import Ledger

_SET_BY_BASH = frozenset(
    [
        "BASH",
        "BASHOPTS",
        "BASHPID",
        "BASH_ALIASES",
        "BASH_ARGC",
        "BASH_ARGV",
        "BASH_ARGV0",
        "BASH_CMDS",
        "BASH_COMMAND",
        "BASH_EXECUTION_STRING",
        "BASH_LINENO",
        "BASH_MONOSECONDS",
        "BASH_REMATCH",
        "BASH_SOURCE",
        "BASH_SUBSHELL",
        "BASH_TRAPSIG",
        "BASH_VERSINFO",
        "BASH_VERSION",
        "COMP_WORDBREAKS",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "EUID",
        "FUNCNAME",
        "GROUPS",
        "HISTCMD",
        "IFS",
        "LINENO",
        "OLDPWD",
        "OPTERR",
        "OPTIND",
        "PIPESTATUS",
        "PPID",
        "PS1",
        "PS2",
        "PS4",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SHELLOPTS",
        "SHLVL",
        "SRANDOM",
        "UID",
        "_",
    ]
)
"""Variables that bash sets at its start, overriding inherited values (bash(1), Shell Variables; tested with bash 4.2 and 5.2)."""
_CHANGE_BASH = frozenset(
    [
        "BASH_COMPAT",
        "BASH_ENV",
        "BASH_XTRACEFD",
        "ENV",
        "EXECIGNORE",
        "FUNCNEST",
        "GLOBIGNORE",
        "POSIXLY_CORRECT",
        "TMOUT",
    ]
)
"""Variables that change how bash works, and with it the scripts of the job (bash(1), Shell Variables)."""
_DLRUN = lazy_pattern(r"_?dlrun_.*", re.IGNORECASE | re.ASCII)


def reserved(name: str) -> str | None:
    """Reason why a variable of this name cannot be set; None if it can."""
    if _DLRUN.fullmatch(name):
        return "names that begin with `DLRUN_` are dlrun's own"
    if name in _SET_BY_BASH:
        return "bash sets it, so the program would not get this value"
    if name in _CHANGE_BASH:
        return "it changes how bash works, and with it the scripts of the job"
    return None


def check(spec: Spec, site: Site, ledger: Ledger) -> None:
    """Add a problem for each variable or secret of spec and site with a reserved name."""
    named = [(name, f"environment.variables.{name}") for name in spec.environment.variables]
    named += [(name, f"secrets.{name}") for name in spec.secrets]
    named += [(name, "site") for name in site.environment.variables]
    for name, key in named:
        if because := reserved(name):
            whose = f"site `{site.name}` sets `{name}`, and" if key == "site" else f"`{name}` cannot be set:"
            ledger.problem(
                "DLR098", f"{whose} {because}", key,
                help="use another name; to set it for the program alone, write `command: [env, NAME=VALUE, …]`",
            )  # fmt: skip
