"""The page with the error texts that `dlrun why` knows, by cause: a part of `docs.generate`."""

from __future__ import annotations

from collections import defaultdict

from dlrun.why.known.causes import CAUSES
from dlrun.why.known.form import Form, Writer
from dlrun.why.known.table import WRITERS

_MOST = 12
"""Texts of one writer that are shown for a cause: the table has variants of a text for several versions."""


def troubleshooting_page(note: str) -> str:
    """For each cause: what it means, how to check it, the way out, and the texts of each library with their sources."""
    text = "# Troubleshooting: from an error text to its way out\n\n" + note
    text += (
        "`dlrun why` finds these texts in the logs of a failed job, decides which of them came first, and prints cause, check "
        "and way out; `dlrun why --log slurm-4711.out` does so for any log, also of a job that dlrun did not submit. "
        "This page has the same table, to be searched for an error text; `…` stands for what differs. "
        "`JOB` is a job's name, or `latest`. A site adds its own texts under `failures` of its "
        "[profile](../reference/site.md).\n"
    )
    found: dict[str, list[tuple[Writer, Form]]] = defaultdict(list)
    for writer in WRITERS:
        for form in writer.forms:
            found[form.cause].append((writer, form))
    for cause, advice in CAUSES.items():
        text += f"\n## {cause}\n\n{_sentence(advice.means)}\n\n- **Check:** {_shown(advice.check)}\n"
        text += f"- **Way out:** {_shown(advice.next)}\n\n"
        for writer, form in found[cause]:
            text += _of_form(writer, form)
    return text


def _of_form(writer: Writer, form: Form) -> str:
    """The texts of a form with their source, and how its cause and way out differ; empty without a text."""
    if not form.texts:
        return ""
    texts = ", ".join(map(_code, form.texts[:_MOST]))
    if form.stack:
        texts += f" below a call of {_calls(form.stack)}"
    own = f" {_sentence(form.means)}" if form.means else ""
    own += f" **Way out:** {_shown(form.next)}" if form.next else ""
    return f"- [{writer.name}]({form.source or writer.source}): {texts}{'.' if own else ''}{own}\n"


def _code(text: str) -> str:
    """A text of the table as code, with `…` for its variable parts."""
    shown = text.strip().replace("{1}", "…").replace("{}", "…")
    mark = "``" if "`" in shown else "`"
    space = " " if "`" in shown else ""
    return f"{mark}{space}{shown}{space}{mark}"


def _calls(stack: str) -> str:
    """The calls that a regular expression names, as code."""
    return " or ".join(
        _code(call.replace("\\b", "").replace("\\", "").removeprefix(", in ")) for call in stack.split("|")
    )


def _shown(text: str) -> str:
    return text.replace("{rank}", "RANK").replace("{1}", "…").replace("<", "&lt;")


def _sentence(text: str) -> str:
    shown = _shown(text)
    return f"{shown[0].upper()}{shown[1:]}."
