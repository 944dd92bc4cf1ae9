"""TensorFlow, Keras and Mesh TensorFlow: every task's TF_CONFIG is JSON that says where all the others are."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.frameworks import keras
from dlrun.frameworks.tensorflow import mesh_tensorflow, tensorflow
from tests.unit.frameworks.making import problems, roles, run_process, shape, told

PS = tensorflow.Options(strategy="parameter_server", ps_per_node=2)


def config(place, spec, role, rank, **more):
    command = r"""command: [bash, -c, "printf '\\nTF=%s\\n' \"$TF_CONFIG\""]"""
    return json.loads(run_process(place, f"{spec}\n{command}", role, rank, **more).rpartition("TF=")[2])


@pytest.mark.slow
def test_workers_have_ports_side_by_side_on_every_node(tmp_path):
    spec = "framework: tensorflow\nresources: {nodes: 2, ranks_per_node: 2, ranks: 3}"
    workers = ["n1:20000", "n1:20001", "n2:20000"]
    for rank in range(3):
        assert config(tmp_path, spec, "rank", rank) == {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": rank},
        }
    assert tensorflow.ports(shape(), tensorflow.Options()) == 2


def test_one_machine_is_reached_by_the_rendezvous_address(tmp_path):
    spec = "framework: tensorflow\nresources: {ranks_per_node: 2}"
    found = config(tmp_path, spec, "rank", 1, hosts=("laptop",))
    assert found["cluster"]["worker"] == ["n1:20000", "n1:20001"]


def test_the_sites_suffix_is_in_every_name(tmp_path):
    site = "name: s\nscheduler: {type: openpbs}\nlauncher: {name: ssh}\nrendezvous: {suffix: -ib}\n"
    spec = "framework: tensorflow\nresources: {nodes: 2, ranks_per_node: 1}"
    assert config(tmp_path, spec, "rank", 0, site=site)["cluster"]["worker"] == ["n1-ib:20000", "n2-ib:20000"]


def test_chief_servers_and_workers_never_share_a_port(tmp_path):
    spec = (
        "framework: tensorflow\ntensorflow: {strategy: parameter_server, ps_per_node: 2}\n"
        "resources: {nodes: 2, ranks_per_node: 2}"
    )
    found = config(tmp_path, spec, "ps", 3)
    assert found["task"] == {"type": "ps", "index": 3}
    cluster = found["cluster"]
    assert cluster["chief"] == ["n1:20004"]
    everything = [endpoint for kind in cluster.values() for endpoint in kind]
    assert len(set(everything)) == len(everything) == 9
    assert tensorflow.ports(shape(), PS) == 5


def test_what_serves_for_ever_is_taken_down():
    found = roles(tensorflow, PS)
    assert [(r.name, r.place, r.service, r.ends) for r in found.values()] == [
        ("ps", "node", True, False),
        ("worker", "rank", True, False),
        ("chief", "first", False, False),
    ]
    found = roles(mesh_tensorflow)
    assert [(r.name, r.service) for r in found.values()] == [("server", True), ("driver", False)]
    assert '"type": "chief"' in told(found["driver"])["TF_CONFIG"]
    whole = backends.framework("mesh_tensorflow")
    assert whole.ports(shape(), whole.Options()) == 3


def test_gpus_are_the_workers():
    found = roles(tensorflow, PS, gpus_per_node=2)
    hidden = {name: told(role).get("CUDA_VISIBLE_DEVICES") for name, role in found.items()}
    assert hidden == {"ps": "-1", "worker": None, "chief": "-1"}
    assert all("CUDA_VISIBLE_DEVICES" not in told(role) for role in roles(tensorflow, PS).values())


@pytest.mark.parametrize(
    ("packages", "variables", "codes"),
    [
        ({"tensorflow": "2.21.0", "keras": "3.15.1"}, {}, ["DLR036!"]),
        ({"tensorflow": "2.21.0", "keras": "3.15.1"}, {"TF_USE_LEGACY_KERAS": "1"}, []),
        ({"tensorflow": "2.15.0", "keras": "2.15.0"}, {}, []),
        (None, {}, []),
    ],
)
def test_keras_3_fails_under_mirrored_workers(packages, variables, codes):
    assert problems(tensorflow, packages=packages, variables=variables) == codes
    assert problems(tensorflow, PS, packages=packages, variables=variables) == []
    assert problems(tensorflow, packages=packages, variables=variables, world_size=1) == []


def test_keras_asks_for_the_legacy_one_with_tensorflow():
    variables = told(roles(keras)["rank"])
    assert variables["TF_USE_LEGACY_KERAS"] == "1"
    assert "TF_CONFIG" in variables
    assert problems(keras, packages={"keras": "3.15.1"}) == ["DLR036"]
    assert problems(keras, packages={"keras": "3.15.1", "tf-keras": "2.21.0"}) == []
    assert problems(keras) == []


@pytest.mark.parametrize(("backend", "name"), [("torch", "MASTER_ADDR"), ("jax", "JAX_COORDINATOR_ADDRESS")])
def test_keras_with_other_back_ends_is_told_what_those_read(backend, name):
    options = keras.Options(backend=backend)
    variables = told(roles(keras, options)["rank"])
    assert variables["KERAS_BACKEND"] == backend
    assert name in variables
    assert "TF_CONFIG" not in variables
    assert keras.ports(shape(), options) == 1
    assert keras.ports(shape(), keras.Options()) == 2
    expected = ["DLR038!"] if backend == "jax" else []
    assert problems(keras, options, packages={"keras": "3.15.1"}) == expected
