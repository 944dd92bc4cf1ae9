"""Twenty-five mistakes of a first day: each is named by its message, and what the message says corrects it.

The twenty-fifth, Ctrl-C at any moment, is in `test_interrupts.py`.
"""

from __future__ import annotations

import os
import subprocess
from typing import NamedTuple

import pytest

from tests.cli.conftest import Dlrun

SITE = """\
name: centre
scheduler: {type: slurm}
launcher: {name: srun}
partitions:
  gpu: {node_type: gpu, max_walltime: 24h, default: true}
  cpu: {node_type: cpu}
node_types:
  gpu:
    memory: 480GiB
    topology: {packages: 2, cores: 16, gpus: {count: 4, numa: [0, 0, 1, 1]}}
  cpu:
    memory: 180GiB
    topology: {packages: 2, cores: 8}
"""
BASE = "name: x\nsite: ./site.yaml\n"
RUN = BASE + "command: [python, train.py]\n"


class Mistake(NamedTuple):
    """A wrong spec, what the report of it says, and the spec that follows from that."""

    name: str
    wrong: str
    says: str
    right: str
    arguments: tuple[str, ...] = ()
    better: tuple[str, ...] = ()


MISTAKES = [
    Mistake("typo", BASE + "comand: [python, train.py]\n", "the nearest key is `command`", RUN),
    Mistake("tab", RUN + "resources:\n\tnodes: 2\n", "tab", RUN + "resources:\n  nodes: 2\n"),
    Mistake("missing-site", RUN.replace("./site.yaml", "perlmuter"), "the nearest is `perlmutter`", RUN.replace(
        "./site.yaml", "perlmutter") + "resources: {account: m1234, constraint: gpu, qos: regular, walltime: 1h}\n"),
    Mistake("wrong-partition", RUN + "resources: {partition: gpuu}\n", "`gpu`", RUN + "resources: {partition: gpu}\n"),
    Mistake("too-many-gpus", RUN + "resources: {gpus_per_node: 8}\n", "4", RUN + "resources: {gpus_per_node: 4}\n"),
    Mistake("walltime", RUN + "resources: {walltime: 30}\n", "`30m`", RUN + "resources: {walltime: 30m}\n"),
    Mistake("walltime-over-limit", RUN + "resources: {walltime: 48h}\n", "request at most `1d`",
            RUN + "resources: {walltime: 1d}\n"),
    Mistake("pipe", BASE + "command: [python, train.py, '|', tee, log]\n", "under `run:`",
            BASE + "run: python train.py | tee log\n"),
    Mistake("cd", BASE + "command: [cd, x, '&&', python, train.py]\n", "under `run:`", BASE + "run: cd x && python train.py\n"),
    Mistake("scratch", BASE + "command: [python, train.py, --out, $SCRATCH/ckpt]\n", "write `{{ env.SCRATCH }}/ckpt`",
            BASE + "command: [python, train.py, --out, '{{ env.SCRATCH }}/ckpt']\n"),
    Mistake("scratch-in-a-variable", RUN + "environment: {variables: {OUT: $SCRATCH/x}}\n", "write `{{ env.SCRATCH }}`",
            RUN + "environment: {variables: {OUT: '{{ env.SCRATCH }}/x'}}\n"),
    Mistake("other-directory", BASE + "command: [python, trian.py]\n", "the nearest there is `train.py`", RUN),
    Mistake("venv", RUN + "environment: {venv: ./other}\n", "the directory that holds bin/activate",
            RUN + "environment: {venv: ./env}\n"),
    Mistake("unused-sweep-key", RUN + "sweep: {lr: [1, 2]}\n", "put `{{ lr }}` into the command",
            BASE + "command: [python, train.py, '{{ lr }}']\nsweep: {lr: [1, 2]}\n"),
    Mistake("venv-and-conda", RUN + "environment: {venv: ./env, conda: base}\n", "remove the other one",
            RUN + "environment: {venv: ./env}\n"),
    Mistake("more-ranks-than-cores", RUN + "resources: {partition: cpu, ranks_per_node: 32}\n", "use at most 16 ranks per node",
            RUN + "resources: {partition: cpu, ranks_per_node: 16}\n"),
    Mistake("gpus-paid-for-and-not-used", RUN + "resources: {gpus_per_node: 0, exclusive: true}\n", "set `gpus_per_node: 4`",
            RUN + "resources: {gpus_per_node: 4, exclusive: true}\n"),
    Mistake("decimal-memory", RUN + "resources: {memory_per_node: 200G}\n", "write `200GiB`",
            RUN + "resources: {memory_per_node: 200GiB}\n"),
    Mistake("words-of-sbatch", RUN + "resources: {ntasks_per_node: 4}\n", "write `ranks_per_node`",
            RUN + "resources: {ranks_per_node: 4}\n"),
    Mistake("option-of-sbatch", RUN, "the nearest is `--site`", RUN, ("--sites", "x"), ("--site", "./site.yaml")),
]  # fmt: skip


@pytest.fixture
def place(dlrun) -> Dlrun:
    """A working directory with a script, a virtual environment and a site's profile."""
    (dlrun.place / "train.py").touch()
    (dlrun.place / "x").mkdir()
    (dlrun.place / "env" / "bin").mkdir(parents=True)
    (dlrun.place / "env" / "bin" / "activate").touch()
    (dlrun.place / "site.yaml").write_text(SITE)
    return dlrun


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_a_mistake_is_put_right_from_its_message(place, mistake):
    spec = place.place / "spec.yaml"
    spec.write_text(mistake.wrong)
    wrong = place("plan", "spec.yaml", *mistake.arguments, code=None)
    assert mistake.says in wrong.stderr
    assert "Traceback" not in wrong.stderr
    spec.write_text(mistake.right)
    right = place("plan", "spec.yaml", *mistake.better)
    assert mistake.says not in right.stderr


OTHER_FILES = {
    "job.sbatch": (
        "#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n",
        "`dlrun init --from job.sbatch -o job.yaml` converts it to a spec",
    ),
    "prog.py": (
        "import torch\n\n\ndef main():\n    a = {1: 2}\n",
        "`dlrun init --run 'python prog.py'` writes a spec",
    ),
    "go.sh": ("#!/bin/bash\npython train.py\n", "`dlrun init --run 'bash go.sh'` writes a spec"),
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_file_of_another_kind_in_a_specs_place(place, name):
    text, says = OTHER_FILES[name]
    (place.place / name).write_text(text)
    told = place("submit", name, code=2).stderr
    assert told.startswith(f"error: `{name}` is not a spec\n  --> {name}\n   = help: it is a ")
    assert says in told
    assert told.count("error") == 1


SAYS = {
    "no-such-spec": ("none.yaml", "", "help: `dlrun init` writes a first spec"),
    "list-for-a-number": (
        "spec.yaml",
        RUN + "resources:\n  nodes: [2]\n",
        "write `nodes: 2`, without brackets",
    ),
    "list-for-names": (
        "spec.yaml",
        RUN + "environment:\n  variables:\n  - A=1\n",
        "write `variables: {A: …}`",
    ),
    "launcher-by-program": ("spec.yaml", RUN + "launcher: mpirun\n", "the nearest is `openmpi`"),
    "framework-by-package": ("spec.yaml", RUN + "framework: ddp\n", "the nearest is `torch`"),
    "no-gpus-here": (
        "spec.yaml",
        "name: x\nsite: workstation\ncommand: [python, train.py]\nresources: {gpus_per_node: 9}\n",
        "leave `gpus_per_node` out to train on CPUs",
    ),
}


@pytest.mark.parametrize("name", SAYS)
def test_the_way_out_is_in_the_message(place, name):
    spec, text, says = SAYS[name]
    if text:
        (place.place / spec).write_text(text)
    assert says in place("plan", spec, code=2).stderr


SCRIPTS = {
    "not-executable": ("#!/bin/bash\necho ran\n", 0o644, "`chmod +x ./go.sh`, or name what runs it"),
    "windows-line-ends": ("#!/bin/bash\r\necho ran\r\n", 0o755, "`sed -i 's/\\r$//' ./go.sh`"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_cannot_be_run_is_named_before_it_waits_in_a_queue(place, name):
    text, mode, says = SCRIPTS[name]
    script = place.place / "go.sh"
    script.write_bytes(text.encode())
    script.chmod(mode)
    spec = place.spec("command: [./go.sh]\nresources: {ranks_per_node: 1}\n")
    assert says in place("plan", spec, code=2).stderr
    script.write_text(text.replace("\r", ""))
    script.chmod(0o755)
    assert "ran" in place("submit", spec, "--wait").stdout


@pytest.mark.slow
def test_a_spec_with_line_ends_of_windows_and_a_byte_order_mark_is_read(place):
    text = "\ufeff" + RUN.replace("./site.yaml", "workstation") + "run: |\n  cd .\n  echo ran\n"
    text = text.replace("command: [python, train.py]\n", "").replace("\n", "\r\n")
    (place.place / "spec.yaml").write_bytes(text.encode())
    assert "ran\n" in place("submit", "spec.yaml", "--wait", "--set", "resources.ranks_per_node=1").stdout


def test_a_script_beside_a_spec_that_is_elsewhere(place):
    (place.place / "x" / "own.py").touch()
    (place.place / "x" / "spec.yaml").write_text(
        RUN.replace("train.py", "own.py").replace("./site", "../site")
    )
    assert "it is beside the spec" in place("plan", "x/spec.yaml", "--site", "./site.yaml", code=2).stderr
    assert "job x" in place("plan", "x/spec.yaml", "--site", "./site.yaml", "--set", "directory=x").stdout
    (place.place / "spec.yaml").write_text(RUN + "directory: C:\\Users\\me\n")
    assert "directory `C:\\Users\\me` does not exist" in place("plan", "spec.yaml", code=2).stderr


def test_characters_of_a_word_processor(place):
    for wrong in (
        "command: [\u201cpython\u201d, train.py]",
        "run: python train.py \u2013lr 1",
        "run: echo \u2018a b\u2019",
    ):
        (place.place / "spec.yaml").write_text(f"{BASE}{wrong}\n")
        assert "is a typographic character" in place("plan", "spec.yaml").stderr
    (place.place / "spec.yaml").write_text(f"{BASE}run: python train.py --note 'it\u2019s 1\u20132'\n")
    assert "typographic" not in place("plan", "spec.yaml").stderr


def test_a_setting_and_letters_of_sbatch_on_the_command_line(place):
    (place.place / "spec.yaml").write_text(RUN)
    assert "write `--set resources.nodes=2`" in place("plan", "spec.yaml", "resources.nodes=2", code=2).stderr
    done = place("plan", "spec.yaml", "-N2", "-t", "30", "-p", "gpu")
    assert "note: `-N` is taken as `--set resources.nodes=2`" in done.stderr
    for part in ("nodes       2", "walltime    30m", "partition   gpu"):
        assert part in done.stdout
    assert "no such option `-Z`" in place("plan", "spec.yaml", "-Z", code=2).stderr


@pytest.mark.slow
def test_a_tilde_that_the_shell_leaves(place, tmp_path):
    spec = place.spec("run: 'true'\nresources: {ranks_per_node: 1}\n")
    home = {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    place("submit", spec, "--job-dir=~/job", "--wait", env=home)
    place("render", spec, "--output=~/rendered", env=home)
    place("plan", spec, "-o", "~/plan.json", env=home)
    place("init", "~/first.yaml", "--run", "python train.py", env=home)
    place("report", "latest", "--output=~/report.html", env=home)
    place("site", "new", "crag", "--scheduler", "slurm", "--output=~/crag.yaml", env=home)
    made = {"job", "rendered", "plan.json", "first.yaml", "report.html", "crag.yaml"}
    assert made <= {path.name for path in (tmp_path / "home").iterdir()}
    assert not (place.place / "~").exists()
    assert (
        f"no data sets in {tmp_path}/home/cache"
        in place("stage-data", "--list", "--to=~/cache", env=home).stderr
    )


@pytest.mark.slow
def test_what_was_a_mistake_once_is_understood(place):
    for text in ("command: python train.py --lr 0.1\n", "run: |\n  cd x && ls | wc -l\n"):
        (place.place / "spec.yaml").write_text(BASE + text)
        assert "bash --norc -euo pipefail -c" in place("plan", "spec.yaml").stdout
    (place.place / "spec.json").write_text(
        '{"name": "x", "site": "./site.yaml", "command": ["python", "train.py"]}'
    )
    assert "job x on centre" in place("plan", "spec.json").stdout
    folder = place.place / "my own project"
    folder.mkdir()
    (folder / "go.sh").write_text("echo here is $PWD\n")
    place.spec("command: [bash, go.sh]\ndirectory: my own project\nresources: {ranks_per_node: 1}\n")
    assert "my own project" in place("submit", "spec.yaml", "--wait").stdout


@pytest.mark.parametrize(
    ("environment", "says"),
    [("modules: [no-such-module]", "environment.modules"), ("conda: no-such-environment", "conda")],
)
def test_what_only_the_job_can_find_is_named_at_its_end(dlrun, environment, says):
    dlrun.spec(f"run: 'true'\nenvironment: {{{environment}}}\nresources: {{ranks_per_node: 1}}\n")
    done = dlrun("submit", "spec.yaml", "--wait", code=None)
    assert done.code != 0
    assert "next:" in done.stderr
    assert says in done.stderr.partition("why:")[2]


def test_a_place_that_cannot_be_written(place):
    place.spec("run: 'true'\n")
    done = place("submit", "spec.yaml", env={"DLRUN_JOBS": "/proc/no-place"}, code=1)
    assert "set another directory with `--job-dir` or `DLRUN_JOBS`" in done.stderr


@pytest.mark.slow
@pytest.mark.needs("mount", "umount")
def test_a_disk_that_is_full(place, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=False, capture_output=True
    ).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        place.spec("run: 'true'\n")
        done = place("submit", "spec.yaml", env={"DLRUN_JOBS": str(small)}, code=1)
        assert "No space left on device" in done.stderr
        assert "set another directory" in done.stderr
        left = [path for path in small.rglob("*") if path.is_file() or path.parent == small]
        assert {path.name for path in left} <= {f".dlrun-code-{os.geteuid()}"}, "nothing half done stays"
        place("submit", "spec.yaml", "--wait")
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_login_node_that_is_away(place):
    (place.place / "spec.yaml").write_text(RUN)
    done = place("submit", "spec.yaml", "--host", "no-such-login.invalid", code=None)
    assert done.code not in (0, 3)
    assert "no-such-login.invalid" in done.stderr
    assert "= help: " in done.stderr
