"""Rows that are told by environment: Paddle, JAX, DeepSpeed, Accelerate, Lightning."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.frameworks import jax, paddle, protocol
from dlrun.frameworks.torch import accelerate, deepspeed, lightning
from dlrun.model.text import Text
from tests.unit.frameworks.making import COMMAND, problems, roles, run_process, shape, told

PS = paddle.Options(mode="parameter_server", servers_per_node=1)


@pytest.mark.slow
def test_paddle_trainers_find_themselves_in_the_list(tmp_path):
    spec = (
        'framework: paddle\ncommand: [bash, -c, "echo $PADDLE_TRAINER_ID $PADDLE_CURRENT_ENDPOINT '
        '$PADDLE_TRAINER_ENDPOINTS $PADDLE_MASTER $PADDLE_DISTRI_BACKEND"]\nresources: {nodes: 2, ranks_per_node: 2}'
    )
    everyone = "n1:20001,n1:20002,n2:20001,n2:20002"
    for rank, own in enumerate(everyone.split(",")):
        place = tmp_path / str(rank)
        place.mkdir()
        said = run_process(place, spec, "rank", rank)
        assert said.splitlines()[-1] == f"{rank} {own} {everyone} n1:20000 gloo"
    assert paddle.ports(shape(), paddle.Options()) == 3


def test_paddle_servers_have_ports_that_no_trainer_has(tmp_path):
    spec = (
        'framework: paddle\npaddle: {mode: parameter_server}\ncommand: [bash, -c, "echo $TRAINING_ROLE '
        '$POD_IP:$PADDLE_PORT $PADDLE_PSERVERS_IP_PORT_LIST"]\nresources: {nodes: 2, ranks_per_node: 2}'
    )
    servers = "n1:20003,n2:20003"
    assert run_process(tmp_path, spec, "server", 1).splitlines()[-1] == f"PSERVER n2:20003 {servers}"
    assert run_process(tmp_path, spec, "trainer", 2).splitlines()[-1] == f"TRAINER n2:20001 {servers}"
    assert paddle.ports(shape(), PS) == 4


def test_paddle_wheels_lack_the_parameter_server():
    wheel = {"paddlepaddle": "3.3.1"}
    assert problems(paddle, PS, packages=wheel) == ["DLR037"]
    assert problems(paddle, PS, packages={"paddlepaddle-gpu": "3.3.1"}) == ["DLR037"]
    assert problems(paddle, PS) == []
    assert problems(paddle, packages=wheel) == []


def test_gpus_keep_paddle_and_jax_from_gloo():
    assert "PADDLE_DISTRI_BACKEND" not in told(roles(paddle, gpus_per_node=4)["rank"])
    assert told(roles(jax)["rank"])["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] == "gloo"
    assert told(roles(jax, gpus_per_node=4)["rank"]) == {
        "JAX_COORDINATOR_ADDRESS": "$DLRUN_MASTER_ADDR:$DLRUN_MASTER_PORT"
    }


def test_jax_must_be_told_who_it_is_where_nobody_else_does():
    assert problems(jax) == ["DLR038!"]
    assert problems(jax, launcher="srun") == []
    assert problems(jax, world_size=1) == []
    assert problems(jax, command=(*COMMAND, Text.of("--rank=", protocol.RANK))) == []


@pytest.mark.parametrize(
    ("framework", "name", "value"),
    [(deepspeed, "DS_ACCELERATOR", "cpu"), (accelerate, "ACCELERATE_USE_CPU", "true")],
)
def test_nodes_without_gpus_are_named_as_such(framework, name, value):
    variables = told(roles(framework)["rank"])
    assert variables[name] == value
    assert variables["MASTER_PORT"] == "$DLRUN_MASTER_PORT"
    assert name not in told(roles(framework, gpus_per_node=4)["rank"])


def test_a_stale_lock_is_named():
    assert problems(deepspeed, locks=("/home/a/.cache/torch_extensions/x/shm/lock",)) == ["DLR047!"]
    assert problems(deepspeed) == []


def test_lightning_has_the_same_devices_on_every_node():
    assert told(roles(lightning)["rank"])["NODE_RANK"] == "$DLRUN_NODE_RANK"
    assert problems(lightning, world_size=3) == ["DLR039"]
    assert problems(lightning) == []


@pytest.mark.parametrize("framework", [deepspeed, accelerate, lightning])
def test_the_loopback_interface_reaches_nobody(framework):
    assert problems(framework, variables={"GLOO_SOCKET_IFNAME": "lo"}) == ["DLR040"]
    whole = backends.completed("framework", framework)
    assert whole.ports(shape(), whole.Options()) == 1
