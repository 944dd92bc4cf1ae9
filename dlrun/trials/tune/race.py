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
        one.value for one in trials if one.candidate == name and one.stage in stages and one.value is not None
    ]


def noise(trials: Sequence[Trial]) -> float:
    """Relative noise of trials of one setting: twice the root mean square deviation from their median, at least QUIET."""
    # Pooled over all settings, because each has only a few trials.
    squares, freedom = 0.0, 0
    for name in {one.candidate for one in trials}:
        found = values(trials, name, ("alone", "together", "confirm"))
        if len(found) > 1:
            middle = median(found)
            squares += sum((value / middle - 1) ** 2 for value in found)
            freedom += len(found) - 1
    return max(QUIET, 2 * (squares / freedom) ** 0.5) if freedom else UNKNOWN


def dropped(trials: Sequence[Trial], name: str) -> bool:
    """True if a candidate failed, or its best trial is slower than the fastest median by more than the noise."""
    tried = [one for one in trials if one.candidate == name]
    if not tried:
        return False
    found = values(trials, name)
    if not found:
        return True
    medians = [median(other) for one in {t.candidate for t in trials} if (other := values(trials, one))]
    # Its best trial counts: a single disturbed one must not end a good candidate.
    return max(found) < max(medians) * (1 - noise(trials))


def leader(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> Candidate:
    """The candidate with the best median; the unchanged plan unless another is faster by more than the noise."""
    planned = next(one for one in candidates if one.name == DEFAULT)
    base = values(trials, DEFAULT)
    best, fastest = planned, (median(base) * (1 + noise(trials)) if base else 0.0)
    for one in candidates:
        found = values(trials, one.name)
        if one.name != DEFAULT and found and median(found) > fastest:
            best, fastest = one, median(found)
    return best


def _winners(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> list[Candidate]:
    """The candidates that were faster than the unchanged plan by themselves, the fastest first."""
    # Later trials must not change which candidates are combined.
    alone = [one for one in trials if one.stage == "alone"]
    base = values(alone, DEFAULT)
    if not base:
        return []
    # Half the noise is enough here, because a combination must still win in its own trials.
    limit = median(base) * (1 + noise(alone) / 2)
    middles = {one.name: median(found) for one in candidates if (found := values(alone, one.name))}
    won = [one for one in candidates if one.name != DEFAULT and middles.get(one.name, 0.0) > limit]
    return sorted(won, key=lambda one: -middles[one.name])


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
    planned = next(one for one in candidates if one.name == DEFAULT)
    winners = _winners(candidates, trials)
    if not winners:
        return Combinations([], None)
    others = [one for one in candidates if one.name != DEFAULT and values(trials, one.name)]
    moves: list[tuple[Move, Candidate]] = [("add", one) for one in (*winners[1:], *others)]
    moves += [("replace", one) for one in others]
    moves += [("begin without", winners[0])]
    moves += [("leave out", one) for one in others]
    parts, current = winners[:1], winners[0]
    made: list[Candidate] = []
    for move, one in moves:
        coming = _moved(move, one, parts, winners, planned)
        both = together(coming, planned.parameters)
        if len(coming) < 2 or any(_same(both, other) for other in made):
            continue
        made.append(both)
        ran = sum(t.candidate == both.name and t.stage == "together" for t in trials)
        found, best = values(trials, both.name), median(values(trials, current.name))
        slower = found and max(found) < best * (1 if len(found) > 1 else 1 - noise(trials) / 2)
        if both.name not in running and ran < repeat and not slower and not dropped(trials, both.name):
            return Combinations(made, both)
        if found and median(found) > best:
            parts, current = coming, both
    return Combinations(made, None)


def _moved(
    move: Move,
    one: Candidate,
    parts: Sequence[Candidate],
    winners: Sequence[Candidate],
    planned: Candidate,
) -> list[Candidate]:
    """The changes after a move from `parts`; empty if it is not possible."""
    if move == "leave out":
        return [part for part in parts if part is not one] if one in parts else []
    if move == "begin without":
        found: list[Candidate] = []
        for winner in winners:
            if not any(_share_keys(winner, other, planned) for other in (one, *found)):
                found.append(winner)
        return found
    kept = [part for part in parts if not _share_keys(one, part, planned)]
    possible = kept and one not in parts and (move == "replace") == (kept != [*parts])
    return [*kept, one] if possible else []


def _same(one: Candidate, other: Candidate) -> bool:
    return (one.sets, one.parameters) == (other.sets, other.parameters)


def _share_keys(one: Candidate, other: Candidate, planned: Candidate) -> bool:
    return bool(_changed(one, planned) & _changed(other, planned))


def _changed(one: Candidate, planned: Candidate) -> set[str]:
    """The keys and parameters in which a candidate differs from the unchanged plan."""
    return {*one.sets, *(n for n, value in one.parameters.items() if planned.parameters.get(n) != value)}


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
    if any(one.candidate == DEFAULT and one.value is None for one in trials):
        return None
    stages, names = {one.stage for one in running}, {one.candidate.name for one in running}
    if not (last or "confirm" in stages or any(one.stage == "confirm" for one in trials)):
        for number in range(1, repeat + 1):
            if (found := _of_round(candidates, trials, number, names)) is not None:
                return Next(candidate=found, stage="alone", place=place)
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
    planned = next(one for one in candidates if one.name == DEFAULT)
    others = [one for one in candidates if one.name != DEFAULT]
    shift = (number - 1) % len(others) if others else 0
    for one in (planned, *others[shift:], *others[:shift]):
        ran = sum(t.candidate == one.name and t.stage == "alone" for t in trials)
        if one.name not in running and ran < number and not dropped(trials, one.name):
            return one
    return None


def _confirming(
    candidates: Sequence[Candidate], trials: Sequence[Trial], repeat: int, running: Sequence[Next], place: str
) -> Next | None:
    """The next confirming trial: pairs of winner and unchanged plan, each on one place, with alternating order."""
    planned = next(one for one in candidates if one.name == DEFAULT)
    done = [(one.candidate, one.place) for one in trials if one.stage == "confirm"]
    done += [(one.candidate.name, one.place) for one in running]
    known = next(
        (one for one in candidates if one.name != DEFAULT and one.name in {n for n, _ in done}), None
    )
    winner = known or leader(candidates, [one for one in trials if one.stage != "confirm"])
    if winner.name == DEFAULT:
        return None
    ran = {
        one: [done.count((side.name, one)) for side in (planned, winner)]
        for one in {place, *(place for _, place in done)}
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
    ran = dict.fromkeys(one.candidate for one in trials if one.stage == "together")
    found = {one.name: one for one in combinations(candidates, trials, 1).made if one.name in ran}
    parts = {one.name: one for one in candidates}
    for name in (
        name for name in ran if name not in found and all(part in parts for part in name.split(JOINED))
    ):
        found[name] = together([parts[part] for part in name.split(JOINED)], candidates[0].parameters)
    return (*candidates, *found.values())


def verdict(candidates: Sequence[Candidate], trials: Sequence[Trial]) -> Verdict | None:
    """Result of the confirming trials; None if no candidate was faster than the unchanged plan, or none was confirmed."""
    ran = [one.candidate for one in trials if one.stage == "confirm" and one.candidate != DEFAULT]
    winner = next((one for one in everyone(candidates, trials) if one.name in ran), None)
    if winner is None:
        return None
    base, found = values(trials, DEFAULT, ("confirm",)), values(trials, winner.name, ("confirm",))
    if not base or not found:
        return None
    low, high = min(found) / max(base), max(found) / min(base)
    return Verdict(
        winner=winner,
        gain=median(found) / median(base) - 1,
        low=low - 1,
        high=high - 1,
        sure=len(found) > 1 and len(base) > 1 and low > 1 + QUIET / 2,
    )


def expected(count: int, repeat: int) -> int:
    """Approximate number of trials: half of the candidates are dropped in each further round, each is tried in a combination,
    two combinations and the confirming runs are repeated."""
    return sum(max(2, count >> number) for number in range(repeat)) + count + 4 * repeat
