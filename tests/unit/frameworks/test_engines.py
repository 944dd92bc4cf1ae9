"""Frameworks on another engine: its processes on all nodes, then the driver on the first; all down with the driver."""

from __future__ import annotations

import os

import pytest

from dlrun.frameworks import h2o, ray
from dlrun.frameworks.spark import caffeonspark, deeplearning4j, spark
from dlrun.model.text import Text
from dlrun.model.units import Bytes
from tests.making import plan_of, scripts_of
from tests.unit.frameworks.making import RUN, SSH, roles, run_process, shape, told, words


@pytest.mark.parametrize("framework", [ray, spark, h2o, caffeonspark, deeplearning4j])
def test_the_driver_is_the_training_and_all_else_a_service(framework):
    *engine, driver = roles(framework).values()
    assert (driver.name, driver.place, driver.service) == ("driver", "first", False)
    assert all(role.service and role.ready and not role.ends and not role.binds for role in engine)


def test_of_an_image_only_the_driver_asks_ray_for_its_nodes():
    """The job's script may not have `ray`."""
    found = roles(ray, in_image=True, nodes=3)
    assert found["node"].ready is None
    bash, option, wait, name, *command = map(str, found["driver"].argv)
    assert (bash, option, name) == ("bash", "-c", "ray")
    assert wait.startswith('until [[ $(ray status --address="$RAY_ADDRESS"')
    assert "-ge 3 ]]" in wait
    assert command == [str(word) for word in roles(ray)["driver"].argv]


def test_ray_starts_a_head_and_nodes_that_join_it():
    found = roles(ray, gpus_per_node=4)
    node = found["node"]
    assert "--head --port=$DLRUN_MASTER_PORT" in words(node.lead)
    assert "--address=$DLRUN_MASTER_IP:$DLRUN_MASTER_PORT" in words(node.argv)
    for argv in (node.lead, node.argv):
        assert {"--num-gpus=4", "--block", "--node-ip-address=$DLRUN_OWN_ADDRESS"} <= set(map(str, argv))
    assert told(found["driver"]) == {"RAY_ADDRESS": "$DLRUN_MASTER_IP:$DLRUN_MASTER_PORT"}
    assert "-ge 2 ]]" in str(node.ready)


def test_only_process_0_of_a_role_leads(tmp_path):
    plan = plan_of(tmp_path, "framework: ray\nresources: {nodes: 2}", SSH)
    script = scripts_of(plan)["rank.sh"]
    leads = script.index("if ((DLRUN_RANK == 0)); then")
    assert leads < script.index("--head") < script.index("else", leads) < script.index("--address=")


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("python -u train.py --x", "train.py --x"),
        ("spark-submit --class a.B a.jar x", "--class a.B a.jar x"),
        ("/opt/spark/bin/spark-submit a.jar", "a.jar"),
        ("./app.jar x", "./app.jar x"),
    ],
)
def test_the_command_goes_through_spark_submit(command, end):
    driver = roles(spark, command=tuple(map(Text.of, command.split())))["driver"]
    said = words(driver.argv)
    first = command.split()[0] if "spark-submit" in command else "spark-submit"
    assert said.startswith(f"{first} --master spark://$DLRUN_MASTER_IP:$DLRUN_MASTER_PORT ")
    assert said.endswith(f" {end}")
    assert ("spark.pyspark.python=$(command -v python)" in said) is command.startswith("python")


def test_spark_options_and_ports():
    argv = words(roles(spark, spark.Options(executor_memory=Bytes(3 * 2**30)))["driver"].argv)
    assert "--executor-memory 3072m" in argv
    assert spark.ports(shape(), spark.Options()) == 3
    found = roles(spark)
    assert "--webui-port $((DLRUN_MASTER_PORT + 1))" in words(found["master"].argv)
    assert "--webui-port $((DLRUN_MASTER_PORT + 2))" in words(found["worker"].argv)
    assert told(found["master"])["SPARK_MASTER_OPTS"] == "-Dspark.master.rest.enabled=false"


def test_caffeonspark_has_one_task_a_worker_whatever_OpenMP_is_told(tmp_path):  # noqa: N802
    spec = (
        "framework: caffeonspark\ncommand: [spark-submit, a.jar]\nresources: {nodes: 2}\n"
        "environment: {variables: {OMP_NUM_THREADS: 1}}"
    )
    (tmp_path / "spark-submit").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "spark-submit").chmod(0o755)
    spec = spec.replace("[spark-submit,", f"[{tmp_path}/spark-submit,")
    said = run_process(tmp_path, spec, "driver", 0).splitlines()
    (each,) = [int(line.partition("=")[2]) for line in said if line.startswith("spark.task.cpus=")]
    assert each == len(os.sched_getaffinity(0))
    assert f"spark.cores.max={2 * each}" in said


def test_deeplearning4j_is_told_each_nodes_address():
    found = roles(deeplearning4j)
    assert [("DL4J_VOID_IP" in told(role)) for role in found.values()] == [False, True, True]


def test_every_h2o_node_has_the_list_of_all(tmp_path, monkeypatch):
    (tmp_path / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "java").chmod(0o755)
    spec = "framework: h2o\nh2o: {memory: 2GiB, jar: /opt/h2o.jar}\ncommand: [python, t.py]\nresources: {nodes: 2}"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said = run_process(tmp_path, spec, "node", 1).splitlines()
    assert said[said.index("-flatfile") + 1] == str(tmp_path / "flatfile-1")
    assert (tmp_path / "flatfile-1").read_text() == "n1:20000\nn2:20000"
    assert {"-Xmx2048m", "/opt/h2o.jar", f"dlrun-{RUN}"} <= set(said)
    assert '"cloud_size":2,' in str(roles(h2o)["node"].ready)
    assert h2o.ports(shape(), h2o.Options()) == 2
