"""What a start without compiled code of earlier jobs would take when warm, and what brought it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.usage import cold_start
from dlrun.usage.overview import of_cold_start
from dlrun.usage.samples import Recording, Sample

LINE = "step 1: 200 samples/s\n"


def plan(command: str = "train.py", *, key: str = "env", nodes: int = 2, **more) -> SimpleNamespace:
    request = SimpleNamespace(
        nodes=nodes, ranks=nodes, gpus_per_node=None, gpu_type=None, partition="gpu", constraint=None
    )
    parts = {
        "framework": "torch",
        "points": (),
        "metrics": {},
        "global_batch": None,
        "role": None,
        "each_role": (),
    }
    return SimpleNamespace(
        caches=SimpleNamespace(key=key, keep=True),
        environment=SimpleNamespace(container=None),
        roles=[SimpleNamespace(argv=(command,), lead=())],
        request=SimpleNamespace(**vars(request) | more),
        **parts,
    )


@pytest.fixture
def base(tmp_path, monkeypatch):
    """Jobs of which the recordings have the start-up that they were made with."""

    def recordings(run: Path) -> list[Recording]:
        sample = Sample(
            t=float((run / "starting").read_text()), node={}, ranks={}, job={}, gpus=[], slowed=[], network={}, log=99
        )  # fmt: skip
        return [
            Recording(node="n9", run="1.0", began=0.0, memory=None, gpus=[], samples=[sample], node_rank=0)
        ]

    monkeypatch.setattr(cold_start, "recordings", recordings)
    return tmp_path


def made(
    base: Path, name: str, when: int, starting: float, *, warm: bool, code: int = 0, throughput: bool = True
):
    """A job that was launched at this time and has ended ten seconds later."""
    run = base / name
    (run / "logs").mkdir(parents=True)
    (run / "logs/job.log").write_text("dlrun: job 7 starts; rank 0 is on n1\n")
    (run / "logs/rank-0.log").write_text(LINE if throughput else "no\n")
    (run / "state.json").write_text(json.dumps({"launched": when, "ended": when + 10, "exit_code": code}))
    (run / "hosts").write_text("n1\nn2\n")
    (run / "starting").write_text(str(starting))
    if warm:
        (run / "compiled").write_text("x86_64-1 0 /store/cache.tar\n")
    return SimpleNamespace(directory=run)


def found(base: Path, *earlier, seeded: int | None = 0, of=None) -> cold_start.ColdStart | None:
    """Of a job after these (job, plan), newest first."""
    job = made(base, "now", 900, 60.0, warm=False)
    known = SimpleNamespace(job=job, plans=earlier)
    return cold_start.cold_start(known, of or plan(), job.directory, SimpleNamespace(seeded=seeded))


def test_the_newest_warm_start_of_the_same_program_is_what_is_expected(base):
    first, then = made(base, "first", 100, 50.0, warm=False), made(base, "then", 200, 7.0, warm=True)
    newest = made(base, "newest", 300, 5.0, warm=True)
    one = found(base, (newest, plan()), (then, plan()), (first, plan()))
    assert (one.cold, one.nodes, one.expected, one.measured_in) == (2, 2, 5.0, "newest")


def test_entries_of_another_program_make_no_warm_start(base):
    other, then = made(base, "other", 100, 50.0, warm=False), made(base, "then", 200, 45.0, warm=True)
    one = found(base, (then, plan()), (other, plan("other.py")))
    assert (one.expected, one.measured_in) == (None, None)


@pytest.mark.parametrize(
    "other",
    [
        plan("other.py"),
        plan(key="other"),
        plan(nodes=1),
        plan(ranks=4),
        plan(partition="cpu"),
        plan(gpu_type="h200"),
    ],
    ids=["command", "environment", "nodes", "ranks", "partition", "gpu"],
)
def test_what_is_not_the_same_is_not_compared(base, other):
    first, then = made(base, "first", 100, 50.0, warm=False), made(base, "then", 200, 7.0, warm=True)
    assert found(base, (then, other), (first, other)).expected is None


def test_a_start_that_was_cold_too_or_has_no_throughput_is_not_warm(base):
    first, cold = made(base, "first", 100, 50.0, warm=False), made(base, "cold", 200, 40.0, warm=False)
    without = made(base, "without", 300, 9.0, warm=True, throughput=False)
    assert found(base, (without, plan()), (cold, plan()), (first, plan())).expected is None


@pytest.mark.parametrize(
    ("code", "throughput", "known"), [(0, False, True), (1, True, True), (1, False, False)]
)
def test_the_run_before_a_warm_one_has_compiled(base, code, throughput, known):
    first = made(base, "first", 100, 50.0, warm=False, code=code, throughput=throughput)
    then = made(base, "then", 200, 7.0, warm=True)
    assert (found(base, (then, plan()), (first, plan())).expected is not None) is known


def test_the_run_before_a_warm_one_had_ended(base):
    first, then = made(base, "first", 195, 50.0, warm=False), made(base, "then", 200, 7.0, warm=True)
    assert found(base, (then, plan()), (first, plan())).expected is None


@pytest.mark.parametrize("seeded", [None, 2])
def test_records_are_read_for_a_cold_start_alone(base, seeded):
    job = made(base, "now", 900, 60.0, warm=False)
    unread = SimpleNamespace(job=job)  # has no plans
    assert cold_start.cold_start(unread, plan(), job.directory, SimpleNamespace(seeded=seeded)) is None


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no compiled code was found in the store for this environment and kind of machine"),
        ({"logs/job.log": "a log that has lost its beginning\n"}, None),
        (
            {"logs/job.log": "dlrun: job 7 starts; x\ndlrun: caches: the store is not used: `/s` is not a directory\n"},
            "the store is not used: `/s` is not a directory",
        ),
        (
            {"logs/job.log": "dlrun: job 7 starts; x\ndlrun: caches: `/s/v` is damaged, and left aside\n"},
            "`/s/v` is damaged, and left aside",
        ),
        ({"compiled": "", "not-seeded": ""}, "the compiled code of earlier jobs did not reach the nodes"),
        (
            {"compiled": "", "not-seeded-1": "", "logs/stage-1.log": "dlrun: caches: this node compiles by itself: no room\n"},
            "the compiled code of earlier jobs did not reach n2: no room",
        ),
        (
            {"compiled": "", "not-seeded-0": "", "not-seeded-1": ""},
            "the compiled code of earlier jobs did not reach n1, n2",
        ),
    ],
)  # fmt: skip
def test_what_brought_it(base, files, why):
    job = made(base, "now", 900, 60.0, warm=False)
    for name, text in files.items():
        (job.directory / name).write_text(text)
    known = SimpleNamespace(job=job, plans=[])
    assert cold_start.cold_start(known, plan(), job.directory, SimpleNamespace(seeded=0)).because == why


@pytest.mark.parametrize(
    ("starting", "expected", "text"),
    [
        (394.0, 13.2, "cold on 4 of 4 nodes, 6m34s; 13s expected when warm, as in a; why"),
        (394.0, 0.0, "cold on 4 of 4 nodes, 6m34s; 0s expected when warm, as in a; why"),
        (394.0, None, "cold on 4 of 4 nodes, 6m34s; why"),
        (None, 13.2, "cold on 4 of 4 nodes; 13s expected when warm, as in a; why"),
        (None, None, None),
    ],
)
def test_in_words(starting, expected, text):
    cold = cold_start.ColdStart(cold=4, nodes=4, because="why", expected=expected, measured_in="a")
    run = SimpleNamespace(cold_start=cold, phases=SimpleNamespace(starting=starting))
    assert of_cold_start(run) == text
