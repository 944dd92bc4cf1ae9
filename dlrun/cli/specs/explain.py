"""`dlrun explain`: where a value comes from, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dlrun.cli.topics import about_variable
from dlrun.errors import Invalid
from dlrun.terminal.help_page import examples
from dlrun.terminal.options import complete_settings, json_option, set_option, site_option
from dlrun.terminal.printing import echo, emit

if TYPE_CHECKING:
    from dlrun.jobs.submission.prepare import Prepared


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Problem codes, else keys of a spec, for `shell_complete`."""
    from dlrun.plan.codes import CODES

    codes = [code for code in CODES if code.startswith(incomplete.upper() or "DLR")]
    return codes or [name.rstrip("=.") for name in complete_settings(ctx, param, incomplete)]


@click.command(
    epilog=examples(
        "dlrun explain OMP_NUM_THREADS spec.yaml",
        "dlrun explain walltime latest",
        "dlrun explain DLR012",
    ),
    # A directive may be given as written in a batch script: `--partition`.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("what", shell_complete=_complete)
@click.argument("spec", required=False, metavar="[SPEC|JOB]")
@set_option("Set a key of the spec. Repeatable.")
@site_option("Site profile; default: the spec's `site`, else the profile of this cluster.")
@json_option
def command(what: str, spec: str | None, sets: tuple[str, ...], site: str | None, as_json: bool) -> None:
    """Explain WHAT: a key (walltime), an environment variable, a scheduler directive, a problem code (DLR012), or a
    verdict of `dlrun usage` (loader-bound).

    With a SPEC or a JOB, its value is shown too, with the reason and the origin.
    """
    from dlrun.model.text import digits

    if what.upper().startswith("DLR") and digits(what[3:]):
        _code(what.upper(), as_json)
        return
    if spec is None and _verdict(what, as_json):
        return
    from dlrun.jobs.explain import Explanation, explain, knowledge

    answers = knowledge(what) if spec is None else []  # a variable needs no spec to be known
    if text := about_variable(what):
        answers = [Explanation(key=what, value="", because=text)]
    answers = answers or explain(what, _prepared(what, spec, sets, site))
    if as_json:
        emit("explanations", answers)
        return
    for answer in answers:
        lines = [f"{answer.key} = {answer.value}" if answer.value else answer.key]
        for label, text in (
            ("does", answer.does),
            ("because", answer.because),
            ("rule", answer.rule),
            ("origin", answer.origin),
            ("source", answer.source),
            ("proof", answer.proof),
        ):
            if text and not (label == "origin" and text in answer.because):
                lines.append(f"  {label + ':':<9} {text}")
        lines += [f"  overrode: {text}" for text in answer.overrode]
        for line in lines:
            echo(line)


def _code(code: str, as_json: bool) -> None:
    from dlrun.plan.codes import CODES

    if code not in CODES:
        raise Invalid(
            f"there is no problem code `{code}`", help=f"codes range from {min(CODES)} to {max(CODES)}"
        )
    title, text = CODES[code]
    if as_json:
        emit("code", {"code": code, "title": title, "text": text})
    else:
        echo(f"{code}: {title}\n\n{click.wrap_text(text, 100)}")


def _verdict(what: str, as_json: bool) -> bool:
    """Explain a verdict of `dlrun usage`; False if there is none of this name."""
    from dlrun.usage.rules import RULES

    rule = RULES.get(what)
    if rule is None:
        return False
    if as_json:
        emit("verdict", rule)
    else:
        echo(f"{rule.name}\n  means:     {rule.means}")
        echo(f"  threshold: {rule.threshold:g} {rule.unit}\n  source:    {rule.source}")
    return True


def _prepared(what: str, spec: str | None, sets: tuple[str, ...], site: str | None) -> Prepared:
    """A plan from a spec, a saved plan or a job."""
    from dlrun.jobs.records import jobs
    from dlrun.jobs.submission.prepare import Prepared, prepare

    if spec is None:
        from dlrun.jobs.explain import nearest_variable

        if near := nearest_variable(what):
            raise Invalid(f"unknown setting `{what}`", help=f"the nearest is `{near}`")
        raise Invalid(
            f"`{what}` needs a spec or a job",
            help="use `dlrun explain WHAT spec.yaml`; only settings and problem codes such as DLR012 need none",
        )
    if Path(spec).is_file():
        return prepare(Path(spec), sets=sets, site=site)
    return Prepared(plan=jobs.find(spec).plan(), inputs=None)
