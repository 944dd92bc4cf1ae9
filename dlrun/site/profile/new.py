"""Draft a commented profile from a few answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlrun import backends
from dlrun.config.document import parse
from dlrun.config.nodes import ListNode, MapNode, Node
from dlrun.errors import Invalid
from dlrun.model.origin import Layer, Origin
from dlrun.model.units import Duration
from dlrun.site.profile.yaml_text import ProfileDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileAnswers:
    """The answers of an admin; None or 0 for unknown ones."""

    name: str
    scheduler: str = "slurm"
    version: str | None = None
    cluster_name: str | None = None
    launcher: str | None = None
    partition: str | None = None
    max_walltime: str | None = None
    packages: int | None = None
    cores: int | None = None
    smt: int | None = None
    gpus: int = 0
    gpu_kind: str = "cuda"
    fabric: str | None = None
    interface: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    """Other keys of the profile: dotted path -> value."""


_COMMENTS = {
    "recognise": "How dlrun recognises this cluster: Slurm's ClusterName, the PBS server, or login host names.",
    "scheduler": "required, forbidden, mandatory and account: the options that jobs must set or must not set.",
    "scheduler.gpus": "How GPUs are requested: gpus_per_node, gres, gpus_per_task, ngpus; none: with the node.",
    "scheduler.complexes": "Counted per slot, unless gpus_counted or memory_counted is `host` (`qconf -sc`, column consumable).",
    "launcher": "How ranks are started; they start unbound, and dlrun binds them by the topology of the node type.",
    "partitions": "One is the default; with the limits dlrun reports requests that the scheduler would reject.",
    "node_types": "The hardware of one node; `dlrun tune-affinity` shows the placement that follows from it.",
    "fabric": "Interface names are set for NCCL and Gloo; `dlrun explain VARIABLE` explains each variable.",
    "rendezvous": "The address of rank 0's node: hostname (with a suffix), fqdn, ip, or interface.",
    "sources": "where these values come from and when, such as `[{cite: URL, date: YYYY-MM}]`; left open, as only you know it.",
}


def draft(answers: ProfileAnswers) -> ProfileDraft:
    """The profile of these answers, with comments about keys to complete; raises Invalid for invalid answers."""
    _check(answers)
    back_end = backends.scheduler(answers.scheduler)
    scheduler: dict[str, Any] = {"type": answers.scheduler}
    if answers.version:
        scheduler["version"] = answers.version
    if answers.gpus:
        scheduler["gpus"] = back_end.GPUS
    values: dict[str, Any] = {"name": answers.name, "status": "production", "confidence": "low"}
    if answers.cluster_name:
        values["recognise"] = {back_end.CLUSTER_KEY: answers.cluster_name}
    values["scheduler"] = scheduler
    values["launcher"] = {"name": answers.launcher or back_end.LAUNCHER}
    if answers.partition:
        limits = {"max_walltime": answers.max_walltime} if answers.max_walltime else {}
        node_type = {"node_type": "node"} if answers.cores else {}
        values["partitions"] = {answers.partition: {"default": True, **node_type, **limits}}
    if answers.cores:
        topology: dict[str, Any] = {"packages": answers.packages or 1, "cores": answers.cores}
        if answers.smt and answers.smt > 1:
            topology["smt"] = answers.smt
        if answers.gpus:
            topology["gpus"] = {"count": answers.gpus, "kind": answers.gpu_kind}
        values["node_types"] = {"node": {"topology": topology}}
    if answers.fabric:
        names = {"interfaces": [answers.interface]} if answers.interface else {}
        values["fabric"] = {"name": answers.fabric, **names}
    values["rendezvous"] = {"address": "loopback" if back_end.MOST_NODES == 1 else "hostname"}
    for key, value in answers.settings.items():
        _put(values, key, value)
    unseen = [
        key for key in ("recognise", "partitions", "node_types", "fabric", "sources") if key not in values
    ]
    open_keys = [
        f"scheduler.{key}: {text}" for key, text in back_end.QUESTIONS.items() if _get(scheduler, key) is None
    ]
    return ProfileDraft(
        values=values,
        comments=_COMMENTS,
        unseen=[*open_keys, *(f"{key}: {_COMMENTS[key]}" for key in unseen)],
    )


def settings(sets: Iterable[str]) -> dict[str, str]:
    """Keys and values of `KEY=VALUE` texts; raises Invalid for other ones."""
    for text in sets:
        if not text.partition("=")[0] or "=" not in text:
            raise Invalid(f"`--set {text}` is not KEY=VALUE", help="`dlrun keys --profile` lists the keys")
    return dict(text.split("=", 1) for text in sets)


def _get(values: Mapping[str, Any], key: str) -> Any:
    """The value under a dotted key, or None."""
    place: Any = values
    for name in key.split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place


def _put(values: dict[str, Any], key: str, value: str) -> None:
    """Set a dotted key; raises Invalid if a part of it is a value."""
    *path, last = key.split(".")
    place = values
    for name in path:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise Invalid(
                f"`{key}` cannot be set: `{name}` is a value", help="`dlrun keys --profile` lists the keys"
            )
    new, old = _value(key, value), place.get(last)
    place[last] = {**old, **new} if isinstance(old, dict) and isinstance(new, dict) else new


_TRUTH = {"true": True, "false": False}


def _value(key: str, text: str) -> Any:
    """A value as given: `[a, b]`, `{a: 1}`, `true` and `false` are read as YAML, anything else is a text."""
    if text[:1] not in ("[", "{"):
        return _TRUTH.get(text, text)
    document = parse(text, Origin(layer=Layer.FLAG, name=f"--set {key}"))
    if document.root is None or document.problems:
        raise Invalid(
            f"`--set {key}={text}`: this is not a list or mapping of YAML", help="quote a text that begins so"
        )
    return _plain(document.root)


def _plain(node: Node) -> Any:
    if isinstance(node, ListNode):
        return [_plain(item) for item in node.items]
    if isinstance(node, MapNode):
        return {name: _plain(entry.value) for name, entry in node.entries.items()}
    return _TRUTH.get(node.text, node.text) if node.plain else node.text


def _check(answers: ProfileAnswers) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", answers.name):
        raise Invalid(
            f"`{answers.name}` is not a valid name of a site", help="use letters, digits, `.`, `_` and `-`"
        )
    if answers.max_walltime is not None:
        try:
            Duration.parse(answers.max_walltime)
        except ValueError as error:
            raise Invalid(f"--max-walltime: {error}") from None
        if answers.partition is None:
            raise Invalid("`--max-walltime` needs `--partition`", help="add `--partition NAME`")
    if answers.cores is None and (answers.packages or answers.smt):
        raise Invalid("packages and hardware threads alone do not describe a node", help="add `--cores N`")
    if answers.interface and not answers.fabric:
        raise Invalid("`--interface` needs `--fabric`", help="add `--fabric NAME`")
