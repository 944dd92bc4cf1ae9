"""Output of `dlrun tune`: the table of settings, the result of the confirming runs, and the lines for the spec."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from dlrun.errors import Invalid
from dlrun.model.units import plain
from dlrun.render.patch import patched
from dlrun.system.writing import edit
from dlrun.terminal.printing import echo, emit, notice
from dlrun.terminal.table import Column, show as show_table
from dlrun.trials.tune.candidates import DEFAULT
from dlrun.trials.tune.race import QUIET, Trial, Verdict, dropped, everyone, upcoming, values, verdict
from dlrun.trials.tune.record import Tuning
from dlrun.usage.summary import shares


def show(tuning: Tuning, *, as_json: bool, write: Path | None) -> int:
    """Print all results; with `write`, change the spec if the gain is confirmed. Returns the exit code."""
    trials = tuning.trials()
    outcome = verdict(tuning.candidates, trials)
    over = upcoming(tuning.candidates, trials, repeat=tuning.repeat) is None
    if as_json:
        emit(
            "tune",
            {
                "directory": str(tuning.directory), "complete": over, "node_hours": tuning.used(),
                "candidates": everyone(tuning.candidates, trials), "trials": trials,
                "verdict": outcome,
            },
        )  # fmt: skip
    else:
        _table(tuning, trials)
        for line in _conclusion(tuning, trials, outcome, over=over):
            echo(line)
    if write is not None:
        _write(trials, outcome, write)
    return 0 if values(trials, DEFAULT) else 1


_TITLES = ("setting", "runs", "throughput", "spread", "against plan", "cores used", "GPUs busy", "")
_DROPPED = {"spread": 2, "runs": 3, "cores used": 1, "GPUs busy": 1}
"""Columns that are left out on a narrow terminal, the highest number first."""


def _table(tuning: Tuning, trials: Sequence[Trial]) -> None:
    """Print a row for each setting; shares of cores and GPUs are those that `dlrun usage` measured in its trials."""
    base = values(trials, DEFAULT)
    rows = [_row(tuning, trials, candidate.name, base) for candidate in everyone(tuning.candidates, trials)]
    shown = [i for i, title in enumerate(_TITLES) if title == "" or any(row[i] for row in rows)]
    columns = [
        Column(title=_TITLES[i], right=0 < i < len(_TITLES) - 1, drop=_DROPPED.get(_TITLES[i], 0))
        for i in shown
    ]
    show_table(columns, [tuple(row[i] for i in shown) for row in rows])


def _row(tuning: Tuning, trials: Sequence[Trial], name: str, base: Sequence[float]) -> tuple[str, ...]:
    tried = [trial for trial in trials if trial.candidate == name]
    good = [trial for trial in tried if trial.value is not None]
    throughputs = [trial.value for trial in tried if trial.value is not None]
    if not throughputs:
        why = f"failed: {tried[0].failed}" if tried else "not tried"
        return (name, str(len(tried)), "", "", "", "", "", why)
    middle = median(throughputs)
    ratio = f"{100 * (middle / median(base) - 1):+.1f} %" if base and name != DEFAULT else ""
    spread = f"{100 * (max(throughputs) - min(throughputs)) / middle:.1f} %" if len(throughputs) > 1 else ""
    throughput = f"{plain(middle)} {good[0].unit}".rstrip()
    cores, gpus = (
        "" if share is None else f"{100 * share:.0f} %"
        for share in shares(tuning.directory / trial.directory for trial in good)
    )
    return (name, str(len(throughputs)), throughput, spread, ratio, cores, gpus, _state(trials, name))


def _state(trials: Sequence[Trial], name: str) -> str:
    if any(trial.stage == "confirm" and trial.candidate == name for trial in trials) and name != DEFAULT:
        return "confirming runs"
    return "dropped early" if name != DEFAULT and dropped(trials, name) else ""


def _conclusion(tuning: Tuning, trials: Sequence[Trial], outcome: Verdict | None, *, over: bool) -> list[str]:
    lines = [f"{len(trials)} trials, {tuning.used():.2g} node-hours"]
    if not over:
        lines.append("not complete: the same command resumes it")
    elif outcome is None:
        lines.append(
            f"no setting is faster than the current plan by more than the spread of the runs (at least {100 * QUIET:.0f} %)"
        )
    if untried := [
        candidate.name
        for candidate in tuning.candidates
        if not any(t.candidate == candidate.name for t in trials)
    ]:
        lines.append(f"not tried, because the budget was used up: {', '.join(untried)}")
    if outcome is None:
        return lines
    span = f"{100 * outcome.low:+.1f} to {100 * outcome.high:+.1f} %"
    claim = f"{outcome.winner.name}: {100 * outcome.gain:+.1f} % in the confirming runs ({span})"
    if not outcome.sure:
        return [*lines, f"{claim}: within the spread of the runs, so not a confirmed gain"]
    lines += [claim, "in the spec:"]
    lines += [f"  {key}: {value}" for key, value in outcome.winner.sets.items()]
    planned = tuning.candidates[0].parameters
    lines += [
        f"  {name} = {value} in the command (was {planned.get(name)})"
        for name, value in outcome.winner.parameters.items()
        if planned.get(name) != value
    ]
    return lines


def _write(trials: Sequence[Trial], outcome: Verdict | None, spec: Path) -> None:
    """Write the confirmed settings into the spec."""
    if outcome is None or not outcome.sure:
        notice(f"`{spec}` is unchanged: no gain was confirmed")
        return
    if not outcome.winner.sets:
        notice(f"`{spec}` is unchanged: set parameters of the command by hand")
        return
    confirmed = [trial for trial in trials if trial.stage == "confirm"]
    evidence = (
        f"dlrun tune: {100 * outcome.gain:+.1f} % ({100 * outcome.low:+.1f} to {100 * outcome.high:+.1f} %, "
        f"{len(confirmed)} confirming runs)"
    )
    sets = outcome.winner.sets
    try:
        edit(spec, lambda text: patched(text, sets, evidence))
    except ValueError as error:
        raise Invalid(f"`{spec}` is not changed: {error}", help="set the keys above by hand") from None
    notice(f"written to {spec}")
