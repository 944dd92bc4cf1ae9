"""Draft a profile from a system of a ReFrame configuration, in JSON or Python, which is not run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.nearest import nearest
from dlrun.model.origin import Layer
from dlrun.site.imports import literals
from dlrun.site.profile.yaml_text import ProfileDraft, sources
from dlrun.system.inputs.text import read_text

_SCHEDULERS = {"slurm": "slurm", "squeue": "slurm", "pbs": "openpbs", "torque": "torque", "local": "local"}
_LAUNCHERS = {
    "srun": "srun", "mpirun": "openmpi", "mpirun-openmpi": "openmpi", "mpirun-intelmpi": "intelmpi",
    "mpiexec": "hydra", "ibrun": "ibrun", "ssh": "ssh", "local": "local",
}  # fmt: skip
"""ReFrame's names -> dlrun's (reframe-hpc/reframe:docs/config_reference.rst, systems.partitions)."""


def import_reframe(path: Path, system: str | None) -> ProfileDraft:
    """The draft of one system; raises Invalid for an unknown system, or several without a choice."""
    read = _read(read_text(path, Layer.SITE), path)
    systems = _systems(read.data, path)
    names = [str(entry.get("name")) for entry in systems]
    if system is None and len(systems) == 1:
        chosen = systems[0]
    elif system in names:
        chosen = systems[names.index(system)]
    else:
        listed = ", ".join(f"`{name}`" for name in names)
        near = nearest(system, names) if system else None
        message = f"there is no system `{system}` in `{path}`" if system else f"`{path}` has several systems"
        raise Invalid(
            message, help=f"the nearest is `{near}`" if near else f"name one with `--system`: {listed}"
        )
    draft = _draft(chosen, path)
    draft.unseen += read.notes
    return draft


def _systems(data: Any, path: Path) -> list[Mapping[str, Any]]:
    """The systems of a configuration; raises Invalid without one."""
    systems = data.get("systems") if isinstance(data, dict) else None
    if systems is None and isinstance(data, dict) and data.get("partitions"):
        systems = [{"name": path.stem, **data}]  # a part of a configuration, for one system
    named: list[Mapping[str, Any]] = [
        entry
        for entry in (systems if isinstance(systems, list) else [])
        if isinstance(entry, dict) and entry.get("name")
    ]
    if not named:
        raise Invalid(
            f"`{path}` describes no system", help="a ReFrame configuration has `systems:`, each with a `name`"
        )
    return named


_NAMES = ("site_configuration", "base_config", "config")
"""Variable names of a configuration, or of one system in a file of its own."""


class _Read(NamedTuple):
    """A configuration, and notes about lines that were skipped."""

    data: Any
    notes: list[str]


def _read(text: str, path: Path) -> _Read:
    """The configuration in a text of JSON, or the literal part of `site_configuration`; raises Invalid without one."""
    with suppress(ValueError):
        return _Read(json.loads(text), [])
    try:
        literal = literals.read(text)
    except ValueError as error:
        raise Invalid(
            f"`{path}` is neither JSON nor Python: {error}",
            help="let ReFrame itself print it: `reframe -C FILE --show-config > config.json`",
        ) from None
    for name in _NAMES:
        data = literal.values.get(name)
        if isinstance(data, dict) and (data.get("systems") or data.get("partitions")):
            return _Read(data, [note for _, note in sorted(literal.notes.items())])
    raise Invalid(
        f"`{path}` has no `site_configuration` whose systems are written out",
        help="let ReFrame itself print it: `reframe -C FILE --show-config > config.json`",
    )


def _is_local(partition: Mapping[str, Any]) -> bool:
    """Whether jobs of a partition run on ReFrame's own host."""
    name = _SCHEDULERS.get(str(partition.get("scheduler")))
    return name is not None and backends.scheduler(name).ON_THIS_MACHINE


def _draft(system: Mapping[str, Any], path: Path) -> ProfileDraft:
    every = [p for p in system.get("partitions") or [] if isinstance(p, dict) and p.get("name")]
    # Partitions of the login node itself count only if there are no others.
    mine = [p for p in every if not _is_local(p)] or every
    if not mine:
        raise Invalid(f"system `{system['name']}` has no partition")
    first = mine[0]
    scheduler = str(first.get("scheduler"))
    if scheduler not in _SCHEDULERS:
        known = ", ".join(f"`{name}`" for name in _SCHEDULERS)
        raise Invalid(
            f"dlrun does not support the scheduler `{scheduler}`", help=f"of ReFrame's it knows {known}"
        )
    name = re.sub(r"[^A-Za-z0-9._-]", "-", str(system["name"]))
    values: dict[str, Any] = {"name": name}
    if system.get("descr"):
        values["title"] = str(system["descr"])
    hosts = [str(h) for h in system.get("hostnames") or []]
    plain = [h for h in hosts if re.fullmatch(r"[\w.-]+", h)]
    if plain:
        values["recognise"] = {"hosts": [f"{h}*" for h in plain]}
    values["scheduler"] = {"type": _SCHEDULERS[scheduler]}
    if any(_gpus(p) for p in mine):
        values["scheduler"]["gpus"] = backends.scheduler(_SCHEDULERS[scheduler]).GPUS
    values["launcher"] = {"name": _LAUNCHERS.get(str(first.get("launcher")), "ssh")}
    values["partitions"] = {str(p["name"]): _partition(p) for p in mine}
    values["node_types"] = {str(p["name"]): _node_type(p) for p in mine}
    values["rendezvous"] = {"address": "hostname"}
    values["sources"] = sources(f"ReFrame configuration {path.name}", "imported; check every value")
    draft = ProfileDraft(values=values, made_from="a ReFrame configuration")
    draft.unseen += ["limits of partitions, fabric, memory, NUMA nodes: ReFrame does not describe them"]
    draft.unseen += [f"host names by regular expression: {h}" for h in hosts if h not in plain]
    draft.unseen += [
        f"partition {p['name']}, option {word}" for p in mine for word in _access(p) if not _known(word)
    ]
    if str(first.get("launcher")) not in _LAUNCHERS:
        draft.unseen.append(
            f"the launcher `{first.get('launcher')}`: dlrun has none of this name; ssh is used"
        )
    return draft


def _access(partition: Mapping[str, Any]) -> list[str]:
    words = partition.get("access") or []
    return [str(w) for w in words] if isinstance(words, Sequence) and not isinstance(words, str) else []


_OPTION = re.compile(r"(?:--(partition|qos|constraint|account)[= ]|-([pqCA])\s*)[\"']?([^\"']+)[\"']?$")
_SHORT = {"p": "partition", "q": "qos", "C": "constraint", "A": "account"}


def _known(word: str) -> bool:
    match = _OPTION.match(word)
    return match is not None and (match[1] or _SHORT[match[2]]) != "account"


def _partition(partition: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"node_type": str(partition["name"])}
    for word in _access(partition):
        if match := _OPTION.match(word):
            option = match[1] or _SHORT[match[2]]
            key = {"partition": "queue", "qos": "qos", "constraint": "constraint"}.get(option)
            if key and not (key == "queue" and match[3] == partition["name"]):
                values[key] = match[3]
    if partition.get("descr"):
        values["note"] = str(partition["descr"])
    return values


def _node_type(partition: Mapping[str, Any]) -> dict[str, Any]:
    cpu = partition.get("processor") or {}
    sockets, cpus, smt = cpu.get("num_sockets"), cpu.get("num_cpus"), cpu.get("num_cpus_per_core") or 1
    if not (isinstance(sockets, int) and isinstance(cpus, int) and sockets and cpus >= sockets * smt):
        gpus = _gpus(partition)
        return {
            **_memory(partition),
            "note": f"{gpus} GPUs" if gpus else "the hardware of these nodes is unknown",
        }
    topology: dict[str, Any] = {"packages": sockets, "cores": cpus // smt // sockets}
    if smt > 1:
        topology["smt"] = smt
    if count := _gpus(partition):
        topology["gpus"] = {"count": count}
    return {**_memory(partition), "topology": topology}


def _gpus(partition: Mapping[str, Any]) -> int:
    return sum(
        int(device.get("num_devices") or 1)
        for device in partition.get("devices") or []
        if isinstance(device, dict) and str(device.get("type")).rpartition(".")[2].lower() == "gpu"
    )


def _memory(partition: Mapping[str, Any]) -> dict[str, str]:
    """The memory of a node, from `mem_per_node` (MiB) of test suites' `extras`; empty without it."""
    extras = partition.get("extras")
    for name, value in extras.items() if isinstance(extras, dict) else ():
        if str(name).lower().endswith("mem_per_node") and isinstance(value, int):
            return {"memory": f"{value}MiB"}
    return {}
