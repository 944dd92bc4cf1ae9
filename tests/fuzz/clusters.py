"""What schedulers answer about themselves, damaged: whatever is read from it is printed as a profile, or there is a message."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

from dlrun.config.document import parse
from dlrun.model.origin import Layer, Origin
from dlrun.site.profile import detect, query
from dlrun.site.profile.yaml_text import profile_yaml
from dlrun.system.inputs.profiles import Machine
from tests.fuzz import damage

CAPTURED = Path(__file__).parents[1] / "captured"
NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=32 Gres=gpu:a100:4(S:0-1) RealMemory=500000 Sockets=2 ThreadsPerCore=2 Partitions=gpu,debug
NodeName=c1 Arch=x86_64 CoresPerSocket=64 Gres=(null) RealMemory=250000 Sockets=2 ThreadsPerCore=1 Partitions=cpu
"""
PARTITIONS = """\
PartitionName=gpu Default=YES DefaultTime=01:00:00 MaxNodes=8 MaxTime=1-00:00:00 MinNodes=1 Nodes=n[1-2] OverSubscribe=EXCLUSIVE
PartitionName=cpu Default=NO DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=c1 PreemptMode=REQUEUE State=UP
"""
CONFIG = (
    "ClusterName             = crag\nSLURM_VERSION           = 24.05.3\nAccountingStorageType = slurmdbd\n"
)


@cache
def answers() -> Mapping[str, Mapping[str, str]]:
    """By the client that shows which scheduler it is: the answer to each command, found by how it begins."""

    def captured(name: str) -> str:
        return (CAPTURED / name).read_text(errors="replace")

    return {
        "scontrol": {
            "scontrol show config": CONFIG, "scontrol -o show partition": PARTITIONS, "scontrol -o show node": NODES,
            "sinfo --json": captured("slurm/sinfo.json"), "sacctmgr": "normal\nhigh\n",
        },
        "pbsnodes": {
            "qstat -Bf -F": captured("openpbs/server.json"), "qstat -Qf -F": captured("openpbs/queues.json"),
            "pbsnodes -a -F": captured("openpbs/nodes.json"), "qstat -Bf": captured("openpbs/server.txt"),
            "qstat -Qf": captured("openpbs/queues.txt"), "pbsnodes -a": captured("openpbs/nodes.txt"),
            "qmgr": captured("openpbs/manager.txt"),
        },
        "flux": {
            "flux getattr": "0.88.0\n", "flux resource R": captured("flux/resource-R.json"),
            "flux queue list": captured("flux/queue-list.txt"), "flux resource list": captured("flux/resource-list.txt"),
            "flux config get": captured("flux/config.json"),
        },
        "qconf": {
            "qhost": captured("gridengine/qhost.xml"), "qconf -sc": captured("gridengine/complexes.txt"),
            "qconf -sql": "all.q\n", "qconf -sq ": captured("gridengine/queues.txt"), "qconf -spl": "mpi\n",
            "qconf -sp ": captured("gridengine/environment.txt"), "qconf -se": "complex_values gpu=4\n",
            "qstat -help": "SGE 8.1.9\n",
        },
    }  # fmt: skip


def spoilt(text: str, chance: random.Random) -> str:
    """An answer, damaged in its own form or as text."""
    if text.lstrip().startswith("{") and chance.random() < 0.7:
        return json.dumps(damage.value(json.loads(text), chance))
    if text.lstrip().startswith("<") and chance.random() < 0.7:
        return damage.xml(text, chance)
    return damage.text(text, chance)


def case(place: Path, chance: random.Random) -> None:
    """The answers of one scheduler, one to three of them damaged, to the text of a profile."""
    client = chance.choice(list(answers()))
    for program in (client, "qmgr"):
        (place / program).touch(mode=0o755)
    here = Machine(environment={"PATH": str(place)}, home=place, root=place, host="login1")
    printed = dict(answers()[client])
    for name in chance.sample(list(printed), chance.randint(1, min(3, len(printed)))):
        printed[name] = spoilt(printed[name], chance)
    refused = {name for name in printed if chance.random() < 0.05}

    def run(argv: Sequence[str], **_: object) -> CompletedProcess[str]:
        line = " ".join(argv)
        for name, text in printed.items():
            if line.startswith(name) and name not in refused:
                return CompletedProcess(argv, 0, text, "")
        return CompletedProcess(argv, 1, "", "no\x1b[2J")

    cluster = query.ask_cluster(here, run)  # type: ignore[arg-type]
    text = profile_yaml(detect.detect("crag", cluster, detect.CollectedFacts()), ["head"])
    document = parse(text, Origin(layer=Layer.SITE, name="draft.yaml"))
    known = (
        "a character that files and commands cannot contain",
        "a character that is not valid",
        "escape sequence",
    )  # bytes that are not UTF-8
    odd = [problem for problem in document.problems if not any(text in problem.message for text in known)]
    assert not odd, odd
