"""How storage is requested with the job, and what waits for the job's end."""

from __future__ import annotations

import pytest

from tests.making import plan_of, scripts_of

SPEC = "command: [x]\nresources: {{nodes: 4, ranks_per_node: 1, walltime: 1h{more}}}\n{what}"
DATA = "data: {set: {source: /scratch/set, strategy: copy}}\n"


def made(place, *, launcher="srun", local="path: /local", more="", what=DATA, scheduler="slurm"):
    site = (
        f"name: there\nscheduler: {{type: {scheduler}}}\nlauncher: {{name: {launcher}}}\n"
        f"storage:\n  node_local: {{{local}}}\n"
    )
    return plan_of(place, SPEC.format(more=more, what=what), site)


@pytest.mark.parametrize("what", [DATA, "results: /scratch/r\n", "environment: {venv: /v, stage: true}\n"])
def test_storage_is_asked_for_by_whatever_uses_it(tmp_path, what):
    plan = made(tmp_path, local="path: /mnt, request: --constraint=BEEOND", what=what)
    assert "--constraint=BEEOND" in [directive.text for directive in plan.directives]


def test_nothing_is_asked_for_by_a_job_that_uses_none(tmp_path):
    plan = made(tmp_path, local="path: /mnt, request: --constraint=BEEOND", what="")
    assert "--constraint=BEEOND" not in [directive.text for directive in plan.directives]


@pytest.mark.parametrize(
    ("arithmetic", "asked"), [("per_node", "-l jobfs=200GB"), ("whole_job", "-l jobfs=800GB")]
)
def test_where_requests_are_totals_of_the_job_storage_is_one_too(tmp_path, arithmetic, asked):
    """NCI's Gadi divides the `jobfs` of a job among its nodes."""
    site = (
        f"name: there\nscheduler: {{type: openpbs, arithmetic: {arithmetic}, cpus: none}}\nlauncher: {{name: ssh}}\n"
        "storage:\n  node_local: {path: $PBS_JOBFS, request: '-l jobfs={gb}GB'}\n"
    )
    plan = plan_of(tmp_path, SPEC.format(more=", node_local: 200GB", what=DATA), site)
    assert asked in [directive.text for directive in plan.directives]


@pytest.mark.parametrize(
    ("scope", "line"), [("job", "#DW jobdw capacity=800GB"), ("node", "#DW jobdw capacity=200GB")]
)
def test_a_burst_buffer_is_as_large_as_the_nodes_need(tmp_path, scope, line):
    local = f"path: $DW, scope: {scope}, lines: ['#DW jobdw capacity={{gb}}GB']"
    plan = made(tmp_path, local=local, more=", node_local: 200GB")
    assert plan.stage_lines == (line,)
    assert not [d.text for d in plan.directives if d.text.startswith("--tmp")], "the line asks for it"


@pytest.mark.parametrize(
    ("launcher", "program", "more"),
    [
        ("srun", "srun", {"--overlap", "--mem=0"}),
        ("openmpi", "srun", {"--mpi=none", "--overlap", "--mem=0", "--nodes=4", "--ntasks-per-node=1"}),
        ("hydra", "srun", {"--mpi=none", "--overlap"}),
    ],
)
def test_beside_the_training_a_step_of_slurm_waits_for_the_end(tmp_path, launcher, program, more):
    keep = [str(word) for word in made(tmp_path, launcher=launcher).stage_keep]
    assert keep[0] == program
    assert more <= set(keep)


@pytest.mark.parametrize("scheduler", ["openpbs", "torque"])
def test_beside_the_training_what_ssh_starts_waits_where_there_are_no_steps(tmp_path, scheduler):
    plan = made(tmp_path, launcher="ssh", scheduler=scheduler)
    assert plan.stage_keep == plan.stage_launch
    assert str(plan.stage_keep[0]) == "dlrun_ssh"
    assert made(tmp_path, launcher="openmpi", scheduler=scheduler).stage_keep == ()


def test_nothing_waits_where_steps_can_be_started_at_the_end(tmp_path):
    assert made(tmp_path, launcher="ssh").stage_keep == ()
    assert made(tmp_path, what="").stage_keep == ()


@pytest.mark.parametrize(
    ("what", "seconds"), [("", 120), ("code: {stage: true}\n", 180), ("results: /r\n", 420)]
)
def test_the_early_signal_comes_before_what_is_written_is_copied(tmp_path, what, seconds):
    plan = made(tmp_path, what=f"checkpoint: {{before_end: 2m}}\n{what}")
    assert plan.request.signal_before == seconds


def test_relative_paths_are_those_of_the_submission_where_commands_run_elsewhere(tmp_path):
    what = "data: {set: {source: set, strategy: copy}}\nresults: out\n"
    plan = made(tmp_path, what=what)
    assert (plan.data[0].source, plan.results.to) == ("set", "out")
    plan = made(tmp_path, what=f"{what}code: snapshot\n")
    assert (plan.data[0].source, plan.results.to) == (f"{plan.directory}/set", f"{plan.directory}/out")


@pytest.mark.parametrize(
    ("container", "goes"),
    [
        ("", True),
        ("environment: {container: {image: /a.sif, runtime: apptainer, workdir: /ws}}\n", True),
        ("environment: {container: {image: /a.sqsh, runtime: enroot, workdir: /ws}}\n", False),
    ],
    ids=["none", "apptainer", "pyxis"],
)
def test_a_rank_goes_to_its_nodes_copy_of_the_code_itself(tmp_path, container, goes):
    """Where pyxis starts it in the image, it is in the working directory there already, which may be another."""
    plan = made(tmp_path, what=f"code: {{stage: true}}\n{container}")
    assert ('cd -- "$DLRUN_WORK"' in scripts_of(plan)["rank.sh"]) is goes
