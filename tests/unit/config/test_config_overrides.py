"""Facts of a partition or a node type: which part of a profile holds for which job."""

from __future__ import annotations

import pytest

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.model.problem import InvalidFile
from dlrun.system.inputs.spec import load_spec
from tests.making import NOWHERE, plan_in

PROFILE = """name: mixed
scheduler: {type: slurm, directives: [--everywhere]}
launcher: {name: ibrun, arguments: [-v]}
fabric:
  name: omni-path
  interfaces: [ib0]
  libraries: [psm2-nccl]
storage: {node_local: {path: /tmp, size: 90GB}}
environment: {modules: [site], variables: {WHERE: site, KEPT: site}}
rendezvous: {address: hostname}
partitions:
  cpu: {default: true, node_type: cpu}
  gpu:
    node_type: gpu
    overrides:
      scheduler: {directives: [--gpu-bind=none]}
      environment: {variables: {WHERE: partition}}
  gpu-small: {node_type: gpu}
node_types:
  cpu: {topology: {packages: 2, cores: 8}}
  gpu:
    topology: {packages: 2, cores: 8, gpus: {count: 4}}
    overrides:
      fabric: {name: infiniband, interfaces: [ib7]}
      launcher: {name: srun}
      storage: {node_local: {size: 3500GB}}
      environment: {variables: {WHERE: node type}, modules: [cuda]}
"""


def plan(directory, spec):
    (directory / "spec.yaml").write_text(spec, encoding="utf-8")
    return plan_in(directory)


def planned(tmp_path, partition, profile=PROFILE):
    (tmp_path / "site.yaml").write_text(profile, encoding="utf-8")
    return plan(
        tmp_path,
        "name: j\nframework: torch\ncommand: [python, t.py]\nsite: site.yaml\n"
        f"resources: {{nodes: 2, walltime: 1h, partition: {partition}}}\n",
    )


def values(job):
    return {v.name: "".join(map(str, v.value.parts)) for v in job.variables}


def test_without_overrides_the_sites_own_facts_hold(tmp_path):
    job = planned(tmp_path, "cpu")
    assert job.launch.name == "ibrun"
    assert job.environment.modules == ("site",)
    assert (values(job)["WHERE"], values(job)["KEPT"]) == ("site", "site")
    assert "--everywhere" in [d.text for d in job.directives]


def test_a_node_types_facts_are_closer_than_the_sites_and_a_partitions_closer_still(tmp_path):
    job = planned(tmp_path, "gpu")
    assert job.launch.name == "srun"
    assert job.environment.modules == ("cuda",)
    assert (values(job)["WHERE"], values(job)["KEPT"]) == ("partition", "site")
    texts = [d.text for d in job.directives]
    assert "--gpu-bind=none" in texts
    assert "--everywhere" not in texts, "a list replaces a list, as in every other layer"
    small = planned(tmp_path, "gpu-small")
    assert values(small)["WHERE"] == "node type"
    assert "--everywhere" in [d.text for d in small.directives]


def test_an_override_that_names_another_fabric_inherits_nothing_of_the_sites(tmp_path):
    gpu = values(planned(tmp_path, "gpu"))
    assert gpu["NCCL_SOCKET_IFNAME"] == "=ib7"
    assert "NCCL_PROTO" not in gpu, "that is of Omni-Path's plugin"


@pytest.mark.parametrize(
    ("wrong", "message", "way_out"),
    [
        (
            "fabrics: {name: roce}",
            "`fabrics` cannot be overridden in `node_types.gpu.overrides`",
            "the nearest is `fabric`",
        ),
        ("partitions: {}", "`partitions` cannot be overridden in", "these can: `scheduler`"),
        ("scheduler: {type: openpbs}", "names another scheduler", "`extends:`"),
        ("launcher: {nam: srun}", "unknown key `nam`", "`name`"),
        ("rendezvous: {address: interface}", "needs the name of an interface", "`interface:`"),
    ],
)
def test_what_an_override_cannot_be_is_refused_at_its_line(tmp_path, wrong, message, way_out):
    profile = PROFILE.replace("launcher: {name: srun}", wrong)
    with pytest.raises((InvalidFile, Invalid)) as raised:
        planned(tmp_path, "cpu", profile)
    (problem,) = raised.value.problems
    assert message in problem.message
    assert way_out in problem.help
    assert problem.origin.line == PROFILE.splitlines().index("      launcher: {name: srun}") + 1


@pytest.mark.parametrize(
    ("partition", "fabric", "size"), [("skx", "omni-path", "90GB"), ("h100", "infiniband", "3500GB")]
)
def test_stampede3s_h100_nodes_have_infiniband_and_a_larger_disk(tmp_path, partition, fabric, size):
    (tmp_path / "spec.yaml").write_text(
        f"name: j\ncommand: [./t]\nsite: stampede3\nresources: {{walltime: 1h, partition: {partition}}}\n",
        "utf-8",
    )
    site = load_spec(tmp_path / "spec.yaml", options=backends.framework_options, here=NOWHERE).site
    assert site.fabric.name == fabric
    assert str(site.storage.node_local.size) == size
