"""torch and MPI: which processes a job has and what each is told."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.frameworks.common import agents
from dlrun.frameworks.protocol import Shape
from dlrun.frameworks.torch import torch
from dlrun.model.text import Shell, Text
from dlrun.plan.roles import can_start
from tests.making import NODES, SLURM, plan_of

COMMAND = (Text.of("python"), Text.of("-u"), Text.of("train.py"), Text.of("--x"))


def shape(**changes) -> Shape:
    usual = {
        "nodes": 2, "ranks_per_node": 4, "world_size": 8, "gpus_per_node": 4, "threads": 8,
        "ranks": (), "interface": "ib0", "fabric": "infiniband", "launcher": "srun", "scheduler": "slurm",
    }  # fmt: skip
    usual |= changes
    launcher = backends.launcher(usual["launcher"])
    return Shape(**{"mpi": launcher.MPI, "rank": launcher.IDENTITY.rank} | usual)


def words(texts) -> str:
    return " ".join(map(str, texts))


def told(role) -> dict[str, str]:
    return {s.name: str(Text.of(s.value)) for s in role.variables}


def test_env_init_is_one_process_a_rank():
    (role,) = torch.roles(shape(), COMMAND, torch.Options())
    assert (role.name, role.place, role.argv, role.service, role.binds) == (
        "rank",
        "rank",
        COMMAND,
        False,
        True,
    )
    assert told(role) == {
        "MASTER_ADDR": "$DLRUN_MASTER_ADDR",
        "MASTER_PORT": "$DLRUN_MASTER_PORT",
        "WORLD_SIZE": "8",
        "RANK": "$DLRUN_RANK",
        "LOCAL_RANK": "$DLRUN_LOCAL_RANK",
        "LOCAL_WORLD_SIZE": "$DLRUN_LOCAL_SIZE",
        "GROUP_RANK": "$DLRUN_NODE_RANK",
        "GLOO_SOCKET_IFNAME": "ib0",
    }
    assert all(s.because for s in role.variables)
    assert torch.ports(shape(), torch.Options()) == 1
    assert backends.framework("torch").LAUNCHERS == ()


@pytest.mark.parametrize("changes", [{"nodes": 1}, {"interface": None}])
def test_gloo_is_left_alone_on_one_node_or_an_unknown_fabric(changes):
    (role,) = torch.roles(shape(**changes), COMMAND, torch.Options())
    assert "GLOO_SOCKET_IFNAME" not in told(role)


@pytest.mark.parametrize("asked", [torch.Options(agent=True), torch.Options(torchrun=True)])
def test_torchrun_is_one_agent_a_node(asked):
    (role,) = torch.roles(shape(), COMMAND, asked)
    assert (role.name, role.place, role.per_node, role.binds) == ("agent", "node", 1, False)
    assert words(role.argv) == (
        "python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --max-restarts=0 --node-rank=$DLRUN_NODE_RANK "
        "--master-addr=$DLRUN_MASTER_ADDR --master-port=$DLRUN_MASTER_PORT train.py --x"
    )
    assert told(role) == {"GLOO_SOCKET_IFNAME": "ib0"}


def test_torchrun_agents_may_meet_through_c10d():
    options = torch.Options(agent=True, rendezvous="c10d", max_restarts=3)
    (role,) = torch.roles(shape(), COMMAND, options)
    assert words(role.argv) == (
        "python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --max-restarts=3 --rdzv-backend=c10d "
        "--rdzv-endpoint=$DLRUN_MASTER_ADDR:$DLRUN_MASTER_PORT --rdzv-id=$DLRUN_RUN_ID "
        "--rdzv-conf=is_host=$(( DLRUN_NODE_RANK == 0 )) train.py --x"
    )
    assert Shell("$(( DLRUN_NODE_RANK == 0 ))") in role.argv[-3].parts


@pytest.mark.parametrize(
    ("command", "python", "rest"),
    [
        (["python", "a.py"], "python", ["a.py"]),
        (["/opt/bin/python3.11", "-u", "-u", "-m", "pkg"], "/opt/bin/python3.11", ["-m", "pkg"]),
        (["./train", "x"], None, ["./train", "x"]),
        (["pythonic", "x"], None, ["pythonic", "x"]),
    ],
)
def test_the_interpreter_of_a_command(command, python, rest):
    found, program = agents.split_python([Text.of(word) for word in command])
    assert (str(found) if found else None, [str(w) for w in program]) == (python, rest)


def test_torchrun_starts_other_programs_without_python():
    (role,) = torch.roles(shape(), (Text.of("./train"), Text.of("x")), torch.Options(agent=True))
    assert words(role.argv).startswith("python3 -m torch.distributed.run ")
    assert words(role.argv).endswith("--no-python ./train x")


def test_mpi_needs_nothing_but_an_mpi_launcher():
    mpi = backends.framework("mpi")
    (role,) = mpi.roles(shape(), COMMAND, mpi.Options())
    assert (role.name, role.place, role.argv, role.variables) == ("rank", "rank", COMMAND, ())
    assert mpi.ports(shape(), mpi.Options()) == 0
    fit = {name for name in backends.LAUNCHERS if can_start(backends.launcher(name), mpi)}
    assert fit == set(backends.LAUNCHERS) - {"ssh", "local", "qrsh"}


@pytest.mark.parametrize("name", ["torch", "mpi"])
def test_neither_needs_cores_of_its_own(name):
    framework = backends.framework(name)
    assert framework.comm_cores(framework.Options()) == 0


@pytest.mark.parametrize("kind", ["scheduler", "launcher", "framework"])
def test_an_unknown_back_end_names_the_nearest(kind):
    from dlrun.errors import Invalid

    known = {"scheduler": "slurm", "launcher": "openmpi", "framework": "torch"}[kind]
    with pytest.raises(Invalid, match=f"dlrun does not support the {kind} `{known}x`") as refused:
        getattr(backends, kind)(known + "x")
    assert refused.value.help == f"the nearest is `{known}`"


def test_the_roles_of_a_plan_have_launch_lines_and_counts(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 3, ranks: 5, walltime: 1h}", SLURM + NODES)
    (role,) = plan.roles
    assert (role.name, role.nodes, role.per_node, role.count) == ("rank", "all", 2, 5)
    assert words(role.launch).startswith("srun --nodes=3 --ntasks=5 --distribution=plane=2")
    assert {v.rule for v in role.variables} == {"torch-protocol"}


def test_agents_of_a_plan(tmp_path):
    plan = plan_of(tmp_path, "resources: {nodes: 3, ranks_per_node: 2}\ntorch: {agent: true}", SLURM + NODES)
    (role,) = plan.roles
    assert (role.name, role.per_node, role.count) == ("agent", 1, 3)
    assert words(role.launch).startswith("srun --nodes=3 --ntasks=3 --ntasks-per-node=1")
