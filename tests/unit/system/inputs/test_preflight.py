"""Files that a spec names, looked for on the submitting host where its file system is visible."""

from __future__ import annotations

import pytest

from dlrun.model.data import DataSet
from dlrun.model.origin import Layer, Origin
from dlrun.model.program import Container, Environment, Secret
from dlrun.model.spec import Resources, Spec
from dlrun.system.inputs.preflight import check

PLACE = Origin(layer=Layer.SPEC, name="spec.yaml", line=1, column=1)


def found(place, *command: str, **more) -> list[tuple[str, str]]:
    spec = Spec(name="a", command=command or ("true",), **more)
    origins = {"command": PLACE, "data.a": PLACE, "environment": PLACE, "secrets.A": PLACE}
    problems = check(spec, place, origins)
    assert all(p.origin is PLACE and p.help for p in problems)
    return [(p.code, p.message) for p in problems]


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("python3.11", "-u", "train.py", "missing.py"),
        ("/usr/bin/python3", "sub/../train.py"),
        ("bash", "train.py"),
        ("python", "-m", "missing"),
        ("python", "-c", "missing"),
        ("python", "{{ data.a }}/missing.py"),
        ("./missing", "x"),
        ("pythonic", "missing.py"),
        ("python",),
        ("python", "-W", "error", "-X", "dev", "train.py"),
        ("bash", "-lc", "cd missing && ./train"),
        ("bash", "-o", "pipefail", "train.py"),
        ("julia", "-t", "4", "missing.jl"),
    ],
)
def test_no_fault(tmp_path, command):
    (tmp_path / "train.py").touch()
    (tmp_path / "sub").mkdir()
    assert found(tmp_path, *command) == []


@pytest.mark.parametrize(
    "command",
    [
        ("python", "missing.py"),
        ("python3", "-u", "-O", "missing.py"),
        ("python3", "-X", "dev", "missing.py"),
        ("bash", "/tmp/x/missing.sh"),
    ],
)
def test_a_missing_script(tmp_path, command):
    ((code, message),) = found(tmp_path, *command)
    assert code == "DLR032"
    assert message == f"script `{command[-1]}` does not exist"


def test_a_script_in_a_container_cannot_be_seen(tmp_path):
    (tmp_path / "x.sif").touch()
    environment = Environment(container=Container(image="x.sif"))
    assert found(tmp_path, "python", "missing.py", environment=environment) == []


def test_the_spec_s_own_directory_is_where_paths_start(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "train.py").touch()
    assert found(tmp_path, "python", "train.py", directory="there") == []
    assert found(tmp_path, "python", "train.py", directory=str(tmp_path / "there")) == []


def test_virtual_environments(tmp_path):
    ((code, message),) = found(tmp_path, environment=Environment(venv="env"))
    assert (code, message) == ("DLR033", "no virtual environment at `env`")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").touch()
    assert found(tmp_path, environment=Environment(venv="env")) == []


@pytest.mark.parametrize(
    ("source", "faults"),
    [("set", 0), ("missing", 1), ("missing/*.tar", 0), ("/tmp/missing/a", 1)],
)
def test_data(tmp_path, source, faults):
    (tmp_path / "set").mkdir()
    assert [code for code, _ in found(tmp_path, data={"a": DataSet(source=source)})] == ["DLR034"] * faults


def test_what_this_host_does_not_see_is_named(tmp_path):
    far = "/lustre-that-is-not-here/project"
    environment = Environment(venv=f"{far}/env", container=Container(image=f"{far}/x.sif"))
    unseen = found(tmp_path, "python", f"{far}/train.py", data={"a": DataSet(source=f"{far}/a")})
    unseen += found(tmp_path, environment=environment)
    assert [code for code, _ in unseen] == ["DLR129"] * 4
    assert all(
        message.endswith("cannot be checked: `/lustre-that-is-not-here` is not on this machine")
        for _, message in unseen
    )


@pytest.mark.parametrize(
    "image", ["docker://ubuntu", "nvcr.io#nvidia/pytorch:25.01", "library/ubuntu", "x.sif"]
)
def test_only_images_that_are_files_are_looked_for(tmp_path, image):
    environment = Environment(container=Container(image=image))
    assert [code for code, _ in found(tmp_path, environment=environment)] == ["DLR034"] * (image == "x.sif")


@pytest.mark.parametrize(("mode", "faults"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (None, 1)])
def test_files_of_secrets(tmp_path, mode, faults):
    path = tmp_path / "token"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    assert [code for code, _ in found(tmp_path, secrets={"A": Secret(file=str(path))})] == ["DLR035"] * faults


@pytest.mark.parametrize(
    ("text", "strategy", "nodes", "warned"),
    [
        ("DistributedSampler(data)", "shard", 2, True),
        ("DistributedSampler(data)", "copy", 2, False),
        ("DistributedSampler(data)", "shard", 1, False),
        ("DistributedSampler(data, rank=int(os.environ['LOCAL_RANK']))", "shard", 2, False),
        ("DataLoader(data)", "shard", 2, False),
        ("wds.DataPipeline(urls, wds.split_by_node)", "shard", 2, True),
        ("1\nimport lightning as L\nL.Trainer(max_epochs=3)", "shard", 2, True),
        (
            "1\nfrom pytorch_lightning import Trainer\nTrainer(use_distributed_sampler=False)",
            "shard",
            2,
            False,
        ),
        ("IterableDataset()\nimport lightning as L\nL.Trainer()", "shard", 2, False),
        ("Trainer(model)", "shard", 2, False),
        ("1\nfrom accelerate import Accelerator\nx = accelerator.prepare(x)", "shard", 2, True),
    ],
)
def test_a_global_sampler_over_sharded_data_is_warned_about(tmp_path, text, strategy, nodes, warned):
    (tmp_path / "train.py").write_text(f"from torch.utils.data import *\nsampler = {text}\n")
    data, resources = {"a": DataSet(source=str(tmp_path), strategy=strategy)}, Resources(nodes=nodes)
    problems = found(tmp_path, "python", "train.py", data=data, resources=resources)
    assert [code for code, _ in problems] == ["DLR108"] * warned
