"""Values of the wrong type or size from other hands: each is an error with its place, or is left out."""

from __future__ import annotations

import json

import pytest

from dlrun import backends
from dlrun.config.topology import read_topology
from dlrun.jobs.logs import files as log_files
from dlrun.system.process import start_time
from tests import forked

slurm = backends.scheduler("slurm")


@pytest.mark.parametrize(
    "data",
    [
        {"systems": 5},
        {"systems": "x"},
        {"systems": [5]},
        {"systems": [{"name": "a", "partitions": 5}]},
        {"systems": [{"name": "a", "partitions": [{"name": "p", "scheduler": [], "launcher": {}}]}]},
        {"systems": [{"name": ["a"], "hostnames": 5, "partitions": [{"name": 1, "processor": []}]}]},
        {
            "systems": [
                {
                    "name": "a",
                    "partitions": [{"name": "p", "scheduler": "slurm", "resources": 7, "access": 3}],
                }
            ]
        },
    ],
)
def test_a_configuration_of_another_shape_is_an_error(tmp_path, data):
    (tmp_path / "settings.json").write_text(json.dumps(data))
    done = forked.run(["site", "import", "settings.json"], tmp_path)
    assert done.code in (0, 2), done.stderr
    assert done.code == 0 or done.stderr.startswith("error: ")
    assert "this is a bug" not in done.stderr


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"reserved": [[]]}, ".reserved[0]"),
        ({"nics": [{"name": 0}]}, ".nics[0].name"),
        ({"cores": [{"pus": [[0]]}]}, ".cores[0].pus[0]"),
        ({"cores": 5}, ".cores"),
        ({"gpus": [5]}, ".gpus[0]"),
        ({"numa_nodes": [{"id": "0"}]}, ".numa_nodes[0].id"),
        ({"cores": [{"pus": [0], "numa": True}]}, ".cores[0].numa"),
    ],
)
def test_a_captured_topology_is_read_by_its_types(change, place):
    data = {"version": 1, "name": "", "source": "", "cores": [{"pus": [0]}]} | change
    with pytest.raises(ValueError, match="expected") as error:
        read_topology(json.dumps(data))
    assert place in str(error.value)


@pytest.mark.parametrize(
    "answer", ["12;--all", "12;-M", "12;a b", "12;$(x)", "Submitted batch job 12 on cluster --all"]
)
def test_an_option_is_not_the_name_of_a_cluster(answer):
    assert slurm.cluster(answer) is None
    assert slurm.cluster("12;hpc-1.b") == "hpc-1.b"


def test_a_line_of_a_log_is_read_up_to_a_megabyte(tmp_path):
    (tmp_path / "logs").mkdir()
    with (tmp_path / "logs/rank-0.log").open("wb") as file:
        file.write(b"x" * (5 << 20) + b"\nthroughput: 5 samples/s\n")
    log = next(log for log in log_files.find(tmp_path, "all") if log.path.name == "rank-0.log")
    lengths = [len(line) for line in log_files.lines(log)]
    assert lengths == [
        (1 << 20) + len(b" [the rest of this line is left out]\n"),
        len(b"throughput: 5 samples/s\n"),
    ]


@pytest.mark.parametrize("words", ["tune spec.yaml --budget 1 --out file", "tune --show file"])
def test_a_file_is_no_directory_of_trials(tmp_path, words):
    (tmp_path / "spec.yaml").write_text("name: a\ncommand: ['true']\nsite: workstation\n")
    (tmp_path / "file").write_text("mine")
    done = forked.run(words.split(), tmp_path)
    assert (done.code, "bug" in done.stderr, "file" in done.stderr) == (2, False, True), done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_an_edited_plan_does_not_stop_the_search_for_the_cause(tmp_path):
    spec = "name: a\ncommand: [bash, -c, 'exit 3']\nsite: workstation\n"
    (tmp_path / "spec.yaml").write_text(spec)
    jobs = {"DLRUN_JOBS": str(tmp_path / "jobs")}
    assert forked.run(["submit", "spec.yaml", "--wait", "--job-dir", "run 1"], tmp_path, jobs).code == 3
    plan = tmp_path / "run 1/plan.json"
    text = plan.read_text()
    for failures in (5, [], {"x": 5}, {"x": {"pattern": 5}}, {"x": {}}):
        plan.write_text(json.dumps(json.loads(text) | {"failures": failures}))
        done = forked.run(["why", "run 1"], tmp_path, jobs)
        assert done.code in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        assert "this is a bug" not in done.stderr
    plan.write_text(text)
    assert "dlrun logs 'run 1'" in forked.run(["why", "run 1"], tmp_path, jobs).stdout


@pytest.mark.slow
def test_a_job_is_cancelled_without_psutil(tmp_path):
    """`dlrun.pyz` has no compiled packages."""
    (tmp_path / "spec.yaml").write_text("name: a\ncommand: [sleep, '600']\nsite: workstation\n")
    jobs = {"DLRUN_JOBS": str(tmp_path / "jobs")}

    def without() -> None:
        import sys

        sys.modules["psutil"] = None  # type: ignore[assignment]

    done = forked.run(["submit", "spec.yaml", "--parsable"], tmp_path, jobs, before=without)
    assert done.code == 0, done.stderr
    pid, _, started = done.stdout.strip().partition(".")
    assert start_time(int(pid)) == started
    ended = forked.run(["cancel", "latest"], tmp_path, jobs, before=without)
    assert ended.code == 0, ended.stderr
    assert start_time(int(pid)) == ""
