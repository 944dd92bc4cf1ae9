"""Find the origin of a value: in the spec's layers, the plan's decisions, variables and directives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlrun.config.hints import keys
from dlrun.errors import Invalid
from dlrun.fabrics import table
from dlrun.fabrics.rules import condition_text
from dlrun.grouping import grouped
from dlrun.jobs.submission.prepare import Prepared
from dlrun.model.nearest import nearest
from dlrun.model.plan import Plan, Variable
from dlrun.model.spec import Spec
from dlrun.plan.trackers.decide import FIRST
from dlrun.system.inputs.proof import Proof, proofs

UNSET = ("unset", "left out")
"""Values of decisions about a variable that the plan does not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One answer: key, value, reason, effect of the variable, rule, origin, source, proof of a profile's value, and overridden
    layers."""

    key: str
    value: str
    because: str
    does: str = ""
    rule: str = ""
    origin: str = ""
    source: str = ""
    proof: str = ""
    overrode: tuple[str, ...] = ()


def explain(what: str, prepared: Prepared) -> list[Explanation]:
    """All answers about a key, a variable or a directive; raises Invalid, with the nearest name, if there is none."""
    known = _known_names(prepared)
    full = [name for name in known if name.rpartition(".")[2] == what]  # `walltime` for `resources.walltime`
    if what not in known and len(full) == 1:
        return [*_directives(what, prepared.plan), *explain(full[0], prepared)]
    answers = [
        *_site(what, prepared),
        *_variables(what, prepared.plan),
        *_decisions(what, prepared),
        *_rendezvous(what, prepared.plan),
        *_directives(what, prepared.plan),
    ]
    answers = _proved(what, answers, prepared)
    if known_settings := knowledge(what):
        head, *rest = known_settings
        unset = replace(head, because="this plan does not set it")
        return [*([replace(answer, does=head.does) for answer in answers] or [unset]), *rest]
    if answers:
        return answers
    if unwritten := _unwritten(what) or _unwritten(f"resources.{what}"):
        return [unwritten]
    short = {name.rpartition(".")[2]: name for name in known}
    near = nearest(what, known, cutoff=0.75) or short.get(nearest(what, short, cutoff=0.75) or "")
    hint = f"the nearest is `{near}`" if near else "`dlrun plan` shows its values"
    raise Invalid(f"this plan has no `{what}`", help=hint)


def _known_names(prepared: Prepared) -> set[str]:
    """The names of set or decided keys, variables and secrets."""
    plan = prepared.plan
    names = {"rendezvous", *(d.key for d in plan.decisions), *(v.name for _, v in _all_variables(plan))}
    names.update(secret.name for secret in plan.secrets)
    if prepared.inputs is not None:
        names.update(prepared.inputs.origins)
    return {name for name in names if not name.startswith("variables.")}


def _unwritten(what: str) -> Explanation | None:
    """The description and the default of a key that the spec does not set; None for unknown keys."""
    schema: type | None = Spec
    parts = what.split(".")
    for i, part in enumerate(parts):
        key = keys(schema).get(part) if schema is not None else None
        if key is None:
            return None
        if i == len(parts) - 1 and key.hint.schema is None:
            value = key.default
            shown = str(value).lower() if isinstance(value, bool) else str(value or "")
            return Explanation(key=what, value=shown, because=f"not set; {key.doc}", rule="default")
        schema = key.hint.schema
    return None


def knowledge(name: str) -> list[Explanation]:
    """The fabric settings' entries about a variable, set or not: first its effect, then its rules; may be empty."""
    about = table.rules_for(name)
    if not about:
        return []
    does = table.descriptions().get(name) or table.descriptions()[about[0].name]
    # A rule that several libraries share is printed once.
    libraries = grouped((_known(rule, "{}"), rule.library) for rule in about)
    return [
        Explanation(key=name, value="", because="", does=does),
        *[replace(entry, rule=entry.rule.replace("{}", " and ".join(of))) for entry, of in libraries.items()],
    ]


def nearest_variable(name: str) -> str | None:
    """A variable of the fabric settings with a similar name, or None."""
    return nearest(name, table.descriptions(), cutoff=0.8)


def _known(rule: table.Rule, library: str) -> Explanation:
    conditions = [
        *map(condition_text, rule.when),
        *([f"{rule.library} {rule.versions}"] if rule.versions else []),
    ]
    instead = f" Instead: {rule.instead}." if rule.instead else ""
    where = "any fabric" if "any" in rule.fabrics else " or ".join(rule.fabrics)
    return Explanation(
        key=f"documented value of {rule.name}: {rule.value}",
        value="",
        because=f"{rule.because}{instead}",
        rule=f"{rule.cls}, {library} on {where}" + (f", with {', '.join(conditions)}" if conditions else ""),
        source=rule.cited,
    )


def _site(what: str, prepared: Prepared) -> Iterator[Explanation]:
    """The site, and how it was selected."""
    if what == "site" and prepared.inputs is not None:
        loaded = prepared.inputs.loaded
        yield Explanation(
            key=what,
            value=loaded.site.name,
            because=loaded.because,
            origin=str(loaded.path),
            overrode=_overrode(what, prepared),
        )


def _proved(what: str, answers: list[Explanation], prepared: Prepared) -> list[Explanation]:
    """The answers with the proof of values that are from the site profile; a key of the profile is an answer itself."""
    if prepared.inputs is None:
        return answers
    known = proofs(prepared.inputs.loaded)
    by_place = {str(proof.origin): proof for proof in known}
    result = []
    for answer in answers:
        proof = by_place.get(answer.origin)
        result.append(replace(answer, proof=proof_text(proof)) if proof is not None else answer)
    if result:
        return result
    site = prepared.inputs.loaded.site.name
    return [
        Explanation(
            key=what, value=proof.value, because=f"the profile of {site} has it", origin=str(proof.origin),
            proof=proof_text(proof),
        )
        for proof in known
        if proof.fact == what
    ]  # fmt: skip


def proof_text(proof: Proof) -> str:
    """`documented 2025-03 (https://…)`, `measured on n12, 2026-11-20`."""
    return f"{proof.text} ({proof.cite})" if proof.cite else proof.text or "no source"


def _all_variables(plan: Plan) -> Iterator[tuple[str, Variable]]:
    yield from (("every process", v) for v in plan.variables)
    yield from (("rank 0" if v.rule == FIRST else "every rank", v) for v in plan.track)
    for role in plan.roles:
        yield from ((f"each {role.name}", v) for v in role.variables)


def _variables(what: str, plan: Plan) -> Iterator[Explanation]:
    for who, variable in _all_variables(plan):
        if variable.name == what:
            yield Explanation(
                key=f"{what} ({who})",
                value=str(variable.value),
                because=variable.because,
                rule=variable.rule,
                origin=str(variable.origin or ""),
                source=variable.source or "",
            )
    for secret in plan.secrets:
        if secret.name == what:
            where = secret.env or secret.file or " ".join(secret.command)
            yield Explanation(
                key=what, value="(secret)", because=f"read by each rank when it starts, from `{where}`"
            )


def _decisions(what: str, prepared: Prepared) -> Iterator[Explanation]:
    inputs = prepared.inputs
    decided = False
    for decision in prepared.plan.decisions:
        if decision.key in (what, f"caches.{what}") or (
            decision.key == f"variables.{what}" and decision.value in UNSET
        ):
            decided = True
            yield Explanation(
                key=what,
                value=str(decision.value),
                because=decision.because,
                rule=decision.rule,
                origin=str(decision.origin or ""),
                overrode=_overrode(what, prepared),
            )
    if not decided and inputs is not None and what in inputs.origins and what != "site":
        origin = inputs.origins[what]
        yield Explanation(
            key=what,
            value="",
            because=f"{origin.layer}: {origin}",
            origin=str(origin),
            overrode=_overrode(what, prepared),
        )


def _overrode(key: str, prepared: Prepared) -> tuple[str, ...]:
    settings = prepared.inputs.history.get(key, ()) if prepared.inputs else ()
    return tuple(f"{setting.text} from {setting.origin.layer} {setting.origin}" for setting in settings)


def _rendezvous(what: str, plan: Plan) -> Iterator[Explanation]:
    meet = plan.rendezvous
    if what == "rendezvous":
        yield Explanation(
            key=what,
            value=f"{meet.address.code}, ports {meet.first_port}-{meet.last_port}",
            because=meet.because,
            rule=meet.rule,
        )


def _directives(what: str, plan: Plan) -> Iterator[Explanation]:
    name = what.lstrip("-")
    for directive in plan.directives:
        if directive.text == what or directive.text.lstrip("-").partition("=")[0] == name:
            yield Explanation(
                key=f"directive {directive.text}",
                value="",
                because=directive.because,
                origin=str(directive.origin or ""),
            )
