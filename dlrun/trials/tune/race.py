"""Selection of the next trial, and evaluation: a race in which slower candidates are dropped early.

1. Every candidate is tried once, and so is the unchanged plan. Those that are slower than the fastest by more than the noise (the
   differences between trials of the same setting) are dropped; the others run again.
2. Changes that were faster alone are combined, then changes that were slower alone are added to these, replace some of
   them, or are left out again. A combination that is slower than the best one so far, by half of the noise in its first run or
   by anything in two, is not run again.
3. The winner and the unchanged plan alternate in new trials. Only these decide the reported gain, because the best of many
   measurements is partly luck.

Trials can run at the same time on several places, each on one. A setting has at most one trial at a time. A combination whose
trial has not ended yet is assumed to be no faster, as most are. Confirming trials are pairs on the same place, because nodes
differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median
from typing import Literal, NamedTuple

from dlrun.model.record import record
from dlrun.trials.tune.candidates import DEFAULT, JOINED, Candidate, together

Stage = Literal["alone", "together", "confirm"]
Move = Literal["add", "replace", "leave out", "begin without"]

QUIET = 0.02
"""Smallest relative difference that counts: runs on quiet nodes differ by 1-2 % (see `plan.affinity.binding_report`)."""
UNKNOWN = 0.10
"""Relative noise assumed before any setting has run twice."""


@record(frozen=True, slots=True, kw_only=True)
class Trial:
    """One short run: candidate, throughput (None: it failed for the reason `failed`), duration in seconds, place in a pool."""

    candidate: str
    stage: Stage
    value: float | None
    unit: str
    seconds: float
    directory: str
    failed: str | None = None
    place: str = ""


@record(frozen=True, slots=True, kw_only=True)
class Next:
    """The next trial, or one that runs, and its place in a pool."""

    candidate: Candidate
    stage: Stage
    place: str = ""


@record(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of the confirming trials: the winner against the unchanged plan.

    `gain` is the ratio of the medians minus 1; `low` and `high` are the smallest and largest for any two trials; `sure` is
    True if every trial of the winner is faster than every one of the plan by more than QUIET / 2.
    """

    winner: Candidate
    gain: float
    low: float
    high: float
    sure: bool


def values(
    trials: Sequence[Trial], name: str, stages: Sequence[Stage] = ("alone", "together")
) -> list[float]:
    """The throughputs of a candidate, in the order of the trials."""
    return [
        trial.value
        for trial in trials
        if trial.candidate == name and trial.stage in stages and trial.value is not None
    ]


def noise(trials: Sequence[Trial]) -> float:
    """Relative noise of trials of one setting: twice the root mean square deviation from their median, at least QUIET."""
    # Pooled over all settings, because each has only a few trials.
    squares, freedom = 0.0, 0
    for name in {trial.candidate for trial in trials}:
        throughputs = values(trials, name, ("alone", "together", "confirm"))
        if len(throughputs) > 1:
            middle = median(throughputs)
            squares += sum((value / middle - 1) ** 2 for value in throughputs)
            freedom += len(throughputs) - 1
    return max(QUIET, 2 * (squares / freedom) ** 0.5) if freedom else UNKNOWN


def dropped(trials: Sequence[Trial], name: str) -> bool:
    """True if a candidate failed, or its best trial is slower than the fastest median by more than the noise."""
    tried = [trial for trial in trials if trial.candidate == name]
    if not tried:
        return False
    throughputs = values(trials, name)
    if not throughputs:
        return True
    medians = [median(other) for rival in {t.candidate for t in trials} if (other := values(trials, rival))]
    # Its best trial counts: a single disturbed one must not end a good candidate.
    return max(throughputs) < max(medians) * (1 - noise(trials))


def leader(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> Candidate:
    """The candidate with the best median; the unchanged plan unless another is faster by more than the noise."""
    planned = next(candidate for candidate in candidates if candidate.name == DEFAULT)
    base = values(trials, DEFAULT)
    best, fastest = planned, (median(base) * (1 + noise(trials)) if base else 0.0)
    for candidate in candidates:
        throughputs = values(trials, candidate.name)
        if candidate.name != DEFAULT and throughputs and median(throughputs) > fastest:
            best, fastest = candidate, median(throughputs)
    return best


def _winners(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> list[Candidate]:
    """The candidates that were faster than the unchanged plan by themselves, the fastest first."""
    # Later trials must not change which candidates are combined.
    alone = [trial for trial in trials if trial.stage == "alone"]
    base = values(alone, DEFAULT)
    if not base:
        return []
    # Half the noise is enough here, because a combination must still win in its own trials.
    limit = median(base) * (1 + noise(alone) / 2)
    middles = {
        candidate.name: median(throughputs)
        for candidate in candidates
        if (throughputs := values(alone, candidate.name))
    }
    won = [
        candidate
        for candidate in candidates
        if candidate.name != DEFAULT and middles.get(candidate.name, 0.0) > limit
    ]
    return sorted(won, key=lambda candidate: -middles[candidate.name])


class Combinations(NamedTuple):
    """The combinations of the search so far, and the one to run next (None: there is none)."""

    made: list[Candidate]
    coming: Candidate | None


def combinations(
    candidates: Sequence[Candidate], trials: Sequence[Trial], repeat: int, running: Collection[str] = ()
) -> Combinations:
    """The combinations of changes; running: candidates of which a trial runs, so that they are not the next.

    Greedy search: to the fastest change, each other one is added in turn, winners first (a change that is slower by itself
    can be faster beside another). Then each one replaces those with a common key. Then the winners are combined without the
    fastest one and its keys: beside it, they may gain too little. At last each one is left out in turn: one that was faster
    alone can be slower beside the others. Faster combinations are kept.
    """
    planned = next(candidate for candidate in candidates if candidate.name == DEFAULT)
    winners = _winners(candidates, trials)
    if not winners:
        return Combinations([], None)
    others = [
        candidate for candidate in candidates if candidate.name != DEFAULT and values(trials, candidate.name)
    ]
    moves: list[tuple[Move, Candidate]] = [("add", candidate) for candidate in (*winners[1:], *others)]
    moves += [("replace", candidate) for candidate in others]
    moves += [("begin without", winners[0])]
    moves += [("leave out", candidate) for candidate in others]
    parts, current = winners[:1], winners[0]
    made: list[Candidate] = []
    for move, candidate in moves:
        coming = _moved(move, candidate, parts, winners, planned)
        both = together(coming, planned.parameters)
        if len(coming) < 2 or any(_same(both, other) for other in made):
            continue
        made.append(both)
        ran = sum(t.candidate == both.name and t.stage == "together" for t in trials)
        throughputs, best = values(trials, both.name), median(values(trials, current.name))
        slower = throughputs and max(throughputs) < best * (
            1 if len(throughputs) > 1 else 1 - noise(trials) / 2
        )
        if both.name not in running and ran < repeat and not slower and not dropped(trials, both.name):
            return Combinations(made, both)
        if throughputs and median(throughputs) > best:
            parts, current = coming, both
    return Combinations(made, None)


def _moved(
    move: Move,
    candidate: Candidate,
    parts: Sequence[Candidate],
    winners: Sequence[Candidate],
    planned: Candidate,
) -> list[Candidate]:
    """The changes after a move from `parts`; empty if it is not possible."""
    if move == "leave out":
        return [part for part in parts if part is not candidate] if candidate in parts else []
    if move == "begin without":
        chosen: list[Candidate] = []
        for winner in winners:
            if not any(_share_keys(winner, other, planned) for other in (candidate, *chosen)):
                chosen.append(winner)
        return chosen
    kept = [part for part in parts if not _share_keys(candidate, part, planned)]
    possible = kept and candidate not in parts and (move == "replace") == (kept != [*parts])
    return [*kept, candidate] if possible else []


def _same(candidate: Candidate, other: Candidate) -> bool:
    return (candidate.sets, candidate.parameters) == (other.sets, other.parameters)


def _share_keys(candidate: Candidate, other: Candidate, planned: Candidate) -> bool:
    return bool(_changed(candidate, planned) & _changed(other, planned))


def _changed(candidate: Candidate, planned: Candidate) -> set[str]:
    """The keys and parameters in which a candidate differs from the unchanged plan."""
    return {
        *candidate.sets,
        *(n for n, value in candidate.parameters.items() if planned.parameters.get(n) != value),
    }


def upcoming(
    candidates: Sequence[Candidate],
    trials: Sequence[Trial],
    *,
    repeat: int,
    last: bool = False,
    running: Sequence[Next] = (),
    place: str = "",
) -> Next | None:
    """The next trial on a free place beside those that run.

    None if there is nothing to run before one of these has ended; without them, if the race is finished or the unchanged plan
    failed. `repeat` is the number of runs per stage of a remaining candidate; with `last`, only confirming trials follow.
    """
    if any(trial.candidate == DEFAULT and trial.value is None for trial in trials):
        return None
    stages, names = {trial.stage for trial in running}, {trial.candidate.name for trial in running}
    if not (last or "confirm" in stages or any(trial.stage == "confirm" for trial in trials)):
        for number in range(1, repeat + 1):
            if (candidate := _of_round(candidates, trials, number, names)) is not None:
                return Next(candidate=candidate, stage="alone", place=place)
        if "alone" in stages:  # its result may change what is combined
            return None
        coming = combinations(candidates, trials, repeat, names).coming
        if coming is not None:
            return Next(candidate=coming, stage="together", place=place)
    if stages - {"confirm"}:
        return None
    return _confirming(everyone(candidates, trials), trials, repeat, running, place)


def _of_round(
    candidates: Sequence[Candidate], trials: Sequence[Trial], number: int, running: Collection[str]
) -> Candidate | None:
    """The next candidate of a round: the unchanged plan first, then the others, rotated by one in each round."""
    planned = next(candidate for candidate in candidates if candidate.name == DEFAULT)
    others = [candidate for candidate in candidates if candidate.name != DEFAULT]
    shift = (number - 1) % len(others) if others else 0
    for candidate in (planned, *others[shift:], *others[:shift]):
        ran = sum(t.candidate == candidate.name and t.stage == "alone" for t in trials)
        if candidate.name not in running and ran < number and not dropped(trials, candidate.name):
            return candidate
    return None


def _confirming(
    candidates: Sequence[Candidate], trials: Sequence[Trial], repeat: int, running: Sequence[Next], place: str
) -> Next | None:
    """The next confirming trial: pairs of winner and unchanged plan, each on one place, with alternating order."""
    planned = next(candidate for candidate in candidates if candidate.name == DEFAULT)
    done = [(trial.candidate, trial.place) for trial in trials if trial.stage == "confirm"]
    done += [(trial.candidate.name, trial.place) for trial in running]
    known = next(
        (
            candidate
            for candidate in candidates
            if candidate.name != DEFAULT and candidate.name in {n for n, _ in done}
        ),
        None,
    )
    winner = known or leader(candidates, [trial for trial in trials if trial.stage != "confirm"])
    if winner.name == DEFAULT:
        return None
    ran = {
        each_place: [done.count((side.name, each_place)) for side in (planned, winner)]
        for each_place in {place, *(place for _, place in done)}
    }
    total = [sum(counts) for counts in zip(*ran.values(), strict=True)]
    begun = sum(max(counts) for counts in ran.values())
    # Alternating order: a node that warms up or gets busier must not favour the same side each time.
    first = begun % 2
    if ran[place][0] != ran[place][1]:
        first = int(ran[place][0] > ran[place][1])
    elif begun >= repeat:  # pairs of places that are no longer there are completed on others
        if running:
            return None
        first = int(total[0] > total[1])
    if total[first] >= repeat:
        return None
    return Next(candidate=(planned, winner)[first], stage="confirm", place=place)


def everyone(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> tuple[Candidate, ...]:
    """The candidates and all combinations that were tried, also those that were assumed to be next and were not."""
    ran = dict.fromkeys(trial.candidate for trial in trials if trial.stage == "together")
    tried = {
        candidate.name: candidate
        for candidate in combinations(candidates, trials, 1).made
        if candidate.name in ran
    }
    parts = {candidate.name: candidate for candidate in candidates}
    for name in (
        name for name in ran if name not in tried and all(part in parts for part in name.split(JOINED))
    ):
        tried[name] = together([parts[part] for part in name.split(JOINED)], candidates[0].parameters)
    return (*candidates, *tried.values())


def verdict(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> Verdict | None:
    """Result of the confirming trials; None if no candidate was faster than the unchanged plan, or none was confirmed."""
    ran = [trial.candidate for trial in trials if trial.stage == "confirm" and trial.candidate != DEFAULT]
    winner = next((candidate for candidate in everyone(candidates, trials) if candidate.name in ran), None)
    if winner is None:
        return None
    base, of_winner = values(trials, DEFAULT, ("confirm",)), values(trials, winner.name, ("confirm",))
    if not base or not of_winner:
        return None
    low, high = min(of_winner) / max(base), max(of_winner) / min(base)
    return Verdict(
        winner=winner,
        gain=median(of_winner) / median(base) - 1,
        low=low - 1,
        high=high - 1,
        sure=len(of_winner) > 1 and len(base) > 1 and low > 1 + QUIET / 2,
    )


def expected(count: int, repeat: int) -> int:
    """Approximate number of trials: half of the candidates are dropped in each further round, each is tried in a combination,
    two combinations and the confirming runs are repeated."""
    return sum(max(2, count >> number) for number in range(repeat)) + count + 4 * repeat
