"""When a site's own mover brings the data, how it is called, and how storage is asked for with the job."""

from __future__ import annotations

import pytest

from tests.making import plan_of

SPEC = "command: [x]\nresources: {{nodes: {nodes}, ranks_per_node: 1, walltime: 1h{more}}}\n{what}"
DATA = "data: {set: {source: /scratch/set, strategy: copy}}\n"


def made(place, mover: str, *, nodes=4, launcher="srun", local="path: /local", more="", what=DATA):
    site = (
        f"name: there\nscheduler: {{type: slurm}}\nlauncher: {{name: {launcher}}}\n"
        f"storage:\n  node_local: {{{local}}}\n" + (f"  mover: {{{mover}}}\n" if mover else "")
    )
    return plan_of(place, SPEC.format(nodes=nodes, more=more, what=what), site)


def because(plan):
    return next(d.because for d in plan.decisions if d.key == "data.mover")


@pytest.mark.parametrize(
    ("mover", "local", "call", "by"),
    [
        ("name: sbcast", "path: /local", "sbcast --force", "packed"),
        (
            "name: sbcast, program: /opt/sbcast, arguments: [-F, '8']",
            "path: /l",
            "/opt/sbcast --force -F 8",
            "packed",
        ),
        ("name: dbcast, processes: 2", "path: /local", "--overcommit dbcast", "files"),
        ("name: dcp", "path: /bb, scope: job", "--overcommit dcp --preserve", "tree"),
    ],
)
def test_a_mover_is_called_as_its_manual_says(tmp_path, mover, local, call, by):
    plan = made(tmp_path, mover, local=local)
    assert plan.mover is not None
    assert " ".join(map(str, plan.mover.argv)).endswith(call)
    assert (plan.mover.by, plan.mover.sets, plan.mover.strict) == (by, ("set",), False)
    assert "the site profile wants it" in because(plan)


def test_an_mpi_mover_has_its_processes_on_every_node(tmp_path):
    plan = made(tmp_path, "name: dbcast, processes: 2")
    assert {"--nodes=4", "--ntasks=8", "--ntasks-per-node=2"} <= set(map(str, plan.mover.argv))


@pytest.mark.parametrize(
    ("mover", "more", "why"),
    [
        ("name: sbcast", {"nodes": 1}, "there is one node"),
        ("name: dcp", {}, "it copies to storage that all nodes see"),
        ("name: sbcast", {"local": "path: /bb, scope: job"}, "one copy is enough"),
        ("name: dbcast", {"launcher": "ssh"}, "it is an MPI program, and the launcher ssh starts none"),
        ("name: sbcast", {"more": ", spare_nodes: 1"}, "it would copy to the spare nodes too"),
    ],
)
def test_where_a_mover_does_not_suit_the_chain_is_taken_and_it_is_said_why(tmp_path, mover, more, why):
    plan = made(tmp_path, mover, **more)
    assert plan.mover is None
    assert why in because(plan)


def test_only_sets_that_every_node_gets_whole_are_moved(tmp_path):
    what = "data: {part: {source: /p, strategy: shard}, there: {source: /t, strategy: in_place}}\n"
    assert made(tmp_path, "name: sbcast", what=what).mover is None


@pytest.mark.parametrize("what", [DATA, "results: /scratch/r\n", "environment: {venv: /v, stage: true}\n"])
def test_storage_is_asked_for_by_whatever_uses_it(tmp_path, what):
    plan = made(tmp_path, "", local="path: /mnt, request: --constraint=BEEOND", what=what)
    assert "--constraint=BEEOND" in [directive.text for directive in plan.directives]


def test_nothing_is_asked_for_by_a_job_that_uses_none(tmp_path):
    plan = made(tmp_path, "", local="path: /mnt, request: --constraint=BEEOND", what="")
    assert "--constraint=BEEOND" not in [directive.text for directive in plan.directives]


@pytest.mark.parametrize(
    ("scope", "line"), [("job", "#DW jobdw capacity=800GB"), ("node", "#DW jobdw capacity=200GB")]
)
def test_a_burst_buffer_is_as_large_as_the_nodes_need(tmp_path, scope, line):
    local = f"path: $DW, scope: {scope}, lines: ['#DW jobdw capacity={{gb}}GB']"
    plan = made(tmp_path, "", local=local, more=", node_local: 200GB")
    assert plan.stage_lines == (line,)
    assert not [d.text for d in plan.directives if d.text.startswith("--tmp")], "the line asks for it"


WARP = "path: $DW_JOB_STRIPED, scope: job, lines: ['#DW jobdw type=scratch capacity={gb}GB']"
SPACE = ", node_local: 100GB"


def warped(place, source="/scratch/set/", more="", local=WARP):
    what = f"data: {{set: {{source: '{source}', strategy: copy{more}}}}}\n"
    return made(place, "name: datawarp", local=local, more=SPACE, what=what)


def test_datawarp_is_asked_to_bring_a_directory_before_the_job(tmp_path):
    plan = warped(tmp_path)
    assert plan.stage_lines == (
        "#DW jobdw type=scratch capacity=400GB",
        "#DW stage_in type=directory source=/scratch/set destination=$DW_JOB_STRIPED/dlrun-in-set",
    )
    assert (plan.mover.by, plan.mover.sets, str(plan.mover.arrived)) == (
        "placed",
        ("set",),
        "${DW_JOB_STRIPED}/dlrun-in-",
    )


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"source": "/scratch/set"}, "whether its source is a directory is not known here"),
        ({"source": "/scratch/a set/"}, "absolute paths of plain characters"),
        ({"source": "/scratch/$HOME/"}, "absolute paths of plain characters"),
        ({"source": "/scratch/*/"}, "whole directories"),
        ({"more": ", include: ['*.jpg']"}, "whole directories"),
        ({"local": "path: /local"}, "its own storage alone"),
        ({"local": "path: /mnt/bb, scope: job"}, "its own storage alone"),
    ],
)
def test_what_datawarp_cannot_bring_is_not_asked_of_it(tmp_path, how, why):
    plan = warped(tmp_path, **how)
    assert plan.mover is None
    assert not [line for line in plan.stage_lines if "stage_in" in line]
    assert why in because(plan)


def test_a_set_that_datawarp_cannot_bring_comes_beside_one_that_it_can(tmp_path):
    what = "data: {one: {source: /s/one/, strategy: copy}, two: {source: /s/two.tar, strategy: copy}}\n"
    plan = made(tmp_path, "name: datawarp", local=WARP, more=SPACE, what=what)
    assert plan.mover.sets == ("one",)
    assert "`two` does not come by it" in because(plan)


@pytest.mark.parametrize(
    ("launcher", "program", "more"),
    [
        ("srun", "srun", {"--overlap", "--mem=0"}),
        ("openmpi", "srun", {"--mpi=none", "--overlap", "--mem=0", "--nodes=4", "--ntasks-per-node=1"}),
        ("hydra", "srun", {"--mpi=none", "--overlap"}),
    ],
)
def test_beside_the_training_a_step_of_slurm_waits_for_the_end(tmp_path, launcher, program, more):
    keep = [str(word) for word in made(tmp_path, "", launcher=launcher).stage_keep]
    assert keep[0] == program
    assert more <= set(keep)


def test_nothing_waits_where_steps_can_be_started_at_the_end(tmp_path):
    assert made(tmp_path, "", launcher="ssh").stage_keep == ()
    assert made(tmp_path, "", what="").stage_keep == ()
