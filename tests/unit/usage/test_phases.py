"""Where the time of a run went, from what its script, its sampler and its log have of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dlrun.model.spec import Metric
from dlrun.usage.phases import phases, settled
from dlrun.usage.samples import Recording, Sample

STATE = {
    "started": 1000,
    "launched": 1020,
    "ended": 1100,
    "restarts": 0,
    "host": "n1",
    "staging": 15,
    "results": 4,
}


def plan(**metrics: Metric) -> SimpleNamespace:
    return SimpleNamespace(caches=None, request=SimpleNamespace(ranks=2), global_batch=None, metrics=metrics)


def recording(sizes: dict[float, float], *, node: str = "n1", rank: int = 0, **more) -> Recording:
    """What a sampler wrote that began two seconds after the launch and saw a log grow."""
    samples = [
        Sample(t=t, node={}, ranks={}, job={}, gpus=[], slowed=[], network={}, log=size) for t, size in sizes.items()
    ]  # fmt: skip
    return Recording(
        node=node, run="1.0", began=1022.0, memory=None, gpus=[], samples=samples, node_rank=rank, **more
    )


def log(run: Path, text: str) -> None:
    (run / "logs").mkdir()
    (run / "logs" / "job.log").touch()
    (run / "logs" / "rank-0.log").write_text(text)


def found(run: Path, *recordings: Recording, of=None, **state):
    return phases(of or plan(), run, STATE | state, recordings, submitted=990.0, now=2000.0)


HEAD = "loading\nwarming up\n"
STEP = "step 1: 200 samples/s\n"


def test_each_part(tmp_path):
    log(tmp_path, HEAD + STEP + STEP)
    sizes = {0.5: 0, 6: len(HEAD), 7: len(HEAD + STEP), 8: len(HEAD + 2 * STEP)}
    one = found(tmp_path, recording(sizes, saving=3.0), recording({}, node="n2", rank=1, saving=5.0))
    assert (one.queued, one.preparing, one.staging, one.training) == (10, 20, 15, 80)
    assert (one.starting, one.saving, one.results) == (2 + 7, 5, 4)


def test_the_first_throughput_of_this_start_counts_and_not_that_of_an_earlier_one(tmp_path):
    log(tmp_path, STEP + HEAD + STEP)
    sizes = {0.5: len(STEP), 9: len(STEP + HEAD), 11: len(STEP + HEAD + STEP)}
    assert found(tmp_path, recording(sizes), restarts=1).starting == 13


def test_the_specs_own_throughput(tmp_path):
    log(tmp_path, STEP + "images: 12\n")
    sizes = {1: len(STEP), 30: 1000}
    own = plan(throughput=Metric(pattern=r"images: (\d+)"))
    assert found(tmp_path, recording(sizes), of=own).starting == 32


SERIES = {
    # Samples/s of an 8-layer network under torch.compile on two busy cores; the size of the batch changes at the third step,
    # and from the fifth on each step has another one.
    "compiles again": (
        [
            1.3,
            14376.1,
            3.8,
            1517.6,
            637.2,
            980.2,
            1751.3,
            874.5,
            804.2,
            506.2,
            1321.4,
            683.6,
            405.4,
            1604.4,
            418.4,
            589.4,
        ],
        3,
    ),
    "compiles at three steps": ([0.4, 0.9, 0.8, 51.0, 52.3, 50.9, 51.8, 52.0, 51.1, 52.2], 3),
    "the first line is without the step that compiles": ([50.0, 0.9, 0.8, 51.0, 52.3, 50.9, 51.8, 52.0], 3),
    "compiles once": ([2.0, 51.0, 52.3, 50.9, 51.8, 52.0], 1),
    "constant": ([52.0] * 8, 0),
    "noisy": ([48.0, 39.0, 55.0, 61.0, 37.5, 52.0, 44.0, 58.0, 40.0, 50.0], 0),
    "one slow step": ([51.0, 12.0, 52.3, 50.9, 51.8, 52.0, 51.1], 0),
    "evaluations": (
        [51.0, 52.3, 50.9, 51.8, 5.0, 4.0, 5.5, 52.0, 51.1, 52.2, 5.0, 4.4, 5.1, 51.0, 51.0, 52.0],
        0,
    ),
    "evaluations after it has compiled": (
        [0.5, 1.2, 52.3, 50.9, 51.8, 52.0, 5.0, 4.0, 5.5, 52.0, 51.1, 52.2],
        2,
    ),
    "slower for good": ([52.0, 51.0, 50.0, 51.0, 52.0, 30.0, 31.0, 30.0, 31.0, 30.0, 30.0], 0),
    "too few": ([0.4, 0.9, 51.0, 52.0, 51.0], 0),
    "none": ([], 0),
    "always up and down": ([50.0, 5.0, 5.0] * 4, 0),
}


@pytest.mark.parametrize("name", SERIES)
def test_the_steps_time_has_settled(name):
    values, expected = SERIES[name]
    assert settled(values) == expected


def test_steps_that_compile_again_belong_to_the_start(tmp_path):
    lines = [
        f"step {step}: {value} samples/s\n" for step, value in enumerate(SERIES["compiles at three steps"][0])
    ]
    log(tmp_path, HEAD + "".join(lines))
    ends = [len(HEAD + "".join(lines[: step + 1])) for step in range(len(lines))]
    sizes = {5: ends[0], 20: ends[1], 40: ends[2], 41: ends[3], 42: ends[-1]}
    assert found(tmp_path, recording(sizes)).starting == 2 + 41
    assert found(tmp_path, recording({5: ends[0], 20: ends[1]})).starting == 2 + 5, (
        "the others came after the first hour"
    )


def test_lines_of_another_format_are_no_steps(tmp_path):
    other = "{'train_samples_per_second': 0.001}\n"
    log(tmp_path, STEP + "".join(STEP + other for _ in range(6)))
    assert found(tmp_path, recording({3: len(STEP), 60: 10_000})).starting == 5


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(HEAD, {1: 9, 2: 99}), (HEAD + STEP, {1: 5}), (HEAD + STEP, {}), ("", {1: 0})],
    ids=["none", "only-after-the-first-hour", "not-recorded", "empty"],
)
def test_a_start_that_cannot_be_known(tmp_path, text, sizes):
    log(tmp_path, text)
    assert found(tmp_path, recording(sizes)).starting is None


@pytest.mark.parametrize(("node", "began"), [("n2", 1022.0), ("n1", 9000.0), ("n1", 100.0)])
def test_clocks_of_other_nodes_and_clocks_that_were_set(tmp_path, node, began):
    log(tmp_path, STEP)
    one = recording({3: 100}, node=node)
    one.began = began
    assert found(tmp_path, one).starting == 3


def test_what_is_not_known_is_not_made_up(tmp_path):
    one = phases(plan(), tmp_path, {}, [], submitted=None, now=2000.0)
    assert {getattr(one, name) for name in one.__slots__} == {None}


def test_a_run_that_has_not_ended(tmp_path):
    assert found(tmp_path, ended=None).training == 980
