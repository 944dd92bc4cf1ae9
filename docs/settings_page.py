"""The page of fabric settings: a part of `docs.generate`."""

from __future__ import annotations

from dlrun.fabrics.rules import condition_text
from dlrun.fabrics.table import Rule, dates, descriptions, left_out, rules, sources
from dlrun.render.binding_variables import VARIABLES

_CLASSES = {
    "safe": "Set by dlrun if the conditions hold, or the library's own default.",
    "tunable": "Only from a site profile (`fabric.settings`) or a spec (`environment.variables`).",
    "harmful": "Wrong or slow on many systems: dlrun warns of it, or rejects it, if a profile or a spec sets it.",
    "deprecated": "Renamed, removed, or correct only for old versions: dlrun warns of it.",
}
_ACTS = {
    "set": "set",
    "default": "the default",
    "dlrun": "set by dlrun",
    "refuse": "refused",
    "asks": "asks for its unit",
}


def settings_page(note: str) -> str:
    """Every setting, by class and library; then the effect of each variable, unused settings, and the sources."""
    text = "# Fabric settings\n\n" + note
    text += (
        "Variables of fabrics and communication libraries, and when dlrun sets them. `dlrun explain VARIABLE` prints "
        "the same for one of them, and its origin in a plan; `environment.drop` of a spec keeps one unset. If a profile "
        "does not give the version of a library, the newest is assumed. The date of a source is that of the commit that "
        "was read, or of reading a page.\n"
    )
    for cls, meaning in _CLASSES.items():
        text += f"\n## {cls.capitalize()}\n\n{meaning}\n\n"
        rows = [_row(rule) for rule in rules() if rule.cls == cls]
        text += table(("fabric", "library", "variable", "value", "when", "why", "source"), rows)
    text += "\n## Variables of a placement\n\nVariables that `dlrun tune-affinity` and `rank.sh` set when they bind a rank.\n\n"
    differ = {True: "yes", False: "no"}
    text += table(
        ("variable", "read by", "may differ by rank", "why"),
        [(f"`{v.name}`", v.reader, differ[v.may_differ], v.because.replace("`", "")) for v in VARIABLES],
    )
    text += "\n## Variables\n\nThe effect of each variable.\n\n"
    text += table(
        ("variable", "sets"), [(f"`{name}`", plain(said)) for name, said in sorted(descriptions().items())]
    )
    text += "\n## Settings that dlrun does not use\n\n"
    text += table(("setting", "why"), [(plain(setting), why) for setting, why in left_out()])
    text += "\n## Sources\n\n"
    rows = [(code, dates()[code], plain(address)) for code, address in sources().items()]
    return text + table(("code", "date", "source"), rows)


def _row(rule: Rule) -> tuple[str, ...]:
    conditions = [
        *([f"{rule.library} {rule.versions}"] if rule.versions else []),
        *map(condition_text, rule.when),
    ]
    conditions += [_ACTS[rule.act]] if rule.act in _ACTS else []
    conditions += [f"unit {rule.unit}"] if rule.unit else []
    why = rule.because + (f" Instead: {rule.instead}." if rule.instead else "")
    return (", ".join(rule.fabrics), rule.library, f"`{rule.name}`", plain(rule.value), ", ".join(conditions).replace("`", ""),
            plain(why), " ".join(rule.source))  # fmt: skip


def plain(text: str) -> str:
    """Text with the characters of Markdown escaped."""
    return text.replace("`", "").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |\n"
        for row in lines
    )
