"""Jobs with several programs: what is planned for each role, what is asked of the scheduler, and what is refused, where."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from dlrun.model.units import Duration
from dlrun.plan.role_jobs.order import ends
from dlrun.render.parts import library
from tests.library import LIBRARY
from tests.making import SLURM, fault_of, plan_of, scripts_of

SITE = (
    SLURM
    + """\
partitions: {work: {default: true, node_type: n, exclusive: true, min_nodes: 2, max_nodes: 4}}
node_types: {n: {memory: 180GiB, topology: {packages: 2, cores: 8, gpus: {count: 4, numa: [0, 0, 1, 1]}}}}
"""
)
SHARED = SITE.replace("exclusive: true", "exclusive: false")
TWO = """\
resources: {walltime: 1h}
environment: {variables: {A: spec, B: spec}}
roles:
  judge:
    command: [judge, "{{ role.judge.port }}"]
    environment: {variables: {B: judge}}
  train:
    run: train {{ role.judge.address }} {{ role.judge.hosts }}
    nodes: 2
    needs: [judge]
"""


def jobs(plan):
    return {role.name: role for role in plan.role_jobs.jobs}


def test_the_job_asks_for_the_nodes_of_all_roles(tmp_path):
    plan = plan_of(tmp_path, TWO, SITE)
    assert (plan.request.nodes, plan.request.walltime) == (3, Duration(3600))
    assert "--nodes=3" in [one.text for one in plan.directives]
    assert {name: role.plan.request.nodes for name, role in jobs(plan).items()} == {"judge": 1, "train": 2}
    assert plan.cost.node_hours == 3


def test_each_role_is_a_job_with_the_rest_of_the_spec(tmp_path):
    roles = jobs(plan_of(tmp_path, TWO, SITE))
    judge, train = roles["judge"].plan, roles["train"].plan
    own = {v.name: v.value.literal for v in judge.variables if v.name in "AB"}
    assert own == {"A": "spec", "B": "judge"}
    assert {v.name: v.value.literal for v in train.variables if v.name in "AB"} == {"A": "spec", "B": "spec"}
    assert (judge.request.ranks_per_node, train.request.ranks_per_node) == (1, 4)
    assert judge.role == "judge"
    assert train.directives == ()
    assert "--nodelist=" in str(train.roles[0].launch)


@pytest.mark.parametrize("scheduler", ["slurm", "flux"])
def test_a_job_has_each_part_of_the_library_that_another_reads(tmp_path, scheduler):
    site = SITE.replace("{type: slurm}", f"{{type: {scheduler}}}").replace(
        "{name: srun}", f"{{name: {'flux' if scheduler == 'flux' else 'srun'}}}"
    )
    parts = library(plan_of(tmp_path, TWO, site))
    texts = (LIBRARY.joinpath(f"{name}.sh").read_text() for of_file in parts.values() for name in of_file)
    read = {name for text in texts for name in re.findall(r'source "\$DLRUN_JOB_DIR/lib/([\w-]+)\.sh"', text)}
    assert read <= set(parts)


def test_a_service_may_have_several_processes(tmp_path):
    plan = plan_of(tmp_path, TWO.replace("  judge:\n", "  judge:\n    ranks_per_node: 2\n"), SITE)
    assert jobs(plan)["judge"].plan.request.ranks_per_node == 2


def test_the_one_process_of_a_server_is_not_asked_to_be_two(tmp_path):
    """It has GPUs of both packages, and a second one on its port would end it; ranks that are so wide are a warning."""
    wide = "cores on more than one package"
    assert not any(wide in line for line in plan_of(tmp_path, TWO, SITE).warnings)
    asked = TWO.replace("  judge:\n", "  judge:\n    ranks_per_node: 1\n")
    assert any(line.startswith("judge:") and wide in line for line in plan_of(tmp_path, asked, SITE).warnings)


def test_a_role_of_one_node_reaches_those_of_the_others_over_the_fabric(tmp_path):
    """A trainer sends its weights to a server by NCCL: both have the site's settings for several nodes, or they do not meet."""
    site = SITE + "fabric: {name: ethernet, interfaces: [eth0], multi_node: {NCCL_NSOCKS_PERTHREAD: '4'}}\n"
    roles = jobs(plan_of(tmp_path, TWO, site))
    for name, role in roles.items():
        given = {v.name: v.value.literal for v in role.plan.variables}
        assert (given["NCCL_NSOCKS_PERTHREAD"], given["NCCL_SOCKET_IFNAME"]) == ("4", "=eth0"), name
    assert roles["judge"].plan.request.nodes == 1
    shared = TWO.replace("nodes: 2", "beside: judge")
    found = jobs(plan_of(tmp_path, shared, site.replace("min_nodes: 2, ", "")))["train"].plan
    assert "NCCL_NSOCKS_PERTHREAD" not in {v.name for v in found.variables}


def test_a_port_that_is_used_says_when_a_role_is_ready(tmp_path):
    roles = jobs(plan_of(tmp_path, TWO, SITE))
    assert roles["judge"].ready.port
    assert roles["train"].ready is None
    assert [name for name, role in roles.items() if role.ends] == ["train"]


def test_a_role_without_any_sign_that_it_is_ready_is_a_warning(tmp_path):
    plan = plan_of(tmp_path, "roles: {a: {command: [a]}, b: {command: [b], needs: [a]}}", SITE)
    assert any("role `a` has no `ready`" in line for line in plan.warnings)


@pytest.mark.slow
def test_what_the_program_on_the_nodes_reads(tmp_path):
    ready = "    ready: {file: up, within: 2m}\n    restarts: 3\n    ends: true\n    command: [judge"
    plan = plan_of(tmp_path, TWO.replace("    command: [judge", ready), SITE)
    made = json.loads(scripts_of(plan)["roles.json"])
    assert (made["version"], made["walltime"]) == (1, 3600)
    judge, train = made["roles"]
    assert judge == {
        "name": "judge",
        "nodes": 1,
        "needs": [],
        "ends": True,
        "restarts": 3,
        "ports": 1,
        "ready": {"file": "/home/ada/project/up"},
        "within": 120,
        "copies": 5,
    }
    assert (train["needs"], train["ready"], train["ends"], train["nodes"]) == (["judge"], None, False, 2)


def test_spare_nodes_are_of_the_job_and_its_own_program_chooses(tmp_path):
    site = SITE + "node_checks: [/opt/check-node]\n"
    plan = plan_of(tmp_path, TWO.replace("walltime: 1h", "walltime: 1h, spare_nodes: 1, exclude: [n9]"), site)
    assert {"--nodes=4", "--no-kill"} <= {one.text for one in plan.directives}
    assert plan.request.nodes == 3
    assert [role.plan.node_checks for role in plan.role_jobs.jobs] == [None, None]
    made = scripts_of(plan)
    assert json.loads(made["roles.json"])["spare"] == {
        "nodes": 3,
        "patience": 180,
        "leave_out": [],
        "directory": "/tmp",
        "restarts": False,
        "outlives": True,
    }
    assert {"nodes", "first-node"} <= set(library(plan))
    assert "\ndlrun_count_replacements #" in made["job.sh"]
    assert len(made["job.sh"].splitlines()) <= 90


def test_a_job_that_is_requeued_is_not_given_its_bad_nodes_again(tmp_path):
    spec = TWO.replace("walltime: 1h", "walltime: 1h, spare_nodes: 1, exclude: [n9]")
    made = scripts_of(plan_of(tmp_path, f"{spec}on_failure: {{requeue: 1}}\n", SITE))
    requeue = json.loads(made["roles.json"])["requeue"]
    assert "scontrol requeue" in requeue.partition("dlrun_exclude_on_requeue n9")[0]
    subprocess.run(["bash", "-n", "-c", requeue], check=True)


STAGED = SITE + "storage: {node_local: {path: /local, size: 1TB}}\n"


def test_code_on_the_nodes_is_a_copy_of_each_role_which_comes_back_before_the_walltime_ends(tmp_path):
    spec = TWO + "code: {stage: true}\ncheckpoint: {signal: TERM, before_end: 3m}\n"
    made = scripts_of(plan_of(tmp_path, spec, STAGED))
    for name in ("judge", "train"):
        lines = made[f"roles/{name}/job.sh"].splitlines()
        assert [line.partition(" #")[0] for line in lines if line.startswith("dlrun_use_snapshot")] == [
            "dlrun_use_snapshot /home/ada/project own"
        ]
        assert "dlrun_work_on_nodes" in made[f"roles/{name}/job.sh"]
    whole = json.loads(made["roles.json"])
    assert [role.get("signal") for role in whole["roles"]] == [None, "USR1"], (
        "the server answers until the end"
    )
    assert [role["copies"] for role in whole["roles"]] == [65, 65]
    assert whole["before"] == 180 + 60 + 60, "the checkpoint, what the training wrote, and then the server"


def test_a_role_whose_code_is_on_its_node_is_not_ready_by_a_file_there(tmp_path):
    text = "code: {stage: true}\nroles: {a: {command: [a], ready: {file: up}}, b: {command: [b], needs: [a]}}"
    code, message, help_, at = fault_of(tmp_path, text, STAGED)
    assert (code, at.startswith("up")) == ("DLR142", True)
    assert "a node of role `a`" in message
    assert "absolute path" in help_
    plan_of(tmp_path, text.replace("file: up", "file: /shared/up"), STAGED)
    plan_of(tmp_path, text, SITE)


ENDING = """\
checkpoint: {signal: TERM, before_end: 3m}
on_failure: {requeue: 2, user_error: requeue}
"""


PBS = SITE.replace("type: slurm", "type: openpbs").replace("{name: srun}", "{name: ssh}")


def test_without_steps_of_the_scheduler_programs_are_started_by_ssh(tmp_path):
    plan = plan_of(tmp_path, TWO, PBS)
    assert any("select=3:" in one.text for one in plan.directives), "one select for all roles"
    *words, host = plan.role_jobs.start
    assert [part.code for part in host.parts] == ["$DLRUN_FIRST_HOST"]
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/bash\necho "on $1"\nshift\nexec "$@"\n')
    ssh.chmod(0o755)
    odd = ["two words", "a\nline", "$HOME'\"", ""]
    ran = subprocess.run(
        [*(word.literal for word in words), "n2", "printf", "<%s>", *odd],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "on n2\n" + "".join(f"<{word}>" for word in odd)


def test_where_the_scheduler_does_not_requeue_the_job_is_submitted_again(tmp_path):
    made = scripts_of(plan_of(tmp_path, f"{TWO}on_failure: {{requeue: 1}}\n", PBS))
    assert json.loads(made["roles.json"])["requeue"].endswith("dlrun_resubmit qsub job.sh")
    assert "\ndlrun_exit_if_resubmitted #" in made["job.sh"]


def test_the_early_signal_is_for_the_roles_that_end_the_job(tmp_path):
    plan = plan_of(tmp_path, TWO.replace("  judge:\n", "  judge:\n    restarts: 3\n") + ENDING, SITE)
    assert {"--signal=B:USR1@180", "--requeue"} <= {one.text for one in plan.directives}
    made = scripts_of(plan)
    whole = json.loads(made["roles.json"])
    assert [role.get("signal") for role in whole["roles"]] == [None, "USR1"]
    assert (whole["before"], whole["requeues"], "timed_out" in whole["requeue_on"]) == (180, 2, True)
    assert whole["requeue"].startswith("scontrol requeue")
    lines = {name: made[f"roles/{name}/job.sh"].splitlines() for name in ("judge", "train")}
    causes = "timed_out preempted node_failed user_error"
    for name, times in (("judge", 5), ("train", 2)):
        found = [line.partition(" # ")[0] for line in lines[name] if line.startswith("dlrun_requeue")]
        assert found == [f"dlrun_requeue {times} '{causes}' touch \"$DLRUN_RUN_DIR/.again\""], (
            "as often as both can start it"
        )
    assert not [line for line in lines["judge"] if line.startswith(("dlrun_checkpoint", "dlrun_end_before"))]
    (saves,) = [line for line in lines["train"] if line.startswith("dlrun_checkpoint")]
    assert saves.startswith("dlrun_checkpoint TERM USR1 180 '' scheduler 'the ranks'")
    assert len(made["job.sh"].splitlines()) <= 90


LOCAL = "storage: {node_local: {path: /local}}\n"
CREATED = LOCAL.replace("}}", ", lines: ['#BB create {gb}']}}")
RESULTS = "results: {to: out, before_end: 5m}\n"


def ended_for_results(made):
    """Of each role the signal and the seconds for the copy, and the seconds before the end of the walltime."""
    whole = json.loads(made["roles.json"])
    return [(role.get("signal"), role.get("copies")) for role in whole["roles"]], whole["before"]


def test_results_are_copied_from_the_role_that_ends_the_job(tmp_path):
    text = TWO.replace("{walltime: 1h}", "{walltime: 1h, node_local: 20GB}") + RESULTS
    plan = plan_of(tmp_path, text, SITE + CREATED)
    made, train = scripts_of(plan), jobs(plan)["train"].plan
    assert jobs(plan)["judge"].plan.results is None
    assert train.results.to == f"{plan.directory}/out"
    assert {name for name in made if name.endswith("stage.sh")} == {"roles/train/stage.sh"}
    assert ended_for_results(made) == ([(None, 5), ("USR2", 305)], 330)  # 5 s for what was compiled
    assert "dlrun_end_at USR2 30 " in made["roles/train/job.sh"]
    assert "dlrun_end_" not in made["roles/judge/job.sh"]
    assert [name for name, text in made.items() if "#BB create 20" in text] == ["job.sh"], "for the whole job"


def test_the_results_come_after_the_checkpoint(tmp_path):
    made = scripts_of(plan_of(tmp_path, TWO + RESULTS + ENDING, SITE + LOCAL))
    assert ended_for_results(made) == ([(None, 5), ("USR1", 305)], 480)
    assert "dlrun_end_" not in made["roles/train/job.sh"]


def test_several_roles_that_end_the_job_have_a_directory_of_results_each(tmp_path):
    text = "roles: {a: {command: [a, '{{ results }}']}, b: {command: [b]}}\nresults: /scratch/17\n"
    plan = plan_of(tmp_path, text, SITE + LOCAL)
    assert {name: role.plan.results.to for name, role in jobs(plan).items()} == {
        "a": "/scratch/17/a",
        "b": "/scratch/17/b",
    }


def test_a_service_has_no_results(tmp_path):
    text = TWO.replace("[judge, ", "[judge, '{{ results }}', ") + RESULTS
    code, _, help_, at = fault_of(tmp_path, text, SITE + LOCAL)
    assert (code, at.startswith("'{{ results")) == ("DLR029", True)
    assert "if the job ends with that role" in help_


def test_a_chain_is_requeued_at_the_limit_of_the_partition(tmp_path):
    site = SITE.replace("max_nodes: 4", "max_nodes: 4, max_walltime: 30m")
    plan = plan_of(tmp_path, TWO + "chain: true\n", site)
    whole = json.loads(scripts_of(plan)["roles.json"])
    assert (whole["walltime"], whole["requeues"], whole["requeue_on"]) == (1800, 1, ["timed_out"])
    assert whole["before"] == 30


def test_expressions_are_variables_of_the_job(tmp_path):
    made = scripts_of(plan_of(tmp_path, TWO, SITE))
    assert "${DLRUN_ROLE_JUDGE_PORT}" in made["roles/judge/rank.sh"]
    assert 'train "${DLRUN_ROLE_JUDGE_ADDRESS}" "${DLRUN_ROLE_JUDGE_HOSTS}"' in made["roles/train/rank.sh"]


def test_the_pages_of_a_job_with_two_roles_are_short(tmp_path):
    plan = plan_of(tmp_path, TWO, SITE)
    made = scripts_of(plan)
    assert len(made["job.sh"].splitlines()) <= 90
    assert "roles" in library(plan)
    assert "roles" in library(jobs(plan)["judge"].plan)


def test_on_shared_nodes_each_is_as_wide_as_the_widest_role(tmp_path):
    text = TWO.replace("    nodes: 2\n", "    nodes: 2\n    gpus_per_node: 2\n    ranks_per_node: 2\n")
    text = text.replace("  judge:\n", "  judge:\n    gpus_per_node: 0\n    cpus_per_rank: 1\n")
    plan = plan_of(tmp_path, text, SHARED)
    assert (plan.request.gpus_per_node, plan.request.ranks_per_node) == (2, 2)


def test_options_of_a_framework_belong_to_the_roles_that_have_it(tmp_path):
    text = TWO.replace("resources", "torch: {agent: true}\nresources").replace(
        "  judge:\n", "  judge:\n    framework: mpi\n"
    )
    roles = jobs(plan_of(tmp_path, text, SITE))
    assert [one.name for one in roles["train"].plan.roles] == ["agent"]
    own = text.replace("torch: {agent: true}\n", "").replace(
        "    nodes: 2\n", "    nodes: 2\n    torch: {agent: true}\n"
    )
    assert jobs(plan_of(tmp_path, own, SITE))["train"].plan.roles == roles["train"].plan.roles


def test_secrets_of_roles_are_those_of_the_job(tmp_path):
    plan = plan_of(tmp_path, TWO.replace("  judge:\n", "  judge:\n    secrets: {KEY: {env: KEY}}\n"), SITE)
    assert [one.name for one in plan.secrets] == ["KEY"]
    assert jobs(plan)["train"].plan.secrets == ()


ROLE = "roles: {a: {command: [a]}, b: {command: [b], needs: [a]"
FAULTS = [
    ("DLR142", "roles: {judge: {command: [a]}, b: {command: [b], needs: [jugde]}}", "jugde]", "needs `jugde`", "`judge`"),
    ("DLR142", "roles: {a: {command: [a], needs: [a]}}", "a]}}", "needs itself", "none"),
    ("DLR142", "roles: {a: {command: [a], needs: [b]}, b: {command: [b], needs: [a]}}", "[b]}", "can start", "remove one"),
    ("DLR142", "roles: {a: {command: [a]}, A: {command: [b]}}", "A: ", "the same variables", "upper and lower"),
    ("DLR142", ROLE + ", ready: {port: true, log: x}}}", "{port", "has `port` and `log`", "one of them"),
    ("DLR142", ROLE + ", ready: {within: 1m}}}", "{within", "has none", "{port: true}"),
    ("DLR143", "roles: {a: {command: [a]}}\nsweep: {x: [1, 2]}", "{x", "`sweep` cannot be used yet", "a job for each point"),
    ("DLR029", "roles: {a: {command: [a, '{{ lr }}']}}", "'{{", "unknown name `lr`", "a job with roles has no parameters"),
    ("DLR143", "roles: {a: {command: [a]}}\nhang: 10m", "10m", "one of its servers", "the role that trains"),
    ("DLR015", "roles: {a: {command: [a], nodes: 3}}\nresources: {spare_nodes: 2}", "{a", "5 nodes exceed", "at most 4"),
    ("DLR143", "roles: {a: {command: [a], launcher: pals}}", "pals", "on all nodes of an allocation", "`srun` or `ssh`"),
    ("DLR015", "roles: {a: {command: [a], nodes: 3}, b: {command: [b], nodes: 2}}", "{a", "5 nodes exceed", "at most 4"),
    ("DLR029", "roles: {a: {command: [a, '{{ results }}']}}", "'{{", "name `results`", "set `results: DIRECTORY`"),
    ("DLR029", "roles: {judge: {command: [a, '{{ role.jugde.port }}']}}", "'{{", "unknown name `jugde`", "nearest is `judge`"),
    ("DLR029", "roles: {judge: {command: [a, '{{ role.judge.adress }}']}}", "'{{", "`adress`", "nearest is `address`"),
    ("", "roles: {a: {command: [a], walltime: 1h}}", "walltime", "is a key of the whole job", "outside of `roles`"),
    ("", "roles: {a: {command: [a], resources: {nodes: 2}}}", "resources", "is a key of the whole job", "itself has `nodes`"),
    ("", "roles: {a: {command: [a], nodse: 2}}", "nodse", "unknown key `nodse` in `roles.a`", "nodes"),
    ("", "roles: {a: {nodes: 2}}", "a: ", "`command` is missing in `roles.a`", "add `command:`"),
    ("", "roles: {a-b: {command: [a]}}", "a-b", "cannot be a name in `roles`", ""),
    ("", "roles: {a: {command: [a]}}\ncommand: [b]", "[b]", "`command` and `roles` are both given", "into one of the roles"),
    ("", "roles: {a: {command: [a]}}\nresources: {nodes: 4}", "4}", "`resources.nodes` and `roles`", "in each role"),
    ("", "roles: {a: {command: [a], run: b}}", "b}", "`run` and `command` are both given", "keep `run:`"),
    ("", "roles: {a: {command: [a], framework: torhc}}", "torhc", "torhc", "torch"),
    ("", "roles: {a: {command: [a], torch: {agnet: true}}}", "agnet", "unknown key `agnet`", "agent"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "at", "message", "help_"), FAULTS, ids=[one[1] for one in FAULTS])
def test_what_is_wrong_is_said_once_and_at_its_place(tmp_path, code, text, at, message, help_):
    found = fault_of(tmp_path, text, SITE)
    assert found[0] == code
    assert message in found[1]
    assert help_ in (found[2] or "")
    assert found[3].startswith(at)


@pytest.mark.parametrize(("before", "at"), [("resources: {walltime: 1h}", "{walltime"), ("", "name:")])
def test_what_the_whole_job_lacks_is_said_once(tmp_path, before, at):
    site = SITE.replace("type: slurm", "type: slurm, required: [account]")
    text = f"name: x\n{before}\nroles: {{a: {{command: [a]}}, b: {{command: [b]}}}}\n"
    code, message, _, found = fault_of(tmp_path, text, site)
    assert (code, found.startswith(at)) == ("DLR020", True)
    assert "requires `account`" in message


@pytest.mark.parametrize(
    ("site", "message"),
    [
        ("name: t\nscheduler: {type: torque}\nlauncher: {name: ssh}\n", "torque cannot run several roles"),
    ],
)
def test_other_schedulers_are_refused(tmp_path, site, message):
    found = fault_of(tmp_path, "roles: {a: {command: [a]}}", site)
    assert found[0] == "DLR143"
    assert message in found[1]


def test_data_are_copied_to_the_nodes_of_the_role_that_reads_them(tmp_path):
    site = SITE + "storage: {node_local: {path: /local, size: 1TB}}\n"
    text = (
        "data: {all: {source: /d, strategy: copy}}\n"
        "roles:\n"
        "  a: {command: [a, '{{ data.all }}', '{{ data.own }}'], data: {own: {source: /e, strategy: copy}}}\n"
        "  b: {command: [b, '{{ data.all }}'], nodes: 2}\n"
    )
    plan = plan_of(tmp_path, text, site)
    assert plan.data == ()
    of_roles = {name: role.plan for name, role in jobs(plan).items()}
    assert {name: [data.name for data in one.data] for name, one in of_roles.items()} == {
        "a": ["all", "own"],
        "b": ["all"],
    }
    assert "--nodelist=" in str(of_roles["b"].stage_launch)


def test_a_default_size_is_none_of_a_job_with_roles(tmp_path):
    site = SITE + "defaults: {resources: {nodes: 7, walltime: 2h}}\n"
    plan = plan_of(tmp_path, "roles: {a: {command: [a]}, b: {command: [b]}}", site)
    assert (plan.request.nodes, plan.request.walltime) == (2, Duration(7200))


def test_a_role_that_needs_more_cores_than_the_one_with_gpus_needs_whole_nodes(tmp_path):
    one = "{command: [a], gpus_per_node: 1, cpus_per_rank: 1, ranks_per_node: 1}"
    text = f"roles: {{a: {one}, b: {{command: [b], gpus_per_node: 0}}}}"
    code, message, help_, _ = fault_of(tmp_path, text, SHARED)
    assert code == "DLR143"
    assert "uses more cores" in message
    assert "`exclusive: true`" in help_


def test_the_roles_that_nobody_needs_end_the_job():
    class Some:
        def __init__(self, *needs, ends=None):
            self.needs, self.ends = needs, ends

    assert ends({"a": Some(), "b": Some("a"), "c": Some("a")}) == ("b", "c")
    assert ends({"a": Some(ends=True), "b": Some("a")}) == ("a",)
    assert ends({"a": Some(ends=False), "b": Some()}) == ("b",)
