"""Recognise the kind of files given to `dlrun site import`, and read what a scheduler printed.

That is the output of `scontrol show config`, `partition` and `node`, or of PBS's `pbsnodes -a -F json`, `qstat -Qf -F json`,
`qstat -Bf -F json` and `qmgr -c "print server"`, in one or several files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlrun.errors import Invalid
from dlrun.model.origin import Layer
from dlrun.schedulers.facts import Cluster, parsed
from dlrun.schedulers.pbs import detection as site_pbs
from dlrun.schedulers.slurm import detection as site_slurm
from dlrun.site.imports.nextflow import import_nextflow, is_nextflow
from dlrun.site.imports.reframe import import_reframe
from dlrun.site.profile.detect import CollectedFacts, detect
from dlrun.site.profile.yaml_text import ProfileDraft, sources
from dlrun.system.inputs.text import read_text


def import_files(paths: Sequence[Path], system: str | None) -> ProfileDraft:
    """The draft of a profile; raises Invalid for unknown files."""
    try:
        return _import(paths, system)
    except (TypeError, AttributeError, KeyError, ValueError, IndexError, RecursionError) as error:
        # These files are made by other programs and by hand: a value may have any type.
        raise Invalid(
            f"`{paths[0]}` has a value that such a file does not have: {error}",
            help="correct it, or write the profile by `dlrun site new`",
        ) from None


def _import(paths: Sequence[Path], system: str | None) -> ProfileDraft:
    texts = {path.name: read_text(path, Layer.SITE) for path in paths}
    if all(is_dump(text) for text in texts.values()):
        return import_dumps(texts, system)
    if len(paths) > 1:
        other = next(name for name, text in texts.items() if not is_dump(text))
        raise Invalid(
            f"`{other}` is not the output of `scontrol show`, `pbsnodes -F json`, `qstat -F json` or `qmgr`",
            help="only such outputs are read together; give a configuration alone",
        )
    (name,) = texts
    if is_nextflow(texts[name]):
        return import_nextflow(texts[name], system or paths[0].stem, name)
    return import_reframe(paths[0], system)


_SLURM = re.compile(r"^\s*(PartitionName|NodeName)=", re.MULTILINE)
_QMGR = re.compile(r"^set (queue|server) (.+?) (?:\+?=) (.*)$", re.MULTILINE)
_PBS_KEYS = ("nodes", "Queue", "Server")


def is_dump(text: str) -> bool:
    """Whether a text is the output of one of these commands."""
    return bool(_SLURM.search(text) or _QMGR.search(text) or _of_pbs(text))


def import_dumps(texts: Mapping[str, str], name: str | None) -> ProfileDraft:
    """The draft of a profile from the texts by file name; raises Invalid if they list no partition and no node,
    OperationFailed if they cannot be read."""
    every = list(texts.values())
    cluster = parsed(_slurm if any(_SLURM.search(text) for text in every) else _pbs, every)
    if not cluster.queues and not cluster.nodes:
        raise Invalid(
            "the files list neither partitions nor nodes",
            help="take them with `scontrol show partition` and `scontrol show node`, or `pbsnodes -a -F json` and `qstat -Qf`",
        )
    draft = detect(name or cluster.name or "mycluster", cluster, CollectedFacts())
    draft.made_from = "what the scheduler printed"
    draft.values["sources"] = sources(f"{draft.made_from}: {', '.join(texts)}")
    return draft


def _slurm(texts: Sequence[str]) -> Cluster:
    settings: dict[str, str] = {}
    lines: dict[str, list[str]] = {"PartitionName": [], "NodeName": []}
    for text in texts:
        settings |= site_slurm.config(text)
        for kind, line in _records(text):
            lines[kind].append(line)
    partitions = site_slurm.records("\n".join(lines["PartitionName"]))
    return site_slurm.facts(settings, partitions, site_slurm.records("\n".join(lines["NodeName"])))


def _records(text: str) -> list[tuple[str, str]]:
    """(kind, record on one line, as from `scontrol -o`); without `-o` records have indented continuation lines."""
    records: list[tuple[str, str]] = []
    for line in text.splitlines():
        if match := _SLURM.match(line):
            records.append((match[1], line.strip()))
        elif records and line[:1].isspace() and line.strip():
            kind, before = records[-1]
            records[-1] = (kind, f"{before} {line.strip()}")
    return records


def _pbs(texts: Sequence[str]) -> Cluster:
    answers: dict[str, dict[str, Any]] = {key: {} for key in _PBS_KEYS}
    manager = ""
    for text in texts:
        if answer := _of_pbs(text):
            for key in _PBS_KEYS:
                answers[key] |= answer.get(key) or {}
        elif _QMGR.search(text):
            manager += text
    printed = _printed(manager)
    answers["Queue"] = printed["Queue"] | answers["Queue"]
    named = next(iter(answers["Server"]), None)
    answers["Server"] = answers["Server"] or printed["Server"]
    server_text, queue_text, node_text = (
        json.dumps({key: answers[key]}) for key in ("Server", "Queue", "nodes")
    )
    return replace(site_pbs.facts(server_text, queue_text, node_text, manager), name=named)


def _of_pbs(text: str) -> dict[str, Any]:
    """PBS's JSON output; empty for other text."""
    if not text.lstrip().startswith("{"):
        return {}
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return (
        data if isinstance(data, dict) and any(isinstance(data.get(key), dict) for key in _PBS_KEYS) else {}
    )


def _printed(manager: str) -> dict[str, dict[str, Any]]:
    """The queues and the server of `qmgr -c "print server"`, in the structure of PBS's JSON."""
    queues: dict[str, dict[str, Any]] = {}
    server: dict[str, Any] = {}
    for kind, what, value in _QMGR.findall(manager):
        name, _, attribute = what.rpartition(" ") if kind == "queue" else ("", "", what)
        attributes = queues.setdefault(name, {}) if kind == "queue" else server
        outer, _, inner = attribute.partition(".")
        if inner:
            attributes.setdefault(outer, {})[inner] = value.strip()
        else:
            attributes[outer] = value.strip()
    return {"Queue": queues, "Server": {"": server}}
