"""Where a job was granted other cores and GPUs than the plan's, a rank has the same in all forms: in a job's rank.sh, in the
bind.sh of a job whose ranks an agent starts, in the wrapper, and with `--exec`; with GPUs in every kind of name."""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import replace

import pytest

from dlrun.affinity.actions import PlacementTask
from dlrun.affinity.bind import library
from dlrun.affinity.execute import for_grant, node_of
from dlrun.affinity.formats.as_wrapper import emit as emit_wrapper, for_rank
from dlrun.affinity.granted import answer, divided, question
from dlrun.affinity.inputs import PlacementInputs
from dlrun.affinity.settings import BindingContext
from dlrun.config.topology.short import build
from dlrun.errors import Invalid
from dlrun.model.cpuset import format_list, join, parse_list
from dlrun.model.placement import PlacementOptions
from dlrun.model.topology_short import ShortGpus, ShortTopology
from dlrun.plan.affinity import place
from dlrun.plan.binding import request_of
from tests.examples import cases, examples
from tests.making import plan_of, write_job
from tests.oracles.granted_cpus import Node, combinations, grants
from tests.oracles.granted_gpus import KINDS, Case, oracle, write_drivers

NODE = Node(packages=2, numa=2, cores=3, threads=2)
"""Core k has the hardware threads k and k + 12."""

RUNTIMES = {"CUDA_VISIBLE_DEVICES": "cuda", "ROCR_VISIBLE_DEVICES": "rocm", "ZE_AFFINITY_MASK": "ze"}

SITE = """\
name: granted
scheduler: {{type: slurm, exclusive: true}}
launcher: {{name: srun}}
gpu_binding: {{policy: visible}}
node_types:
  one:
    topology:
      {{packages: 2, cores: 6, smt: 2, numa_per_package: 2, gpus: {{count: 4, kind: {kind}, numa: [0, 1, 2, 3]}}}}
"""

SHOW = """\
#!/bin/bash
echo "seen $DLRUN_THREADS;${DLRUN_COMM_CPUS-};${DLRUN_LOADER_CPUS-};$GPUS"
"""
RECORDER = '#!/bin/bash\necho "$3" >>"$RECORD"\n'

GRANTS = (
    (2, (1, 3), range(2, 11)),
    (4, (3, 1, 0), (0, 1, 3, 4, 5, 7, 9, 10)),
    (4, (2, 0, 3, 1), range(3, 12)),
)
"""Ranks, of one GPU each in the plan; the GPUs that are visible; the cores that were granted."""


RESERVED = (0, 6)
"""The first core of each package, where a test keeps some free."""


def described(gpus, kind="cuda"):
    """The node as a profile describes it."""
    shape = {"packages": NODE.packages, "cores": 6, "smt": NODE.threads, "numa_per_package": NODE.numa}
    beside = ShortGpus(count=gpus, kind=kind, numa=(0, 1, 2, 3)) if gpus else None
    return replace(build(ShortTopology(**shape, gpus=beside)), name="one")


def task(topology, asked, job):
    """What `dlrun tune-affinity --exec` has been asked for on this node."""
    return PlacementTask(
        start=PlacementInputs(topology=topology, where="here", live=False),
        request=asked,
        job=job,
        options={"topology": None},
    )


class Forms:
    """The scripts of one plan, with the files of a node that is not this machine."""

    def __init__(self, place, kind, ranks, cores, reserved=()):
        self.place, self.kind, self.ranks = place, kind, ranks
        self.reserve = format_list(sorted(pu for core in reserved for pu in NODE.pus(core))) or "none"
        self.granted = sorted(pu for core in cores for pu in NODE.pus(core))
        NODE.write(place / "system")
        write_drivers(place, kind)
        (place / "bin").mkdir()
        self.program("show", SHOW.replace("$GPUS", f"${{{kind.variable}-}}"))
        self.program("bin/taskset", RECORDER)
        self.program("bin/numactl", '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n')
        for name, more in {"job": "", "agent": "torch: {agent: true}\n"}.items():
            self.write(name, more)

    def program(self, name, text):
        (self.place / name).write_text(text)
        (self.place / name).chmod(0o755)

    def write(self, name, more):
        spec = {
            "framework": "torch",
            "command": ["bash", str(self.place / "show")],
            "resources": {
                "nodes": 1,
                "ranks_per_node": self.ranks,
                "gpus_per_node": self.ranks,
                "walltime": "5m",
            },
            "placement": {"bind": "plan", "comm_cores": 1, "memory": "none", "reserve": self.reserve},
        }
        text = "name: forms\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in spec.items())
        runtime = RUNTIMES[self.kind.planned or self.kind.variable]
        where = self.place / name
        where.mkdir()
        plan = plan_of(where, text + more, SITE.format(kind=runtime), directory=str(where))
        self.placement = plan.binding.placement
        write_job(plan, where)
        for folder in ("logs", "failures", "ended", "placement"):
            (where / folder).mkdir()

    def here(self, text, after):
        """A script that reads the node's files where the test has them, and has the grant."""
        files = {"system": "system", "driver": "nvidia", "devices": "pci"}
        lines = [f"_dlrun_{name}={self.place / folder}" for name, folder in files.items()]
        lines.append(f"_dlrun_granted={format_list(self.granted)}")
        assert text.count(after) == 1
        return text.replace(after, after + "\n" + "\n".join(lines) + "\n")

    def scripts(self, rank, visible):
        """The script of each form, and how the rank is known there."""
        node, placement, job = self.planned(visible)
        number, size = str(rank), str(self.ranks)
        slurm = {"SLURM_PROCID": number, "SLURM_LOCALID": number, "SLURM_NODEID": "0"}
        slurm |= {"SLURM_STEP_TASKS_PER_NODE": size, "SLURM_STEP_NUM_TASKS": size}
        agent = {"RANK": number, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": size}
        sourced = 'source "$DLRUN_JOB_DIR/lib/rank.sh"'
        pages = {name: (self.place / name / page).read_text() for name, page in PAGES.items()}
        yield "rank.sh", self.here(pages["job"], sourced), ["rank"], slurm | self.run_of("job")
        yield "bind.sh", self.here(pages["agent"], sourced), None, agent | self.run_of("agent")
        wrapper = emit_wrapper(self.placement, node, job)
        yield "wrapper", self.here(wrapper, "\n# --- Local rank ---\n"), None, slurm
        single = for_rank(placement, job, placement.ranks[rank], "SLURM_LOCALID")
        yield "--exec", self.here(single, f"\nDLRUN_LOCAL_RANK={rank}"), None, slurm

    def table(self, rank, visible):
        """What `dlrun tune-affinity` prints, and `--verify` compares with, as it asks the library on this node: for each rank
        its CPUs, communication cores, GPUs and threads."""
        node, placement, job = self.planned(visible)
        script = self.here(question(placement, job, rank, None), f"\nDLRUN_LOCAL_RANK={rank}")
        done = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": os.environ["PATH"], self.kind.variable: self.kind.names(visible), **self.beside()},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found = answer(done.stdout)
        shown = placement if found is None else divided(placement, node, found, rank)
        return [(one.mask, join(one.comm), one.gpus, one.threads) for one in shown.ranks]

    def beside(self):
        return dict([self.kind.beside]) if self.kind.beside[0] else {}

    def planned(self, visible):
        """The node, what `--exec` starts from there, and its context."""
        job = BindingContext(library=library(), given=self.beside())
        node = described(4, RUNTIMES[self.kind.planned or self.kind.variable])
        mine = replace(
            node, allowed=tuple(self.granted), gpus=node.gpus[: max(1, len(visible))]
        )  # how many, where the names say which
        asked = request_of(
            PlacementOptions(memory="none", reserve=self.reserve),
            mine,
            ranks_per_node=self.ranks,
            comm_cores=1,
            gpus_per_rank=None if len(visible) < 4 else 1,
        )
        return node, for_grant(task(mine, asked, job), node, alone=False), job

    def run_of(self, name):
        where = str(self.place / name)
        return {
            "DLRUN_JOB_DIR": where,
            "DLRUN_RUN_DIR": where,
            "DLRUN_RUN_ID": "1",
            "DLRUN_HOST": "here",
            "DLRUN_MASTER_ADDR": "here",
            "DLRUN_MASTER_PORT": "20000",
        }

    def answers(self, rank, visible):
        """What the rank is bound to in each form, and the variables that its program finds."""
        for form, script, words, environment in self.scripts(rank, visible):
            record = self.place / "record"
            record.write_text("")
            file = self.place / "script"
            file.write_text(script)
            done = subprocess.run(
                ["bash", file, *(words or ["bash", self.place / "show"])],
                env={
                    "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
                    "RECORD": str(record),
                    self.kind.variable: self.kind.names(visible),
                    **self.beside(),
                    **environment,
                },
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            log = self.place / "job" / "logs" / f"rank-{rank}.log"
            text = done.stdout + done.stderr + (log.read_text() if log.exists() else "")
            (seen,) = [line for line in text.splitlines() if line.startswith("seen ")] or [text]
            (bound,) = record.read_text().split() or [text]
            yield form, (parse_list(bound), seen.removeprefix("seen ").split(";"))
            log.unlink(missing_ok=True)


PAGES = {"job": "rank.sh", "agent": "bind.sh"}


@pytest.mark.parametrize("name", cases(KINDS, quick=3))
@pytest.mark.parametrize("grant", cases(range(len(GRANTS)), quick=1))
def test_a_rank_has_the_same_in_every_form(tmp_path, name, grant):
    kind = KINDS[name]
    ranks, visible, cores = GRANTS[grant]
    forms = Forms(tmp_path, kind, ranks, cores)
    found = [dict(forms.answers(rank, visible)) for rank in range(ranks)]
    for answers in found:
        assert answers == dict.fromkeys(("rank.sh", "bind.sh", "wrapper", "--exec"), answers["wrapper"])
    wanted, _ = oracle(Case(visible, ranks, ranks, 1, 0), placed=kind.placed)
    assert [answers["wrapper"][1][3] for answers in found] == [kind.shown(row) for row in wanted]
    own = [{*cpus, *parse_list(words[1])} for cpus, words in (one["wrapper"] for one in found)]
    assert sum(map(len, own)) == len(set().union(*own)), "ranks share a core"
    assert set().union(*own) <= set(forms.granted)
    assert len({len(cpus) for cpus, _ in (one["wrapper"] for one in found)}) == 1
    for rank in range(ranks):  # which each rank could have printed
        table = forms.table(rank, visible)
        assert [(cpus, comm, str(threads)) for cpus, comm, _, threads in table] == [
            (tuple(sorted(cpus)), words[1], words[0]) for cpus, words in (one["wrapper"] for one in found)
        ]
        if kind.placed:
            assert [gpus for _, _, gpus, _ in table] == wanted
    (file,) = (tmp_path / "job" / "placement").iterdir()
    recorded = json.loads(file.read_text())
    assert parse_list(recorded["granted"]) == tuple(forms.granted)
    shown = [(parse_list(one["cpus"]), one["comm"], one["gpus"]) for one in recorded["ranks"]]
    answers = [one["rank.sh"] for one in found]
    assert [(cpus, comm) for cpus, comm, _ in shown] == [(cpus, words[1]) for cpus, words in answers]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "visible", "lost"), [(2, (2, 0), 5), (4, (3, 0, 2, 1), 1)])
def test_reserved_cores_are_no_ranks_in_any_form(tmp_path, ranks, visible, lost):
    forms = Forms(tmp_path, KINDS["cuda"], ranks, {*range(12)} - {lost}, reserved=RESERVED)
    found = [dict(forms.answers(rank, visible)) for rank in range(ranks)]
    for answers in found:
        assert answers == dict.fromkeys(("rank.sh", "bind.sh", "wrapper", "--exec"), answers["wrapper"])
    own = [{*cpus, *parse_list(words[1])} for cpus, words in (one["wrapper"] for one in found)]
    assert sum(map(len, own)) == len(set().union(*own)), "ranks share a core"
    kept = {pu for core in RESERVED for pu in NODE.pus(core)}
    assert set().union(*own) <= set(forms.granted) - kept


def test_reserved_cores_are_the_ranks_where_these_have_no_others(tmp_path):
    forms = Forms(tmp_path, KINDS["cuda"], 2, (0, 7), reserved=RESERVED)
    found = [dict(forms.answers(rank, (0, 1))) for rank in range(2)]
    assert [one["wrapper"][0] for one in found] == [tuple(NODE.pus(0)), tuple(NODE.pus(7))]


def test_exec_with_reserved_cores_starts_from_the_whole_node_too():
    mine = replace(described(0), allowed=tuple(range(2, 12)))
    options = PlacementOptions(memory="none", reserve="1-per-node")
    asked = request_of(options, mine, ranks_per_node=2, comm_cores=0, gpus_per_rank=None)
    started = task(mine, asked, BindingContext(library=library()))
    placement = for_grant(started, node_of(started), alone=True)
    assert placement == place(described(0), asked)
    assert placement.node.kept_free == "0,12"


def test_exec_asks_the_library_for_the_same_on_every_grant():
    """Its cores follow from the line `dlrun_grant` and the rank's row; `python -m tests.oracles.granted_cpus` tries what the
    library makes of them. Refused is only what has fewer cores than ranks."""
    node, job, chance = described(0), BindingContext(library=library()), random.Random(12)
    for granted in chance.sample(grants(NODE), examples(400)):
        ranks, comm, loader = chance.choice(combinations(NODE))
        mine = replace(node, allowed=tuple(sorted(pu for core in granted for pu in NODE.pus(core))))
        asked = request_of(
            PlacementOptions(loader_cores=loader),
            mine,
            ranks_per_node=ranks,
            comm_cores=comm,
            gpus_per_rank=None,
        )
        if len(granted) < ranks:
            with pytest.raises(Invalid, match=f"{ranks} ranks need {ranks} cores"):
                for_grant(task(mine, asked, job), node, alone=True)
        placement = for_grant(task(mine, asked, job), node, alone=len(granted) >= ranks)
        whole = place(node, asked)
        rank = chance.randrange(ranks)
        wrapper = emit_wrapper(whole, node, job).splitlines()
        alone = for_rank(placement, job, placement.ranks[rank], "SLURM_LOCALID").splitlines()
        assert set(alone) - set(wrapper) == {f"DLRUN_LOCAL_RANK={rank}", "_dlrun_rank_name=SLURM_LOCALID"}
        assert sum(line.startswith("dlrun_grant ") for line in alone) == 1
