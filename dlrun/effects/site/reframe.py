"""A first profile from a system of a ReFrame configuration, read as JSON or as a Python literal: nothing is run."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from dlrun import backends
from dlrun.effects.inputs.profiles import read_text
from dlrun.effects.site.yaml_text import ProfileDraft
from dlrun.errors import Invalid
from dlrun.model.nearest import nearest
from dlrun.model.origin import Layer

_SCHEDULERS = {"slurm": "slurm", "squeue": "slurm", "pbs": "openpbs", "torque": "torque", "local": "local"}
_LAUNCHERS = {
    "srun": "srun", "mpirun": "openmpi", "mpirun-openmpi": "openmpi", "mpirun-intelmpi": "intelmpi",
    "mpiexec": "hydra", "ibrun": "ibrun", "ssh": "ssh", "local": "local",
}  # fmt: skip
"""ReFrame's names -> dlrun's (reframe-hpc/reframe:docs/config_reference.rst, systems.partitions)."""


def import_reframe(path: Path, system: str | None) -> ProfileDraft:
    """The profile of one system; raises Invalid if the file has none, or several and none is named."""
    systems = _systems(read_text(path, Layer.SITE), path)
    names = [str(one.get("name")) for one in systems]
    if system is None and len(systems) == 1:
        found = systems[0]
    elif system in names:
        found = systems[names.index(system)]
    else:
        listed = ", ".join(f"`{name}`" for name in names)
        near = nearest(system, names) if system else None
        message = f"there is no system `{system}` in `{path}`" if system else f"`{path}` has several systems"
        raise Invalid(
            message, help=f"the nearest is `{near}`" if near else f"name one with `--system`: {listed}"
        )
    return _draft(found, path)


def _systems(text: str, path: Path) -> list[Mapping[str, Any]]:
    try:
        data = json.loads(text)
    except ValueError:
        data = _literal(text, path)
    systems = data.get("systems") if isinstance(data, dict) else None
    found: list[Mapping[str, Any]] = [
        one for one in systems or [] if isinstance(one, dict) and one.get("name")
    ]
    if not found:
        raise Invalid(
            f"`{path}` describes no system", help="a ReFrame configuration has `systems:`, each with a `name`"
        )
    return found


def _literal(text: str, path: Path) -> Any:
    """The value of `site_configuration`, if it is written out; code that computes it is not run."""
    try:
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "site_configuration" for target in node.targets
            ):
                return ast.literal_eval(node.value)
    except (SyntaxError, ValueError, RecursionError):
        raise Invalid(
            f"`{path}` is neither JSON nor a `site_configuration` written out in Python",
            help="let ReFrame itself print it: `reframe -C FILE --show-config > config.json`",
        ) from None
    raise Invalid(f"`{path}` sets no `site_configuration`")


def _here(partition: Mapping[str, Any]) -> bool:
    """True if jobs of a partition run on the host that ReFrame runs on."""
    name = _SCHEDULERS.get(str(partition.get("scheduler")))
    return name is not None and backends.scheduler(name).ON_THIS_MACHINE


def _draft(system: Mapping[str, Any], path: Path) -> ProfileDraft:
    every = [p for p in system.get("partitions") or [] if isinstance(p, dict) and p.get("name")]
    mine = [p for p in every if not _here(p)] or every
    if not mine:
        raise Invalid(f"system `{system['name']}` has no partition")
    first = mine[0]
    scheduler = str(first.get("scheduler"))
    if scheduler not in _SCHEDULERS:
        known = ", ".join(f"`{name}`" for name in _SCHEDULERS)
        raise Invalid(f"dlrun speaks no scheduler `{scheduler}`", help=f"of ReFrame's it knows {known}")
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
    values["sources"] = [
        {
            "cite": f"ReFrame configuration {path.name}",
            "date": date.today().isoformat(),  # noqa: DTZ011 - the admin's own day
            "note": "imported; look at every value",
        }
    ]
    draft = ProfileDraft(values=values)
    draft.unseen += ["limits of partitions, fabric, memory, NUMA nodes: ReFrame does not describe them"]
    draft.unseen += [f"host names by regular expression: {h}" for h in hosts if h not in plain]
    draft.unseen += [
        f"partition {p['name']}, option {word}" for p in mine for word in _access(p) if not _known(word)
    ]
    if str(first.get("launcher")) not in _LAUNCHERS:
        draft.unseen.append(
            f"the launcher `{first.get('launcher')}`: dlrun has none of this name, ssh is taken"
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
    found: dict[str, Any] = {"node_type": str(partition["name"])}
    for word in _access(partition):
        if match := _OPTION.match(word):
            option = match[1] or _SHORT[match[2]]
            key = {"partition": "queue", "qos": "qos", "constraint": "constraint"}.get(option)
            if key and not (key == "queue" and match[3] == partition["name"]):
                found[key] = match[3]
    if partition.get("descr"):
        found["note"] = str(partition["descr"])
    return found


def _node_type(partition: Mapping[str, Any]) -> dict[str, Any]:
    cpu = partition.get("processor") or {}
    sockets, cpus, smt = cpu.get("num_sockets"), cpu.get("num_cpus"), cpu.get("num_cpus_per_core") or 1
    if not (isinstance(sockets, int) and isinstance(cpus, int) and sockets and cpus >= sockets * smt):
        gpus = _gpus(partition)
        return {"note": f"{gpus} GPUs" if gpus else "nothing is known of these nodes"}
    topology: dict[str, Any] = {"packages": sockets, "cores": cpus // smt // sockets}
    if smt > 1:
        topology["smt"] = smt
    if count := _gpus(partition):
        topology["gpus"] = {"count": count}
    return {"topology": topology}


def _gpus(partition: Mapping[str, Any]) -> int:
    return sum(
        int(device.get("num_devices") or 1)
        for device in partition.get("devices") or []
        if isinstance(device, dict) and device.get("type") == "gpu"
    )
