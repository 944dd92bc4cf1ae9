"""The race of `dlrun tune`: the best of an exhaustive search at a part of its cost, and nothing claimed of equals."""

from __future__ import annotations

import random
from itertools import product

import pytest

from dlrun.trials.tune.candidates import DEFAULT, Candidate, as_planned
from dlrun.trials.tune.race import Trial, everyone, upcoming, verdict

KNOBS = {
    "placement.threads": {"4": 1.0, "2": 1.18, "1": 0.7},
    "placement.comm_cores": {"0": 1.0, "1": 1.06, "2": 0.93},
    "workers": {"2": 1.0, "4": 1.25, "8": 1.1},
}
"""Three knobs whose effects multiply; the first value of each is the default."""


def single_changes() -> tuple[Candidate, ...]:
    found = [as_planned({})]
    for key, effects in KNOBS.items():
        found += [
            Candidate(name=f"{key}={value}", sets={key: value}, parameters={}, because="test")
            for value in list(effects)[1:]
        ]
    return tuple(found)


def speed(candidate: Candidate) -> float:
    result = 100.0
    for key, effects in KNOBS.items():
        result *= effects[candidate.sets.get(key, next(iter(effects)))]
    return result


def race(candidates, measure, repeat=3):
    trials = []
    while (coming := upcoming(candidates, trials, repeat=repeat)) is not None:
        value = measure(coming.candidate)
        trials.append(
            Trial(
                candidate=coming.candidate.name,
                stage=coming.stage,
                value=value,
                unit="samples/s",
                seconds=1.0,
                directory=".",
                failed=None if value is not None else "it failed",
            )
        )
        # None dropped; each added, put in another's place and left out once; one confirmed.
        assert len(trials) <= 4 * len(candidates) * repeat + 2 * repeat
    return trials


@pytest.mark.parametrize("seed", range(30))
def test_it_finds_the_best_of_an_exhaustive_search_at_a_part_of_its_cost(seed):
    chance = random.Random(seed)
    candidates = single_changes()
    trials = race(candidates, lambda one: speed(one) * chance.gauss(1, 0.01))
    found = verdict(candidates, trials)
    every = [dict(zip(KNOBS, values, strict=True)) for values in product(*KNOBS.values())]
    best = max(speed(Candidate(name="", sets=sets, parameters={}, because="")) for sets in every)
    assert found is not None
    assert found.sure
    assert speed(found.winner) > 0.97 * best
    assert len(trials) <= len(every) * 3 / 3


@pytest.mark.parametrize("seed", range(50))
def test_nothing_is_claimed_where_all_are_equal(seed):
    chance = random.Random(seed)
    candidates = single_changes()
    found = verdict(candidates, race(candidates, lambda _: 100 * chance.gauss(1, 0.03)))
    assert found is None or not found.sure


def test_a_candidate_that_fails_is_dropped_and_the_others_go_on():
    candidates = single_changes()
    trials = race(candidates, lambda one: None if one.sets.get("workers") == "4" else speed(one))
    assert sum(one.candidate == "workers=4" for one in trials) == 1
    found = verdict(candidates, trials)
    assert found is not None
    assert found.winner.sets == {"placement.threads": "2", "placement.comm_cores": "1", "workers": "8"}


def test_it_ends_where_the_plan_as_it_is_fails():
    candidates = single_changes()
    assert [one.candidate for one in race(candidates, lambda _: None)] == [DEFAULT]


def test_a_loser_runs_once():
    candidates = single_changes()
    trials = race(candidates, speed)
    assert sum(one.candidate == "placement.threads=1" for one in trials) == 1


def test_two_changes_of_one_key_are_not_combined():
    candidates = single_changes()
    combined = [one for one in everyone(candidates, race(candidates, speed)) if "+" in one.name]
    best = {"workers": "4", "placement.threads": "2", "placement.comm_cores": "1"}
    assert [one.sets for one in combined] == [
        {"workers": "4", "placement.threads": "2"},
        best,
        *(
            {**best, key: value}
            for key, value in (("placement.threads", "1"), ("placement.comm_cores", "2"), ("workers", "8"))
        ),
        *(
            {key: best[key] for key in best if key != left_out}
            for left_out in ("workers", "placement.threads")
        ),
    ]


def test_what_lost_alone_can_win_beside_another():
    """Large chunks are slow with two threads and the fastest with one; a buffer is reused with chunks only."""
    candidates = (
        as_planned({}),
        *(
            Candidate(name=f"{k}={v}", sets={k: v}, parameters={}, because="")
            for k, v in (("chunk", "4096"), ("chunk", "256"))
        ),
        *(
            Candidate(name=f"{k}=1", sets={k: "1"}, parameters={}, because="")
            for k in ("in_place", "threads")
        ),
    )
    alone = {None: 100.0, "256": 500.0, "4096": 50.0}
    bound = {None: 200.0, "256": 510.0, "4096": 700.0}

    def measure(one):
        speed = (bound if "threads" in one.sets else alone)[one.sets.get("chunk")]
        return speed * (1.0 if "in_place" not in one.sets else 1.1 if "chunk" in one.sets else 0.7)

    found = verdict(candidates, race(candidates, measure))
    assert found is not None
    assert found.winner.sets == {"threads": "1", "chunk": "4096", "in_place": "1"}


def switches(*names: str) -> tuple[Candidate, ...]:
    return (
        as_planned({}),
        *(Candidate(name=name, sets={name: "1"}, parameters={}, because="") for name in names),
    )


ALONE = {"": 100, "chunk": 240, "threads": 150, "buffer threads": 300}


@pytest.mark.parametrize(
    "speeds",
    [
        {"buffer": 80, "chunk threads": 260, "buffer chunk": 190, "buffer chunk threads": 280},
        {"buffer": 140, "chunk threads": 230, "buffer chunk": 230, "buffer chunk threads": 230},
    ],
    ids=["it is left out of a combination that it began", "the others are combined without it"],
)
def test_what_won_alone_can_be_in_the_way_of_the_others(speeds):
    """Chunks are the fastest single change; with one thread and a buffer, those are faster without."""
    speeds = ALONE | speeds
    candidates = switches("chunk", "threads", "buffer")
    trials = race(candidates, lambda one: float(speeds[" ".join(sorted(one.keys))]))
    found = verdict(candidates, trials)
    assert found is not None
    assert found.winner.keys == {"threads", "buffer"}
    slower = [one for one in trials if one.candidate == "chunk + buffer"]
    assert len(slower) <= 1, "one run shows that such a combination is slower"


def test_a_combination_that_is_slower_is_left_and_the_next_is_tried():
    """Two of three settings use the same cores: together they gain nothing, with the third they do."""
    candidates = (
        as_planned({}),
        *(Candidate(name=name, sets={name: "1"}, parameters={}, because="") for name in ("a", "b", "c")),
    )

    def measure(one):
        return (
            100
            * (1.5 if {"a", "b"} & one.keys else 1.0)
            * (0.5 if {"a", "b"} <= one.keys else 1.0)
            * (1.3 if "c" in one.keys else 1.0)
        )

    found = verdict(candidates, race(candidates, measure))
    assert found is not None
    assert found.winner.keys == {"a", "c"}


def test_with_little_time_left_the_leader_is_confirmed():
    candidates = single_changes()
    trials = [
        Trial(candidate=one.name, stage="alone", value=speed(one), unit="", seconds=1.0, directory=".")
        for one in candidates
    ]
    coming = upcoming(candidates, trials, repeat=3, last=True)
    assert coming is not None
    assert coming.stage == "confirm"


def pooled(candidates, measure, places=4, repeat=3, lasts=lambda _: 1):
    """Run the race on so many places at the same time; the trials and the time that it took."""
    trials, running, now = [], {}, 0
    while True:
        for place in (str(number) for number in range(places)):
            beside = [one for one, _ in running.values()]
            if place in running or not (
                coming := upcoming(candidates, trials, repeat=repeat, running=beside, place=place)
            ):
                continue
            assert (
                coming.candidate.name not in {one.candidate.name for one in beside}
                or coming.stage == "confirm"
            )
            running[place] = coming, now + lasts(coming.candidate)
        if not running:
            return trials, now
        now = min(end for _, end in running.values())
        for place, (done, end) in sorted(running.items()):
            if end == now:
                del running[place]
                trials.append(
                    Trial(
                        candidate=done.candidate.name, stage=done.stage, value=measure(done.candidate, place), unit="",
                        seconds=1.0, directory=".", place=place,
                    )
                )  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_on_several_places_it_finds_the_same_in_less_time(seed):
    chance = random.Random(seed)
    candidates = single_changes()
    trials, seconds = pooled(
        candidates,
        lambda one, _: speed(one) * chance.gauss(1, 0.01),
        lasts=lambda _: chance.uniform(0.8, 1.2),
    )
    found = verdict(candidates, trials)
    best = max(speed(Candidate(name="", sets=sets, parameters={}, because="")) for sets in combined_knobs())
    assert found is not None
    assert found.sure
    assert speed(found.winner) > 0.97 * best
    alone = race(candidates, lambda one: speed(one) * chance.gauss(1, 0.01))
    assert seconds < 0.6 * len(alone)


def combined_knobs():
    return [dict(zip(KNOBS, values, strict=True)) for values in product(*KNOBS.values())]


@pytest.mark.parametrize("seed", range(50))
def test_nodes_of_another_speed_are_no_gain(seed):
    """Each pair of confirming trials is on one node, and each node is as fast as it is."""
    chance = random.Random(seed)
    candidates = single_changes()
    nodes = {str(number): chance.choice([0.9, 1.0]) for number in range(4)}
    trials, _ = pooled(candidates, lambda _, place: 100 * nodes[place] * chance.gauss(1, 0.005))
    found = verdict(candidates, trials)
    assert found is None or not found.sure
    confirmed = [(one.place, one.candidate == DEFAULT) for one in trials if one.stage == "confirm"]
    assert all(confirmed.count((place, True)) == confirmed.count((place, False)) for place in nodes)


def test_all_combinations_that_ran_are_candidates():
    candidates = single_changes()
    trials, _ = pooled(candidates, lambda one, _: speed(one))
    assert {one.candidate for one in trials} <= {one.name for one in everyone(candidates, trials)}


def test_a_pair_that_a_lost_node_left_open_is_completed_elsewhere():
    candidates = single_changes()
    trials, _ = pooled(candidates, lambda one, _: speed(one))
    done = [one for one in trials if one.stage == "confirm"]
    left = [one for one in trials if one.stage != "confirm"] + done[1:]
    missing = done[0].candidate
    coming = upcoming(candidates, left, repeat=3, place="new")
    assert coming is not None
    assert (coming.stage, coming.candidate.name) == ("confirm", missing)
    done = Trial(
        candidate=missing, stage="confirm", value=1.0, unit="", seconds=1.0, directory=".", place="new"
    )
    assert upcoming(candidates, [*left, done], repeat=3, place="new") is None
