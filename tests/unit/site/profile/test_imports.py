"""`dlrun site import`: what is written out in files about a cluster is taken over, and the lines of the rest are named."""

from __future__ import annotations

import json

import pytest

from dlrun.errors import Invalid
from dlrun.site.imports import literals
from dlrun.site.imports.files import import_files
from dlrun.site.profile.check import check_profile
from dlrun.site.profile.yaml_text import profile_yaml
from tests import house

CAPTURED = house.ROOT / "tests" / "captured"

PYTHON = """\
import os
from suite.constants import DEVICE_TYPES, EXTRAS, FEATURES, SCALES

prefix = os.path.join(os.environ['HOME'], 'runs')
name = 'gpu'
base = {'scheduler': 'slurm', 'launcher': 'mpirun'}
site_configuration = {
    'systems': [{
        'name': 'crag',
        'descr': f'The {"Crag"}',
        'hostnames': ['crag-login'],
        'prefix': prefix,
        'partitions': [
            {'name': name, 'access': [f'-p {name}', '--qos=high'] + extra_options(),
             'features': [FEATURES.GPU] + list(SCALES.keys()),
             'devices': [{'type': DEVICE_TYPES.GPU, 'num_devices': 4}],
             'processor': {'num_sockets': 2, 'num_cpus': 64},
             'extras': {EXTRAS.MEM_PER_NODE: 491520}},
        ] + [{'name': 'cpu'}],
    }],
}
for system in site_configuration['systems']:
    for partition in system['partitions']:
        partition.update(base)
add_logging(site_configuration)
"""

NEXTFLOW = """\
params {
    config_profile_description = 'Crag cluster profile'
    max_memory = 1.5.TB
    max_cpus = 128   // threads
    max_time = 7.d
}
process {
    executor = 'slurm'
    queue = { task.time <= 24.h ? 'short' : 'long' }
    clusterOptions = "--account=${params.project}"
    // queue = 'old'
}
"""

SCONTROL = """\
PartitionName=gpu
   AllowGroups=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 MaxTime=2-00:00:00 MaxNodes=8
   Nodes=g[1-2] State=UP TotalCPUs=64 TotalNodes=2
   DefMemPerCPU=2000 MaxMemPerNode=UNLIMITED

NodeName=g1 Arch=x86_64 CoresPerSocket=16
   Gres=gpu:a100:4 RealMemory=512000 Sockets=2 ThreadsPerCore=1 CPUTot=32
   Partitions=gpu State=IDLE
NodeName=g2 Arch=x86_64 CoresPerSocket=16
   Gres=gpu:a100:4 RealMemory=512000 Sockets=2 ThreadsPerCore=1 CPUTot=32
   Partitions=gpu State=IDLE
"""

QMGR = """\
#
# Create queues and set their attributes.
#
create queue workq
set queue workq queue_type = Execution
set queue workq resources_max.walltime = 48:00:00
set queue workq resources_max.nodect = 16
set queue workq enabled = True
set server default_queue = workq
"""


def imported(tmp_path, system=None, **files):
    paths = []
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        paths.append(tmp_path / f"{stem}.{suffix}")
        paths[-1].write_text(text)
    draft = import_files(paths, system)
    target = tmp_path / f"{draft.values['name']}.yaml"
    target.write_text(profile_yaml(draft))
    assert not [p.message for p in check_profile(str(target)).problems if not p.warning]
    return draft


def test_a_configuration_that_is_computed_in_part(tmp_path):
    draft = imported(tmp_path, settings_py=PYTHON)
    values = draft.values
    assert (values["name"], values["title"], values["scheduler"]["type"]) == ("crag", "The Crag", "slurm")
    assert values["partitions"]["gpu"] == {"node_type": "gpu", "qos": "high"}
    assert values["node_types"]["gpu"]["topology"] == {"packages": 2, "cores": 32, "gpus": {"count": 4}}
    assert values["node_types"]["gpu"]["memory"] == "491520MiB"
    assert set(values["partitions"]) == {"gpu", "cpu"}
    left = "\n".join(draft.unseen)
    assert "line 4: `os.path.join(os.environ['HOME'], 'runs')` is not written out" in left
    assert "line 14: `extra_options()` is not written out" in left
    assert "add_logging(site_configuration)" in left


def test_a_system_that_another_file_puts_into_a_configuration(tmp_path):
    text = "base_config = {'partitions': [{'name': 'normal', 'scheduler': 'slurm', 'launcher': 'srun'}]}\n"
    assert imported(tmp_path, daint_py=text).values["name"] == "daint"


@pytest.mark.parametrize(
    "text",
    [
        "site_configuration = 'x' * 10 ** 10\n",
        "site_configuration = '%1000000000d' % 1\n",
        "a = [0]\nfor x in a:\n    a.append(x)\n",
        "a = list('ab')\nfor x in a:\n    for y in a:\n        a.append(y)\nsite_configuration = a\n",
        "a = " + "[" * 5000 + "]" * 5000,
        "site_configuration = __import__('os').system('false')\n",
        "def (",
    ],
)
def test_nothing_runs_and_nothing_grows(tmp_path, text):
    path = tmp_path / "settings.py"
    path.write_text(text)
    with pytest.raises(Invalid):
        import_files([path], None)


def test_literals_of_changes():
    found = literals.read(
        "a = {'x': [1]}\na['y'] = 2\na['x'].append(3)\na.update({'z': dict(k=4)})\nb = a['x'] + [5]\n"
    )
    assert found.values["a"] == {"x": [1, 3], "y": 2, "z": {"k": 4}}
    assert found.values["b"] == [1, 3, 5]
    assert not found.notes


def test_an_institutional_configuration_of_nextflow(tmp_path):
    draft = imported(tmp_path, crag_config=NEXTFLOW)
    assert draft.values["scheduler"] == {"type": "slurm"}
    assert list(draft.values["partitions"]) == ["short", "long"]
    assert draft.values["node_types"]["node"] == {"memory": "1.5TiB", "note": "the largest node has 128 CPUs"}
    assert any("longest time, 168h" in line for line in draft.unseen)
    assert any(line.startswith("line 10: `clusterOptions") for line in draft.unseen)


def test_a_profile_in_a_configuration_of_nextflow_has_limits_of_its_own(tmp_path):
    """As UPPMAX's: 240 h are those of the whole cluster, and one hour that of the queue for tries."""
    limits = "resourceLimits = [memory: {}.GB, cpus: 16, time: {}.h]"
    test = f"profiles {{\n  devel {{\n    process {{\n      queue = 'devel'\n      {limits.format(120, 1)}\n    }}\n  }}\n}}\n"
    text = f"process {{\n  executor = 'slurm'\n  {limits.format(500, 240)}\n}}\n{test}"
    draft = imported(tmp_path, crag_config=text)
    assert draft.values["partitions"] == {"devel": {"node_type": "node", "max_walltime": "1h"}}
    assert draft.values["node_types"]["node"]["memory"] == "500GiB"
    assert any("longest time, 240h" in line for line in draft.unseen)


def test_an_executor_that_dlrun_has_no_scheduler_for(tmp_path):
    path = tmp_path / "x.config"
    path.write_text("process {\n  executor = 'lsf'\n}\n")
    with pytest.raises(Invalid, match="`lsf`"):
        import_files([path], None)


def test_what_slurm_printed_elsewhere(tmp_path):
    config = "Configuration data as of 2026-11-22T10:00:00\nClusterName             = crag\nSLURM_VERSION           = 24.05.3\n"
    draft = imported(tmp_path, config_txt=config + "\n" + SCONTROL)
    assert draft.values["recognise"] == {"cluster_name": "crag"}
    gpu = draft.values["partitions"]["gpu"]
    assert (gpu["default"], gpu["max_walltime"], gpu["max_nodes"], gpu["node_type"]) == (
        True,
        "2-00:00:00",
        8,
        "g",
    )
    assert draft.values["node_types"]["g"]["count"] == 2
    assert "DefMemPerCPU" in "\n".join(draft.unseen), (
        "a job that requests no memory is killed for what it uses"
    )


def test_what_pbs_printed_elsewhere(tmp_path):
    nodes = (CAPTURED / "openpbs" / "nodes.json").read_text()
    draft = imported(tmp_path, "fell", server_txt=QMGR, nodes_json=nodes)
    assert (draft.values["name"], draft.values["scheduler"]["type"]) == ("fell", "openpbs")
    assert "recognise" not in draft.values, "`print server` does not print its name"
    queue = draft.values["partitions"]["workq"]
    assert (queue["default"], queue["max_walltime"], queue["max_nodes"]) == (True, "48:00:00", 16)
    assert draft.values["node_types"]


def test_files_of_other_kinds_together(tmp_path):
    one, two = tmp_path / "a.txt", tmp_path / "b.json"
    one.write_text(SCONTROL)
    two.write_text(json.dumps({"systems": []}))
    with pytest.raises(Invalid, match=r"`b.json` is not the output"):
        import_files([one, two], None)
