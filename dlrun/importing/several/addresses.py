"""Hosts and ports in the words of roles: `{{ role.NAME.address }}` where a script writes the name of a node and a port."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dlrun.importing.several import Unclear
from dlrun.importing.several.nodes import MARKER

_BEHIND = MARKER.pattern + r"(:|\"?[ \0](?:--?[\w-]*port[= \0])?)"
"""A host and what may be between it and its port: `HOST:PORT`, `nc -z HOST PORT`, `--host HOST --port PORT`."""
Texts = dict[str, Any]
"""The keys of a role, as in the spec."""


def ports(roles: Mapping[str, Texts], firsts: Mapping[int, str]) -> dict[str, str]:
    """Role -> the port at which it listens, where another role has it with the role's host."""
    by_owner: dict[str, set[str]] = {}
    for name, values in roles.items():
        for text in _texts(values):
            for match in re.finditer(_BEHIND + r"(\d{2,5})\b", text):
                if (owner := firsts.get(int(match[1]), name)) != name:
                    by_owner.setdefault(owner, set()).add(match[3])
    return {
        name: each.pop()
        for name, each in by_owner.items()
        if len(each) == 1 and _is_own(roles, name, next(iter(each)))
    }


def _is_own(roles: Mapping[str, Texts], name: str, port: str) -> bool:
    """True if the port is an option of the role's own command, and stands nowhere else but behind the role's host."""
    elsewhere = [t for role in roles.values() for t in _texts(role)]
    number = rf"(?<![\w.]){port}(?![\w.])"
    own = len(re.findall(_option(port), "\0".join(_words(roles[name]))))
    behind = sum(len(re.findall(_BEHIND + rf"{port}\b", text)) for text in elsewhere)
    return own == 1 and sum(len(re.findall(number, text)) for text in elsewhere) == own + behind


def _option(port: str) -> str:
    return rf"(?i)(--?[\w-]*port[=\0 ]){port}(?=[\0\s]|$)"


def put(values: Texts, name: str, firsts: Mapping[int, str], known: Mapping[str, str]) -> set[str]:
    """Replace nodes and ports in a role's keys; the roles whose port its texts have. Raises Unclear for any other node."""
    used: set[str] = set()

    def role_at(match: re.Match[str]) -> str:
        role = firsts.get(int(match[1]))
        if role is None:
            raise Unclear
        return role

    def expression(text: str) -> str:
        def address(match: re.Match[str]) -> str:
            role = role_at(match)
            if known.get(role) != match[3]:
                return match[0]
            used.add(role)
            if match[2] == ":":
                return f"{{{{ role.{role}.address }}}}"
            return f"{{{{ role.{role}.host }}}}{match[2]}{{{{ role.{role}.port }}}}"

        text = re.sub(_BEHIND + r"(\d{2,5})\b", address, text)
        return MARKER.sub(lambda m: f"{{{{ role.{role_at(m)}.host }}}}", text)

    def line(text: str) -> str:
        return MARKER.sub(lambda m: f"${{DLRUN_ROLE_{role_at(m).upper()}_HOST}}", text)

    if "command" in values:
        words = "\0".join(map(expression, values["command"]))
        values["command"] = _with_port(words, name, known).split("\0")
    if "run" in values:
        values["run"] = _with_port(expression(values["run"]), name, known)
    environment = values.get("environment", {})
    if "variables" in environment:
        environment["variables"] = {key: expression(text) for key, text in environment["variables"].items()}
    if "setup" in environment:
        environment["setup"] = [line(text) for text in environment["setup"]]
    if MARKER.search(repr(values)):
        raise Unclear
    return used


def _with_port(text: str, name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        return text
    return re.sub(_option(known[name]), lambda m: f"{m[1]}{{{{ role.{name}.port }}}}", text)


def _words(values: Texts) -> list[str]:
    return [str(w) for w in values.get("command", ())] or [values.get("run", "")]


def _texts(values: Texts) -> list[str]:
    environment = values.get("environment", {})
    variables = map(str, environment.get("variables", {}).values())
    return ["\0".join(_words(values)), *variables, *environment.get("setup", ())]
