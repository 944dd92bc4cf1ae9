"""What a node reports about itself, damaged: parts of a profile, and verdicts on one."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from dlrun.node.checks import check_site, describe
from dlrun.site.profile import node
from dlrun.site.testing.answers import MARK, parsed
from dlrun.site.testing.hardware import hardware
from dlrun.site.testing.surroundings import surroundings
from dlrun.system.inputs.node_types import topology_for_site
from dlrun.system.inputs.profiles import load_site
from tests.fuzz import damage
from tests.making import NOWHERE

SITE = """\
name: s
scheduler: {type: slurm}
launcher: {name: srun}
partitions: {p: {node_type: n}}
node_types: {n: {memory: 100GiB, topology: {packages: 2, cores: 8, gpus: {count: 2, name: a100, numa: [0, 1]}}}}
storage: {node_local: {path: /tmp, size: 1TB, kind: memory}, shared: [/scratch]}
fabric: {name: infiniband, interfaces: [ib0]}
rendezvous: {interface: ib0, suffix: -ib}
environment: {modules: [a/1, b]}
"""


@cache
def _answer() -> dict[str, Any]:
    """What this machine prints, with devices that it may not have."""
    place = check_site.describe_directory("/tmp")
    found = describe.facts() | {
        "memory_kib": check_site.memory_kib(), "node_local": place, "shared": {"/scratch": place}, "names": {"n1-ib": True},
        "gpu_devices": [2, 2], "gpus": {"CUDA_VISIBLE_DEVICES": "0,1"},
        "modules": {"a/1": {"loads": False, "output": "x", "available": ["a/2(default)"]}, "b": {"loads": True, "output": ""}},
    }  # fmt: skip
    found["tree"] |= {
        "sys/class/net/ib0/operstate": "up", "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
        "proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: NVIDIA A100",
    }  # fmt: skip
    return found


def case(place: Path, chance: random.Random) -> None:
    """The answers of two nodes, one damaged, against a profile."""
    text = json.dumps(damage.value(_answer(), chance))
    if chance.random() < 0.3:
        text = damage.text(text, chance)
    (place / "s.yaml").write_text(SITE)
    loaded = load_site(str(place / "s.yaml"), here=NOWHERE)
    answers = list(parsed(["x " + MARK + text, MARK + json.dumps(_answer())]))
    assert answers
    kind = loaded.site.node_types["n"]
    list(hardware("n", kind, topology_for_site(loaded, "n"), answers, None))
    list(surroundings(loaded.site, answers))
    for one in answers:
        node.summary(one.facts)
        node.storage(one.facts)
        node.fabric(one.facts)
        node.gpu_name(one.facts)
        node.launcher(one.facts, "slurm")
