"""How Slurm's clients are called and what their words mean."""

from __future__ import annotations

import re
import subprocess

import pytest

from dlrun import backends
from dlrun.errors import OperationFailed
from tests.fakebin import CAPTURED

slurm = backends.scheduler("slurm")

TRANSCRIPT = (CAPTURED / "slurm" / "clients.txt").read_text()
SAID = {
    match[1]: (match[2], int(match[3]))
    for match in re.finditer(r"^\$ (.*)\n((?:(?!\[rc=).*\n)*)\[rc=(\d+)\]", TRANSCRIPT, re.MULTILINE)
}


def test_the_transcript_is_whole():
    assert len(SAID) == 30


@pytest.mark.parametrize(
    ("stdout", "job"),
    [("123\n", "123"), ("123;hpc\n", "123"), ("Welcome!\n -> project ok\nSubmitted batch job 9\n", "9"),
     ("Submitted batch job 9 on cluster x\n", "9"), ("77\nhave a nice day\n", "77")],
)  # fmt: skip
def test_submitted(stdout, job):
    assert slurm.submitted(stdout) == job


def test_submitted_without_an_id():
    with pytest.raises(OperationFailed, match="no job id"):
        slurm.submitted("your project has 123 hours left\n")


def test_one_call_for_any_number_of_jobs():
    assert list(slurm.queue(["1", "22"]))[-1] == "--jobs=1,22"
    assert list(slurm.history(["1", "22"]) or ())[-1] == "--jobs=1,22"
    assert slurm.cancel(["1", "22"]) == ("scancel", "1", "22")
    assert slurm.hold(["1", "22"]) == ("scontrol", "hold", "1,22")
    assert slurm.release(["1"]) == ("scontrol", "release", "1")


def test_submit_and_check():
    assert slurm.submit("job.sh") == ("sbatch", "--parsable", "job.sh")
    assert slurm.submit("job.sh", check=True) == ("sbatch", "--test-only", "job.sh")
    said, code = SAID["sbatch --test-only -N2 --wrap true"]
    assert code == 0
    assert slurm.estimate(said) == "2792-06-18T15:05:42 on n[1,3]"
    assert slurm.estimate(SAID["sbatch --test-only -N5 --wrap true"][0]) is None


@pytest.mark.parametrize("command", [c for c, (_, code) in SAID.items() if c.startswith("sbatch") and code])
def test_every_real_refusal_has_advice(command):
    assert slurm.advice(SAID[command][0])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sbatch -A nosuch --wrap true", "resources.account"),
        ("sbatch -p nope --wrap true", "sinfo -s"),
        ("sbatch -p short -t 60 --wrap true", "walltime"),
        ("sbatch -p short -N2 --wrap true", "resources.nodes"),
        ("sbatch --gres=gpu:5 --wrap true", "on one node"),
        ("sbatch --mem=80G --wrap true", "on one node"),
        ("sbatch --gres=nope:1 --wrap true", "GPUs"),
        ("sbatch -C nope --wrap true", "constraint"),
        ("sbatch --reservation=nope --wrap true", "reservation"),
        ("sbatch -a 0-20000 --wrap true", "MaxArraySize"),
        ("sbatch -w nosuch --wrap true", "resources.hosts"),
    ],
)
def test_the_advice_fits(command, words):
    assert words in (slurm.advice(SAID[command][0]) or "")


@pytest.mark.parametrize(
    "words",
    [
        "sbatch: error: fetch_config: DNS SRV lookup failed\nsbatch: fatal: Could not establish a configuration source",
        "sbatch: error: ClusterName needs to be specified\nsbatch: fatal: Unable to process configuration file",
    ],
)
def test_clients_without_a_cluster_are_told_apart_from_one_that_does_not_answer(words):
    assert "--host LOGIN" in (slurm.advice(words) or "")


def test_new_words_get_no_advice():
    assert slurm.advice("sbatch: error: the moon is full") is None


def test_forgotten_jobs_are_no_failure():
    assert slurm.unknown_jobs(SAID["squeue --noheader --jobs=99999"][0], 1)
    assert slurm.unknown_jobs("Slurm accounting storage is disabled\n", 1)
    assert not slurm.unknown_jobs(
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1
    )
    assert not slurm.unknown_jobs("", 1)


@pytest.mark.parametrize(
    ("environment", "identity", "task"),
    [
        ({"SLURM_JOB_ID": "7"}, "7", "7"),
        ({"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": "2"}, "4", "4_2"),
    ],
)
def test_identity_inside_a_job(environment, identity, task):
    script = f'set -eu; scontrol() {{ echo "$@"; }}; echo "{slurm.JOB_ID.code}" "{slurm.RESTARTS.code}"; {slurm.REQUEUE}'
    found = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == [f"{identity} 0", f"requeue {task}"]
