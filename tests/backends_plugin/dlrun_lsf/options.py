"""Options of bsub: https://www.ibm.com/docs/SSWRJV_10.1.0/lsf_command_ref/bsub.man_top.1.html."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlrun.schedulers.options import OptionTable, not_needed, optional, written


def _number(value: str) -> Mapping[str, object] | None:
    return {"count.tasks": value} if value.isdigit() else None


def _name(value: str) -> Mapping[str, object] | None:
    """The name; with indexes in brackets it is an array, which the user has to write as a sweep."""
    return None if "[" in value else {"name": value}


def _requirements(value: str) -> Mapping[str, object] | None:
    """`span[ptile=4]`: tasks on each host; other requirements are not converted."""
    found = re.fullmatch(r"span\[ptile=(\d+)\]", value.strip())
    return {"count.tasks_per_node": found[1]} if found else None


def _walltime(value: str) -> Mapping[str, object] | None:
    """`[hours:]minutes`."""
    found = re.fullmatch(r"(?:(\d+):)?(\d+)", value)
    return {"resources.walltime": f"{int(found[1] or 0) * 60 + int(found[2])}m"} if found else None


def _gpus(value: str) -> Mapping[str, object] | None:
    """`num=4` or `num=4/host`: GPUs of each host."""
    found = re.fullmatch(r"num=(\d+)(?:/host)?", value)
    return {"resources.gpus_per_node": int(found[1])} if found else None


LOG = "`dlrun logs` shows the output, which is in the job directory"
OPTIONS = OptionTable(
    [
        written("J", "name", "array", read=_name),
        written("n", "resources.nodes and resources.ranks_per_node", "nodes", read=_number),
        written("W", "resources.walltime", "walltime", read=_walltime),
        written("w", "after"),
        written("H", "hold"),
        written("r rn", "on_failure.requeue"),
        written("gpu", "resources.gpus_per_node", "gpus", read=_gpus),
        optional("R", "resources.memory_per_node", "memory", pattern=r"\bmem\b", read=_requirements),
        optional("M", "resources.memory_per_node", "memory"),
        optional("q", "resources.partition", "partition"),
        optional("P", "resources.account", "account"),
        optional("x", "resources.exclusive", "exclusive", read=lambda value: {"resources.exclusive": True}),
        optional("m", "resources.hosts", "hosts", read=lambda value: {"resources.hosts": value.split()}),
        optional("U", "resources.reservation", "reservation"),
        not_needed("o oo e eo", LOG, written=True),
    ],
)
