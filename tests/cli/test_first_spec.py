"""A first spec: made by `dlrun init`, or written with the words of the program that its user knows."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import DLRUN, Dlrun


def plan(dlrun: Dlrun, *arguments: str, code: int = 0):
    return dlrun("plan", "spec.yaml", "--site", "generic-slurm", *arguments, code=code)


def test_init_writes_a_spec_that_can_be_planned(dlrun):
    (dlrun.place / "train.py").touch()
    done = dlrun(
        "init", "--run", "torchrun --nnodes=2 --nproc_per_node=4 train.py --lr 0.1", "--walltime", "2h", "--environment", "base",
        "--partition", "gpu", "--account", "abc", "--gpus-per-node", "4", "--site", "generic-slurm",
    )  # fmt: skip
    assert "wrote spec.yaml" in done.stderr
    assert "# auto: all GPUs of the node" in (dlrun.place / "spec.yaml").read_text()
    out = plan(dlrun).stdout
    for part in (
        "nodes       2",
        "ranks       8, 4 on each",
        "partition   gpu",
        "walltime    2h",
        "python train.py --lr 0.1",
    ):
        assert part in out
    assert "already exists" in dlrun("init", "--run", "x", code=2).stderr
    assert "there is no command to run" in dlrun("init", "other.yaml", code=2).stderr


def test_init_asks_five_questions_on_a_terminal(dlrun):
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [*DLRUN, "init"], cwd=dlrun.place, env=dlrun.environment(), stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    os.write(outer, b"python train.py | tee $SCRATCH/log\n2\n4\n90m\n~/envs/torch\n")
    shown = b""
    while b"wrote spec.yaml" not in shown:
        shown += os.read(outer, 4096)
    assert process.wait(60) == 0
    os.close(outer)
    text = (dlrun.place / "spec.yaml").read_text()
    assert shown.count(b": ") >= 5
    for part in ("nodes: 2", "gpus_per_node: 4", "walltime: 90m", "venv: ~/envs/torch", "train.py"):
        assert part in text


@pytest.mark.parametrize(
    ("written", "note", "planned"),
    [
        ("ntasks_per_node: 4", "`ntasks_per_node` is taken as `ranks_per_node`", "ranks       4"),
        ("mem: 64G", "`mem: 64G` is taken as `memory_per_node: 64GiB`", "memory      64GiB"),
        ("mem: 2000", "`mem: 2000` is taken as `memory_per_node: 2000MiB`", "memory      2000MiB"),
        ("time: 90", "`time: 90` is taken as `walltime: 90m`", "walltime    1h30m"),
        ("gres: gpu:2", "`gres: gpu:2` is taken as `gpus_per_node: 2`", "GPUs        2"),
        ("queue: gpu", "`queue` is taken as `partition`", "partition   gpu"),
    ],
)
def test_the_words_of_others_are_understood_with_a_note(dlrun, written, note, planned):
    dlrun.spec(f"command: [./a]\nsite: generic-slurm\nresources: {{{written}}}\n")
    done = plan(dlrun)
    assert note in done.stderr
    assert planned in done.stdout


def test_two_words_for_one_key_are_not_guessed_about(dlrun):
    dlrun.spec("command: [./a]\nsite: generic-slurm\nresources: {ntasks_per_node: 4, ranks_per_node: 2}\n")
    assert "unknown key `ntasks_per_node`" in plan(dlrun, code=2).stderr


def test_options_of_sbatch_are_settings(dlrun):
    dlrun.spec("command: [./a]\nsite: generic-slurm\n")
    done = plan(dlrun, "--nodes=3", "--ntasks-per-node", "8", "--time=30")
    assert "note: `--nodes` is taken as `--set resources.nodes=3`" in done.stderr
    for part in ("nodes       3", "ranks       24, 8 on each", "walltime    30m"):
        assert part in done.stdout
    assert "no such option `--nodez`" in plan(dlrun, "--nodez=3", code=2).stderr
    assert "nodes: 5" in dlrun(
        "plan", "spec.yaml", "--site", "generic-slurm", "--nodes=5", "--json"
    ).stdout.replace('"', "")


def test_a_spec_may_be_written_in_json(dlrun):
    (dlrun.place / "spec.json").write_text('{"name": "x", "command": ["./a"], "site": "generic-slurm"}')
    assert "job x on generic-slurm" in dlrun("plan", "spec.json", "--set", "resources.nodes=2").stdout
    (dlrun.place / "spec.json").write_text(
        '{"name": "x", "command": ["./a"], "site": "generic-slurm", "nodez": 1}'
    )
    assert "unknown key `nodez`" in dlrun("plan", "spec.json", code=2).stderr


def test_one_text_in_brackets_is_shown_without_them(dlrun):
    dlrun.spec("command: [./a]\nsite: [workstation]\n")
    assert "write `site: workstation`, without brackets" in dlrun("plan", "spec.yaml", code=2).stderr


def test_import_counts_cores_where_the_site_counts_hardware_threads(dlrun):
    (dlrun.place / "job.sh").write_text("#SBATCH --ntasks-per-node=4 -c 32\nsrun python train.py\n")
    assert "cpus_per_rank: 16" in dlrun("import", "job.sh", "--site", "perlmutter", code=5).stdout
    assert "cpus_per_rank: 32" in dlrun("import", "job.sh", "--site", "generic-slurm").stdout
    assert "the nearest is `perlmutter`" in dlrun("import", "job.sh", "--site", "perlmuter", code=2).stderr
    there = dlrun("import", "job.sh", env={"DLRUN_SITE": "", "NERSC_HOST": "perlmutter"}, code=5).stdout
    assert "cpus_per_rank: 16" in there
    assert "site:" not in there


def test_the_guides_way_from_batch_file_to_dry_run_is_the_real_one(dlrun):
    guide = (Path(__file__).parents[2] / "docs/guide/from-your-script.md").read_text("utf-8")
    script = next(
        text for text in re.findall(r"```bash\n(.*?)```", guide, re.DOTALL) if "job-name=cifar" in text
    )
    shown = (
        guide.partition("## From batch script to dry run")[2].partition("```console\n")[2].partition("```")[0]
    )
    (dlrun.place / "train.sbatch").write_text(script)
    (dlrun.place / "train.py").touch()
    env = {"HOME": str(dlrun.place)}
    (dlrun.place / "envs/torch/bin").mkdir(parents=True)
    (dlrun.place / "envs/torch/bin/activate").touch()
    steps = [step.partition("\n") for step in shown.split("$ ") if step]
    assert [line.split()[1] for line, _, _ in steps] == ["init", "plan", "submit"]
    for line, _, answer in steps:
        done = dlrun(*line.split()[1:], env=env)
        expected = answer.removesuffix("…\n")
        assert (done.stdout if done.stdout.startswith("job ") else done.stderr).startswith(expected)
