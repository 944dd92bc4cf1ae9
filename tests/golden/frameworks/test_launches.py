"""What every framework's processes are told and how they start, word for word: the examples, and published launches.

Only what is the framework's own is kept: variables and launch lines of `job.sh` and the roles of `rank.sh`. The rest of
both scripts is in the other golden cases. `docs/frameworks/published.md` is made of the published ones.
`pytest tests/golden/frameworks --update-golden` writes them anew.
"""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from dlrun import backends
from dlrun.config.hints import keys
from dlrun.plan.roles import can_start
from tests.examples import cases
from tests.library import OF_PAGES
from tests.making import plan_in, scripts_of
from tests.programs import need, with_venv

HERE = Path(__file__).parent
EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/spec.yaml"))
ROWS = [name for name in NAMES if name == "digits" or name.partition("-")[0] in backends.FRAMEWORKS]
"""Examples of frameworks, and the first job; others show commands of dlrun."""
SITES = ("slurm", "openpbs", "local")
"""Two clusters that differ in scheduler and launcher alone, and one machine."""
PUBLISHED = sorted(path.parent.name for path in HERE.glob("*/spec.yaml"))
LAUNCHER = {"openpbs": ("openmpi", "intelmpi"), "local": ("openmpi", "intelmpi")}
"""What starts frameworks that the site's own launcher cannot."""


OF_ALL = (
    r"dlrun_take_ports \d+ \d+ 1 |export PYTHONUNBUFFERED=|export OMP_NUM_THREADS=\d+ # \d+ cores / 1 rank \["
)
"""Lines that are the same for every framework: other golden cases have them."""

AGENTS = tuple(
    row for row in ROWS if row in backends.FRAMEWORKS and "agent" in keys(backends.framework(row).Options)
)
"""Frameworks whose own agent can be asked for."""


def row_plan(row: str, site: str, *more: str):
    """The plan of an example on one of the three sites."""
    sets = [f"site={HERE}/sites/{site}.yaml", *more]
    framework = backends.framework(framework_of(EXAMPLES / row))
    usual = {"slurm": "srun", "openpbs": "ssh", "local": "local"}[site]
    if not can_start(backends.launcher(usual), framework):
        sets.append(
            f"launcher={next(name for name in LAUNCHER[site] if can_start(backends.launcher(name), framework))}"
        )
    if site == "local":
        sets.append("resources.nodes=1")
    return plan_in(EXAMPLES / row, sets=sets)


def framework_of(place: Path) -> str:
    return re.search(r"^framework: (\S+)", (place / "spec.yaml").read_text("utf-8"), re.MULTILINE)[1]


def launch(plan) -> str:
    """What all ranks are told alike, the lines that start each role, and what `rank.sh` does for it."""
    made = scripts_of(plan)
    return launch_of(made["job.sh"], made["rank.sh"])


def launch_of(job: str, rank: str) -> str:
    """The launch of these two scripts, as in `launch`."""
    lines = job.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("# --- ")]
    sections = {
        lines[a].split(" -", 1)[1].strip("- "): lines[a + 1 : b] for a, b in pairwise([*heads, len(lines)])
    }
    told = [
        line
        for line in (*sections["Rendezvous"], *sections["Variables of every rank"])
        if re.match(r"dlrun_take_ports \d|DLRUN_MASTER_IP=|export (?!DLRUN_MASTER)", line)
        and not re.match(OF_ALL, line)
    ]
    started = [line for line in sections["Launch"] if line and not line.startswith("dlrun_wait")]
    framework = re.search(r"^# --- [^\n]*the command\n(.*)", rank, re.MULTILINE | re.DOTALL)
    return "\n".join([*told, *started, "", framework[1]])


def compare(path: Path, text: str, update: bool) -> None:
    if update:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8"), f"{path} is not what is rendered"


def started(text: str) -> str:
    """The text with each launch, by srun or ssh, as processes on a node, processes, and where."""
    text = text.replace(" \\\n  ", " ").replace("started by ssh", "started by srun")
    of_srun = r'srun --nodes=\d+ --ntasks=(\d+) --ntasks-per-node=(\d+) [^\n]*?(--nodelist="\$DLRUN_FIRST_HOST" )?bash (?:-p )?'
    of_ssh = r'dlrun_ssh "\$DLRUN_HOSTS"(-first)? (\d+) (\d+) \d+ ssh bash (?:-p )?'
    text = re.sub(of_srun, lambda m: f"START {m[2]} {m[1]} {'first' if m[3] else 'all'} ", text)
    return re.sub(of_ssh, lambda m: f"START {m[2]} {m[3]} {'first' if m[1] else 'all'} ", text)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("row", cases(ROWS, quick=12))
def test_example(row, site, update_golden):
    place, plan = HERE / "rows" / row, row_plan(row, site)
    if site == "openpbs" and plan.launch.name == "ssh":
        assert started(launch(plan)) == started((place / "slurm.sh").read_text("utf-8"))
    else:
        compare(place / f"{site}.sh", launch(plan), update_golden)


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("row", AGENTS)
def test_own_agent(row, site, update_golden):
    place, plan = HERE / "rows" / row, row_plan(row, site, f"{row}.agent=true")
    if site == "openpbs":
        assert started(launch(plan)) == started((place / "agent-slurm.sh").read_text("utf-8"))
    else:
        compare(place / f"agent-{site}.sh", launch(plan), update_golden)


@pytest.mark.parametrize("row", ["horovod", "tensorflow-ps"])
def test_launches_are_told_apart(row):
    """What is compared between the two clusters has each role's numbers and place."""
    text = started((HERE / "rows" / row / "slurm.sh").read_text("utf-8"))
    roles = row_plan(row, "openpbs").roles
    for role in roles:
        assert re.search(
            rf"START {role.per_node} {role.count} {role.nodes} \S+ {role.name}$", text, re.MULTILINE
        )


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_launch(case, update_golden):
    compare(HERE / case / "launch.sh", launch(plan_in(HERE / case)), update_golden)


def test_agents_are_offered_where_the_framework_has_one():
    assert AGENTS == ("accelerate", "deepspeed", "horovod", "paddle", "torch")


def test_every_framework_has_an_example():
    assert {framework_of(EXAMPLES / row) for row in ROWS} == set(backends.FRAMEWORKS)


@pytest.mark.slow
@pytest.mark.needs
def test_shellcheck_finds_nothing_in_the_whole_scripts(tmp_path):
    shellcheck = need("shellcheck", path=with_venv())
    paths = []
    agents = [(row, f"{row}.agent=true") for row in AGENTS]
    for row, *sets in [*((row,) for row in ROWS), *agents]:
        plan = row_plan(row, "openpbs", *sets)
        for name, text in scripts_of(plan).items():
            if name == "rank.sh" or len(plan.roles) > 1:  # else job.sh is that of other golden cases
                paths.append(tmp_path / f"{row}-{len(sets)}-{name}")
                paths[-1].write_text(text, "utf-8")
    done = subprocess.run([shellcheck, *OF_PAGES, *paths], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_published_binding_of_intel_caffe_comes_out():
    """Two ranks on 2 × 24 cores numbered as Dell does: the four cores and 22 threads of the published line."""
    text = (HERE / "prace-intelcaffe" / "launch.sh").read_text("utf-8")
    for said in (
        "-ppn 2 -n 896",
        "export MLSL_NUM_SERVERS=2 ",
        "export MLSL_SERVER_AFFINITY=39,38,43,42 ",
        "export KMP_AFFINITY=granularity=fine,compact,1,0 ",
        "export FI_PROVIDER=psm2 ",
    ):
        assert said in text
    plan = plan_in(HERE / "prace-intelcaffe")
    assert {v.name: str(v.value) for v in plan.variables}["OMP_NUM_THREADS"] == "22"


@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 16])
def test_the_published_pytorch_job_is_the_same_spec_on_fewer_nodes(nodes):
    text = launch(plan_in(HERE / "prace-pytorch-horovod", sets=[f"resources.nodes={nodes}"]))
    assert f"mpirun -np {4 * nodes} " in text
    assert "--map-by ppr:4:node --bind-to none" in text


def test_what_has_changed_since_is_said_of_each_published_launch():
    for case in PUBLISHED:
        said = [
            line for line in (HERE / case / "spec.yaml").read_text("utf-8").splitlines() if line[:1] == "#"
        ]
        assert any(line.startswith("# Published: ") for line in said), case
        assert sum(line.startswith("# - ") for line in said) >= 2, case


@pytest.mark.parametrize(("case", "ranks"), [("prace-intelcaffe", 896), ("prace-tensorflow-horovod", 512)])
def test_the_old_words_for_omni_path_come_out_as_todays(case, ranks):
    text = (HERE / case / "launch.sh").read_text("utf-8")
    assert f'mpiexec.hydra -f "$DLRUN_HOSTS" -ppn 2 -n {ranks} ' in text
    assert "export FI_PROVIDER=psm2 " in text
    assert not re.search(r"^\s*export I_MPI_(FABRICS|TMI_PROVIDER|FALLBACK)=", text, re.MULTILINE)


def test_the_published_threads_of_tensorflow_come_out():
    text = (HERE / "prace-tensorflow-horovod" / "launch.sh").read_text("utf-8")
    assert "--num_intra_threads=20 --num_inter_threads=2" in text
    assert "export OMP_NUM_THREADS=20 " in text


def test_the_published_mxnet_job_reads_its_hosts_from_the_node_file():
    script = scripts_of(plan_in(HERE / "prace-mxnet"))["job.sh"]
    assert """dlrun_start awk '!seen[$0]++' "$PBS_NODEFILE" #""" in script
    text = (HERE / "prace-mxnet" / "launch.sh").read_text("utf-8")
    assert text.count("export DMLC_NUM_SERVER=16 ") == text.count("export DMLC_NUM_WORKER=16 ") == 3
    assert text.count("--gpus=0,1,2,3 --kv-store=dist_device_sync") == 3
