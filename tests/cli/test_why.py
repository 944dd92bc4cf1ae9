"""`dlrun why` with what the site knows, from its profile to the answer."""

from __future__ import annotations

import json

import pytest

SITE = """\
name: here
scheduler: {type: local}
launcher: {name: local}
rendezvous: {address: loopback}
failures:
  licence: {pattern: 'no licence for (\\w+)', means: 'all licences of {1} are in use', next: 'ask for {1} with `--licenses`'}
"""


def test_a_failure_of_the_sites_own_is_named(dlrun):
    (dlrun.place / "site.yaml").write_text(SITE)
    spec = "command: [bash, -c, 'echo no licence for fluent; exit 3']\nsite: ./site.yaml\nresources: {ranks_per_node: 1}\n"
    job = dlrun.submit(spec, "--wait", code=3)
    shown = dlrun("why", job).stdout
    assert "why:   all licences of fluent are in use" in shown
    assert "log:   logs/rank-0.log: no licence for fluent" in shown
    assert "next:  ask for fluent with `--licenses`" in shown


@pytest.mark.slow
def test_points_of_a_sweep_are_asked_about_one_by_one(dlrun):
    job = dlrun.submit("command: [bash, -c, 'exit {{ x }}']\nsweep: {x: [0, 3, 4, 5]}\n", "--wait", code=None)
    first = dlrun("why", job)
    assert first.stdout.startswith(f"{job.name}[1] ")
    assert first.stdout.endswith(f"next:  `dlrun logs {job.name}:1 --rank 0`\n")
    assert first.stderr == f"2 more points did not end well either: `dlrun why {job.name}:2-3`\n"
    both = dlrun("why", f"{job}:0,2-3")
    assert [line.split(" ")[0] for line in both.stdout.splitlines() if " (" in line] == [
        f"{job.name}[{n}]" for n in (2, 3)
    ]
    assert both.stderr == ""
    assert "it ended without an error" in dlrun("why", f"{job}:0").stdout
    assert "its points are 0 to 3" in dlrun("why", f"{job}:4", code=2).stderr


TORCH = """\
Epoch 1
Traceback (most recent call last):
  File "train.py", line 1, in <module>
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
srun: error: n1: task 0: Exited with exit code 1
"""
LIMIT = (
    "step 400\nslurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***\n"
)


@pytest.mark.parametrize(
    ("text", "cause", "shown"),
    [
        (TORCH, "gpu-memory", "log:   torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"),
        (LIMIT, "walltime", "log:   slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***\n"),
        ("x\n" * 300_000 + TORCH, "gpu-memory", "last:    File"),
        ("one\ntwo\n\n", "unknown", "last:  one\n       two\n"),
        ("", "unknown", "why:   it is empty\n"),
    ],
    ids=["torch", "slurm", "long", "unknown", "empty"],
)  # fmt: skip
def test_any_log_may_be_asked_about(dlrun, text, cause, shown):
    log = dlrun.place / "slurm-5.out"
    log.write_text(text)
    answer = dlrun("why", "--log", "slurm-5.out")
    assert shown in answer.stdout
    assert "\nnext:  " in answer.stdout
    with log.open() as stream:
        found = dlrun("why", "--log", "-", "--json", stdin=stream)
    assert json.loads(found.stdout)["why"][0]["cause"] == cause


@pytest.mark.parametrize(
    "words", [["latest", "--log", "/dev/null"], ["--log", "missing.out"], ["--log", "."]]
)
def test_what_is_no_log_is_said(dlrun, words):
    answer = dlrun("why", *words, code=2)
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: ")
