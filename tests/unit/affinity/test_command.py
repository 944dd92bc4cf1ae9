"""`dlrun tune-affinity` as a program: answers, errors, and what it really does to processes here."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlrun.affinity import load as affinity_load
from dlrun.model.cpuset import format_list
from dlrun.model.placement import PlacementRequest
from dlrun.model.topology import NumaNode
from dlrun.plan.affinity import place
from dlrun.system.inputs.topology import live_topology
from tests.cli.preloaded import Server
from tests.unit.affinity.machines import topology

ALL = sorted(os.sched_getaffinity(0))
NODE = live_topology()
PAIR = sorted(core.pus[0] for core in NODE.cores if set(core.pus) <= set(ALL))[:2]
"""First hardware threads of two cores: whatever runs here sees a machine of two CPUs."""
TWO_CPUS = pytest.mark.skipif(len(PAIR) < 2, reason="needs two cores")
SERVERS: list[Server] = []
WORDS = ("OMP_", "KMP_", "MKL_", "OPENBLAS_", "SLURM_", "PMI", "MPI_", "LOCAL_RANK", "GOMP_", "DLRUN_")


@pytest.fixture(scope="module", autouse=True)
def server():
    """Runs dlrun without the time that importing takes, bound to the CPUs of PAIR."""
    os.sched_setaffinity(0, PAIR)
    try:
        SERVERS.append(Server())
    finally:
        os.sched_setaffinity(0, ALL)
    yield
    SERVERS.pop().stop()


def run(*argv, cpus=None, env=None, directory=None):
    """The command in a process of its own, bound to some CPUs, by default to those of PAIR."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(WORDS)}
    words = ["tune-affinity", *map(str, argv)]
    if cpus is None and env is None:
        code, *printed = SERVERS[0].run(words, directory or Path.cwd(), clean, 120)
        return subprocess.CompletedProcess(words, code, *printed)
    start = ["taskset", "--cpu-list", cpus or ",".join(map(str, PAIR))]
    program = [sys.executable, "-c", "from dlrun.cli.main import main; main()"]
    return subprocess.run(
        [*start, *program, *words],
        env={**clean, "PYTHONPATH": str(Path.cwd()), **(env or {})},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def stampede2(tmp_path):
    """A capture of a golden machine."""
    path = tmp_path / "stampede2.json"
    path.write_text(json.dumps(topology("stampede2").to_json()))
    return path


def test_json_is_the_placement_and_nothing_else(stampede2):
    done = run("--topology", stampede2, "--ranks-per-node", 2, "--comm-cores", 2, "--format", "json")
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert [rank["comm"] for rank in data["ranks"]] == [[38, 42], [39, 43]]
    assert [rank["threads"] for rank in data["ranks"]] == [22, 22]


def test_the_prace_example_by_its_options(stampede2):
    options = [
        "--ranks-per-node",
        "2",
        "--framework",
        "intelcaffe",
        "--comm-policy",
        "spread",
        "--format",
        "env",
    ]
    done = run("--topology", stampede2, *options)
    assert "export MLSL_SERVER_AFFINITY=39,38,43,42  #" in done.stdout
    assert "note: a rank must also be bound" in done.stderr


def test_table_and_picture_with_colour_only_when_asked(stampede2):
    plain = run("--topology", stampede2, "--ranks-per-node", 3)
    assert "rank  threads" in plain.stdout
    assert "\033" not in plain.stdout
    assert "12 of 48 usable cores stay idle (25 %)" in plain.stderr


def test_pictures_go_to_files(stampede2, tmp_path):
    assert run("--topology", stampede2, "-o", tmp_path / "node.svg").returncode == 0
    assert (tmp_path / "node.svg").read_text().startswith("<svg")
    refused = run("--topology", stampede2, "-o", tmp_path / "node.png")
    assert (refused.returncode, "pictures are SVG" in refused.stderr) == (2, True)
    assert not (tmp_path / "node.png").exists()
    refused = run("--topology", stampede2, "-o", tmp_path / "no" / "node.svg")
    assert (refused.returncode, "cannot write" in refused.stderr) == (1, True)


def test_explain_walks_the_rules_with_numbers(stampede2):
    done = run("--topology", stampede2, "--framework", "intelcaffe", "--reserve", "0,1", "--explain")
    assert "46 of 48 cores (0-1,48-49 reserved)" in done.stdout
    assert "every rank computes on 21 cores" in done.stdout
    assert "MLSL_SERVER_AFFINITY=38,42,39,43: the communication cores of all ranks" in done.stdout


def test_capture_here_is_a_topology_for_elsewhere(tmp_path):
    done = run("--capture", "-o", tmp_path / "node.json", cpus=str(ALL[0]))
    assert done.returncode == 0
    assert json.loads((tmp_path / "node.json").read_text())["allowed"] is None
    again = run("--topology", tmp_path / "node.json", "--capture")
    assert again.stdout == (tmp_path / "node.json").read_text()


SITE = """\
name: here
scheduler: {type: slurm}
launcher: {name: srun}
rendezvous: {address: hostname}
node_types:
  cpu: {topology: {packages: 2, cores: 24, smt: 2, numbering: dell}}
  bare: {note: nobody has looked}
partitions:
  work: {node_type: cpu, default: true, exclusive: true}
"""
SPEC = """\
name: train
site: ./site.yaml
framework: torch
command: [python, train.py]
resources: {nodes: 2, ranks_per_node: 2, walltime: 1h, partition: work}
placement: {comm_cores: 2, memory: none}
environment: {variables: {OMP_NUM_THREADS: "5"}}
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "train.py").write_text("")
    return tmp_path


def test_a_sites_node_type(site):
    done = run("--site", site / "site.yaml", "--node-type", "cpu", "--ranks-per-node", 2, "--format", "hydra")
    assert done.stdout.startswith("-ppn 2 -bind-to user:0+2+4+")
    for options, says in (
        ((), "has 2 node types"),
        (("--node-type", "gpu"), "has no node type `gpu`"),
        (("--node-type", "bare"), "does not describe the topology"),
    ):
        done = run("--site", site / "site.yaml", *options)
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_a_specs_nodes_ranks_and_wishes(site):
    done = run("spec.yaml", "--format", "env", directory=site)
    assert "export DLRUN_COMM_CPUS=38,42  #" in done.stdout
    assert "OMP_NUM_THREADS" not in done.stdout
    assert "note: OMP_NUM_THREADS=5 is already set and is kept" in done.stderr
    done = run("spec.yaml", "--comm-cores", 0, "--format", "json", directory=site)
    assert json.loads(done.stdout)["ranks"][0]["memory"] == {"policy": "none", "nodes": []}
    assert json.loads(done.stdout)["ranks"][0]["threads"] == 24


def test_a_node_in_a_few_numbers_and_what_is_wrong_with_them(tmp_path):
    node = tmp_path / "node.yaml"
    node.write_text("packages: 2\ncores: 24\nsmt: 2\nnumbering: dell\n")
    done = run("--topology", node, "--ranks-per-node", 2, "--comm-cores", 2, "--format", "json")
    assert [rank["comm"] for rank in json.loads(done.stdout)["ranks"]] == [[38, 42], [39, 43]]
    assert json.loads(done.stdout)["node"]["name"] == "node"
    for text, says in (
        ("packages: 2\ncorse: 24\n", "node.yaml:2:1"),
        ("cores: 4\nnuma_ids: [1, 2]\n", "`numa_ids` must name 1"),
        ("", "under `topology:` of a site profile"),
    ):
        node.write_text(text)
        done = run("--topology", node)
        assert (done.returncode, done.stdout, says in done.stderr) == (2, "", True), done.stderr


def test_acting_on_other_machines_is_refused(site):
    done = run("spec.yaml", "--verify", directory=site)
    assert done.returncode == 2
    assert "applies to this machine" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--topology", "/proc/nowhere"), 2, "No such file"),
        (("--ranks-per-node", "99999"), 2, "ranks need 99999 cores"),
        (("--comm-cores", "99999"), 2, "no compute core is left"),
        (("--framework", "abacus"), 2, "known are"),
        (("--reserve", "much"), 2, "N-per-node"),
        (("--verify", "--measure"), 2, "cannot be combined"),
        (("--exec",), 2, "needs a command"),
        (("--", "true"), 2, "is for --exec"),
        (("--exec", "no-such-program"), 2, "cannot run `no-such-program`"),
        (("--exec", "--ranks-per-node", "2"), 2, "come before `--exec`"),
        (("--capture", "--verify"), 2, "--capture and --verify cannot be combined"),
        (("--explain", "--exec", "true"), 2, "--explain and --exec cannot be combined"),
        (("--json", "--format", "srun"), 2, "`--json` and `--format srun` cannot be combined"),
        (("--format", "env", "-o", "node.svg"), 2, "`--format env` is text"),
        (("--ranks-per-node", "two"), 2, "`two` is not a whole number"),
        (("--site", "generic-slurm", "--node-type", "gpu"), 2, "does not describe the topology"),
        (("--gpus-per-rank", "64"), 2, "GPUs each need"),
        (("nowhere.yaml",), 2, "nowhere.yaml"),
    ],
)
def test_errors_are_short_and_tell_what_to_do(options, code, says):
    done = run(*options)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@TWO_CPUS
def test_verify_starts_ranks_and_reads_them_back():
    done = run("--ranks-per-node", 2, "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[2].split(" on CPUs")[0] for line in done.stdout.splitlines()] == [
        " 1 thread",
        " 1 thread",
    ]
    assert done.stdout.count("as planned") == 2
    one = run("--ranks-per-node", 1, "--verify")
    assert "as planned" in one.stdout


@pytest.mark.slow
@TWO_CPUS
def test_verify_as_a_rank_finds_a_wrong_mask_and_a_missing_memory_policy(tmp_path):
    first, second = PAIR
    cores = tuple(replace(core, pus=core.pus[:1]) for core in NODE.cores if core.pus[0] in PAIR)
    node = replace(NODE, cores=cores, allowed=None, isolated=(), offline=(), reserved=(), gpus=(), nics=())
    node = replace(
        node, numa_nodes=(*node.numa_nodes, NumaNode(id=99, kind="cxl"))
    )  # so that a policy means something
    (tmp_path / "node.json").write_text(json.dumps(node.to_json()))
    options = ("--topology", tmp_path / "node.json", "--ranks-per-node", 2, "--verify")
    wrong = run(*options, "--memory", "strict", cpus=str(second), env={"OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert wrong.returncode == 1
    assert f"may use CPUs {second}, not {first}" in wrong.stdout
    assert "memory policy is none, not strict:0" in wrong.stdout
    right = run(*options, "--membind", "none", cpus=str(first), env={"OMPI_COMM_WORLD_LOCAL_RANK": "0"})
    assert (right.returncode, "as planned" in right.stdout) == (0, True)
    lost = run(*options, env={"SLURM_LOCALID": "7", "SLURM_STEP_NUM_TASKS": "8"})
    assert (lost.returncode, "only 2 ranks were placed" in lost.stderr) == (2, True)


@pytest.mark.skipif(len(ALL) < max(2, os.cpu_count() or 2), reason="needs all of two or more CPUs")
def test_a_mask_that_a_launcher_left_is_found_and_mended():
    """Each rank of a launcher that binds has another mask; placed within its own, none would be where it belongs."""
    first, rank = str(ALL[0]), {"OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    found = run("--ranks-per-node", 1, "--verify", cpus=first, env=rank)
    assert (found.returncode, f"may use CPUs {first}, not" in found.stdout) == (1, True), found.stderr
    script = "import os; print(len(os.sched_getaffinity(0)))"
    mended = run("--ranks-per-node", 1, "--exec", sys.executable, "-c", script, cpus=first, env=rank)
    assert mended.stdout.split() == [str(os.cpu_count())], mended.stderr


@pytest.mark.slow
@TWO_CPUS
def test_verify_watches_a_command_that_binds_itself_elsewhere():
    good = run("--ranks-per-node", 2, "--verify", "--", "sleep", "0.5")
    assert (good.returncode, good.stdout.count("as planned")) == (0, 2)
    both = ",".join(map(str, PAIR))
    bad = run("--ranks-per-node", 2, "--verify", "--", "taskset", "--cpu-list", both, "sleep", "5")
    assert bad.returncode == 1
    assert bad.stdout.count(f"may use CPUs {format_list(PAIR)}, not") == 2


@TWO_CPUS
def test_exec_runs_every_rank_bound_and_told():
    script = 'echo "$RANK/$WORLD_SIZE threads $OMP_NUM_THREADS places ${OMP_PLACES:-free} mask$(taskset -cp $$ | sed s/.*://)"'
    done = run("--ranks-per-node", 2, "--exec", "bash", "-c", script)
    assert sorted(done.stdout.splitlines()) == [
        f"{i}/2 threads 1 places free mask {cpu}" for i, cpu in enumerate(PAIR)
    ]
    places = run("--ranks-per-node", 2, "--openmp", "gomp", "--exec", "bash", "-c", script)
    assert sorted(places.stdout.splitlines()) == [
        f"{i}/2 threads 1 places {{{cpu}}} mask {cpu}" for i, cpu in enumerate(PAIR)
    ]


FORKS = """
import multiprocessing, os
import torch
torch.ones(1000, 1000) @ torch.ones(1000, 1000)
with multiprocessing.get_context("fork").Pool(1) as pool:
    print(len(pool.apply(os.sched_getaffinity, (0,))), len(os.sched_getaffinity(0)))
"""


@pytest.mark.slow
@TWO_CPUS
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not here")
def test_data_loaders_have_all_of_the_ranks_cores_also_after_threads_have_started():
    done = run("--ranks-per-node", 1, "--memory", "none", "--exec", sys.executable, "-c", FORKS)
    assert done.stdout.split() == ["2", "2"], done.stderr  # with `--openmp gomp` it would be 1 and 1


@TWO_CPUS
@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({}, "1"),
        ({"OMP_NUM_THREADS": "3"}, "3"),
        ({"OMP_NUM_THREADS": "64", "NCPUS": "64", "PBS_JOBID": "7.server"}, "1"),
        ({"OMP_NUM_THREADS": "3", "NCPUS": "64", "PBS_JOBID": "7.server"}, "3"),
        ({"OMP_NUM_THREADS": "64", "NCPUS": "64"}, "64"),
        ({"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "none"}, "1"),
        ({"OMP_NUM_THREADS": "3", "TORCHELASTIC_RUN_ID": "none"}, "3"),
    ],
)
def test_a_number_of_threads_that_a_scheduler_or_an_agent_has_set_by_itself_is_not_the_users(
    environment, threads
):
    """PBS sets OMP_NUM_THREADS and NCPUS to all CPUs of the job on a node, whatever the ranks."""
    done = run("--ranks-per-node", 2, "--exec", "bash", "-c", "echo $OMP_NUM_THREADS", env=environment)
    assert done.stdout.split() == [threads] * 2, done.stderr


@TWO_CPUS
def test_exec_ends_all_ranks_when_one_fails():
    script = 'if [ "$RANK" = 1 ]; then exit 7; fi; sleep 60'
    assert run("--ranks-per-node", 2, "--exec", "--", "bash", "-c", script).returncode == 7


def test_exec_as_a_rank_becomes_the_command():
    ranks = place(NODE, PlacementRequest(ranks_per_node=len(PAIR), gpus_per_rank=0)).ranks
    options = ("--ranks-per-node", len(ranks), "--gpus-per-rank", 0, "--exec", "bash", "-c")
    done = run(
        *options, "taskset -cp $$; echo $OMP_NUM_THREADS", env={"MPI_LOCALRANKID": str(len(ranks) - 1)}
    )
    last = ranks[-1]
    assert done.stdout.split(":")[1].split() == [format_list(last.mask), str(last.threads)]


@pytest.mark.slow
@TWO_CPUS
def test_inside_a_smaller_set_of_cpus_only_those_are_used():
    last = PAIR[-1]
    done = run("--format", "json", cpus=str(last))
    assert [rank["cores"] for rank in json.loads(done.stdout)["ranks"]] == [[last]]
    refused = run("--ranks-per-node", 2, cpus=str(last))
    assert (refused.returncode, "--oversubscribe" in refused.stderr) == (2, True)
    shared = run("--ranks-per-node", 2, "--oversubscribe", "--verify", cpus=str(last))
    assert (shared.returncode, shared.stdout.count("as planned")) == (0, 2)


@TWO_CPUS
def test_the_table_and_verify_have_what_exec_does_with_a_part_of_the_node():
    """One core of two: the communication core of the plan of the whole node has no room there, and the rank computes."""
    last, options = str(PAIR[-1]), ("--ranks-per-node", 1, "--comm-cores", 1)
    script = "echo $DLRUN_CPUS $OMP_NUM_THREADS ${DLRUN_COMM_CPUS-none}"
    done = run(*options, "--exec", "bash", "-c", script, cpus=last)
    shown = json.loads(run(*options, "--format", "json", cpus=last).stdout)
    (rank,) = shown["ranks"]
    assert done.stdout.split() == [format_list(rank["mask"]), str(rank["threads"]), "none"], done.stderr
    assert (rank["comm"], rank["memory"]["policy"]) == ([], "none")
    (warning,) = shown["warnings"]
    assert f"of the plan was not granted to this job: its ranks divide CPUs {last}" in warning
    seen = run(*options, "--verify", cpus=last)
    assert (seen.returncode, "as planned" in seen.stdout) == (0, True), seen.stdout + seen.stderr


def test_a_plan_that_does_not_fit_this_machine_stops_with_a_reason(tmp_path, stampede2):
    done = run("--topology", stampede2, "--ranks-per-node", 2, "--exec", "true")
    assert done.returncode == 2
    assert "is another (48 cores, 96 hardware threads)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.needs("mpirun.openmpi")
@TWO_CPUS
def test_the_wrapper_and_exec_bind_what_a_real_mpirun_starts(tmp_path):
    wrapper = tmp_path / "bind.sh"
    wrapper.write_text(run("--ranks-per-node", 2, "--format", "wrapper", "--membind", "none").stdout)
    script = 'echo "$OMPI_COMM_WORLD_RANK:$(taskset -cp $$ | sed s/.*://)"'
    env = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PYTHONPATH": str(Path.cwd()),
    }
    pair = ["taskset", "--cpu-list", ",".join(map(str, PAIR))]
    mpirun = [*pair, "mpirun.openmpi", "-np", "2", "--bind-to", "none"]
    dlrun = [
        sys.executable,
        "-c",
        "from dlrun.cli.main import main; main()",
        "tune-affinity",
        "--ranks-per-node",
        "2",
        "--exec",
    ]
    bound = [*pair, "mpirun.openmpi", "-np", "2", "--bind-to", "core"]
    for argv in ([*mpirun, "bash", str(wrapper)], [*mpirun, *dlrun], [*bound, *dlrun]):
        argv += ["bash", "-c", script]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
        assert sorted(done.stdout.split("\n")[:-1]) == [f"{i}: {cpu}" for i, cpu in enumerate(PAIR)], (
            done.stderr
        )


@pytest.mark.slow
def test_measure_times_a_command_and_keeps_the_computed_answer(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\n")
    # Long beside its start, which takes longer on one core than on another where something else runs.
    done = run("--measure", "--write", spec, "--", "sleep", "0.4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2].startswith("* as computed")
    assert "load: your command" in done.stdout
    assert "computed answer stays" in done.stdout or "no winner is named" in done.stdout
    assert spec.read_text() == "name: x\n"
    failed = run("--measure", "--", "false")
    assert (failed.returncode, "ended with exit code 1" in failed.stderr) == (1, True)


def test_the_built_in_load_needs_nothing_but_python():
    argv = [sys.executable, "-S", "-I", affinity_load.__file__, "0.1", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    report = json.loads(done.stdout)
    assert report["load"] == "hash"
    assert report["rate"] > 0


PRACE = ("--site", "stampede2", "--node-type", "skx", "--framework", "intelcaffe", "--ranks-per-node", 2)


def test_the_shipped_profile_of_stampede2_gives_praces_string():
    done = run(*PRACE, "--comm-policy", "spread", "--format", "env")
    assert "export MLSL_SERVER_AFFINITY=39,38,43,42 " in done.stdout
    assert "export MLSL_SERVER_AFFINITY=38,42,39,43 " in run(*PRACE, "--format", "env").stdout
    assert run(*PRACE).stdout.startswith("skx: 2 packages")


def described(place, cores):
    """A profile whose one node type has so many CPUs."""
    path = place / "box.yaml"
    path.write_text(
        "name: box\nscheduler: {type: slurm}\nlauncher: {name: srun}\n"
        "node_types: {box: {capture: node.json}}\n"
    )
    node = json.loads(run("--capture").stdout)
    node["cores"] = node["cores"][:cores]
    (place / "node.json").write_text(json.dumps(node))
    return path


@pytest.mark.slow
@TWO_CPUS
def test_a_profile_can_be_verified_and_measured_on_its_own_nodes(tmp_path):
    profile = described(tmp_path, None)
    good = run("--site", profile, "--ranks-per-node", 2, "--verify", "--", "sleep", "0.5")
    assert (good.returncode, good.stdout.count("as planned")) == (0, 2), good.stderr
    found = tmp_path / "override.yaml"
    measured = run(
        "--site", profile, "--ranks-per-node", 1, "--measure", "--write", found, "--", "sleep", "0.05"
    )
    assert measured.returncode == 0, measured.stderr
    assert found.exists() or "is unchanged" in measured.stderr
    again = run("--site", profile, "--measure", "--write", profile)
    assert (again.returncode, "is already a site profile" in again.stderr) == (2, True)
    other = run("--site", described(tmp_path, 1), "--verify")
    assert other.returncode == 2
    assert "that of `box` nodes of site `box` is another (1 core," in other.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--write", "x.yaml"], "add `--measure`"),
        (["--measure", "--write", "none.yaml"], "`none.yaml` does not exist"),
        (["--measure", "--write", "."], "cannot read `.`: Is a directory"),
        (["--framework", "deepsped"], "the nearest is `deepspeed`"),
        (["--reserve", "foo"], "neither a CPU list"),
        (["--reserve", "4000"], "CPU 4000 cannot be reserved"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(words, says):
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("framework", "preset"),
    [("deepspeed", "torch"), ("keras", "tensorflow"), ("oneccl", "torch-ccl"), ("jax", None)],
)
def test_every_framework_has_a_preset_its_own_or_its_familys(stampede2, framework, preset):
    def settings(name):
        return run("--topology", stampede2, "--framework", name, "--format", "env").stdout

    assert settings(framework) == settings(preset or "mpi")


GPU_SITE = """\
name: gpus
scheduler: {type: slurm}
launcher: {name: srun}
gpu_binding: {policy: POLICY}
node_types:
  g: {topology: {packages: 2, cores: 8, gpus: {numa: [0, 0, 1, 1]}}}
"""


@pytest.mark.parametrize(
    ("policy", "options", "sets"),
    [
        ("scheduler", (), False),
        ("all", (), False),
        ("visible", (), True),
        ("scheduler", ("--gpu-binding", "visible"), True),
        ("visible", ("--gpu-binding", "scheduler"), False),
    ],
)
@pytest.mark.parametrize("form", ["env", "wrapper"])
def test_gpus_are_shown_as_the_site_wants_it(tmp_path, policy, options, sets, form):
    (tmp_path / "gpus.yaml").write_text(GPU_SITE.replace("POLICY", policy))
    done = run("--site", tmp_path / "gpus.yaml", "--format", form, *options)
    assert done.returncode == 0, done.stderr
    body = done.stdout.rpartition("# --- Cores")[2]
    assert ("CUDA_VISIBLE_DEVICES" in body) == sets
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in body, "ranks still count GPUs in one order"


@pytest.mark.slow
def test_a_topology_file_goes_with_the_sites_policy_and_not_with_a_node_type(tmp_path):
    (tmp_path / "gpus.yaml").write_text(GPU_SITE.replace("POLICY", "scheduler"))
    (tmp_path / "node.yaml").write_text("{packages: 1, cores: 4, gpus: {numa: [0]}}\n")
    topology_file = ("--topology", tmp_path / "node.yaml")
    assert "CUDA_VISIBLE_DEVICES" in run(*topology_file, "--format", "env").stdout
    assert (
        "CUDA_VISIBLE_DEVICES"
        not in run(*topology_file, "--site", tmp_path / "gpus.yaml", "--format", "env").stdout
    )
    refused = run(*topology_file, "--node-type", "g")
    assert (refused.returncode, "both name the node" in refused.stderr) == (2, True)
