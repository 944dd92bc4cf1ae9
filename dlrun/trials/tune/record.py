"""The directory of a tuning: candidates, and each trial when it ends, so that a killed tuning can be resumed."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dlrun.errors import Invalid, OperationFailed
from dlrun.jobs.records import lock
from dlrun.jobs.records.directories import begin, write_json
from dlrun.jobs.records.validation import decoded, encoded, read_json, run_state
from dlrun.model.json_codec import from_plain, to_plain
from dlrun.system.writing import append_to, replace
from dlrun.trials.tune.candidates import Candidate
from dlrun.trials.tune.race import Trial

RECORD = "tune.json"
TRIALS = "trials.jsonl"
SPEC = "spec.yaml"
KIND: Final = "tuning"
"""Of the list of what dlrun wrote in the directory (`ownership`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The parameters of a tuning; the directory has a copy of the spec.

    origin: base of relative paths; length: seconds of a trial after its first throughput; startup: maximum seconds before it;
    repeat: runs of a candidate per stage; budget: node-hours of all trials, on `nodes` nodes; per_node: trials that run at the
    same time on each of them, as points of a pool (0: one on all nodes); wide: nodes of a trial in a pool.
    """

    directory: Path
    name: str
    origin: Path
    spec: Path
    site: str | None
    sets: tuple[str, ...]
    nodes: int
    length: float
    startup: float
    repeat: int
    budget: float
    candidates: tuple[Candidate, ...]
    per_node: int = 0
    wide: int = 1

    @property
    def groups(self) -> tuple[str, ...]:
        """The nodes of the job by number, in groups of as many as a trial has."""
        firsts = range(0, self.nodes - self.wide + 1, self.wide)
        return tuple(",".join(map(str, range(first, first + self.wide))) for first in firsts)

    @property
    def places(self) -> tuple[str, ...]:
        """Where a trial can run: nodes of the job and a place on them, by number; the first of each node come first."""
        places = (f"{nodes} {place}" for place in range(self.per_node) for nodes in self.groups)
        return tuple(places) if self.per_node else ("",)

    def save(self) -> None:
        """Write the tuning to its directory; raises OperationFailed."""
        try:
            begin(self.directory, KIND, (RECORD, TRIALS, SPEC, lock.NAME, "trials/"))
            (self.directory / "trials").mkdir(exist_ok=True)
            replace(self.directory / SPEC, self.spec.read_bytes())
            write_json(self.directory / RECORD, encoded(self))
        except OSError as error:
            raise OperationFailed(f"cannot write `{self.directory}`: {error.strerror}") from None

    def trials(self) -> list[Trial]:
        """The ended trials in order; incomplete lines are skipped. Raises OperationFailed."""
        trials = []
        try:
            lines = (self.directory / TRIALS).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise OperationFailed(f"cannot read `{self.directory / TRIALS}`: {error.strerror}") from None
        for line in lines:
            try:
                trials.append(from_plain(Trial, json.loads(line)))
            except (ValueError, KeyError, TypeError):
                continue
        return trials

    def add(self, trial: Trial) -> None:
        """Append an ended trial; raises OperationFailed."""
        line = json.dumps(to_plain(trial)) + "\n"
        try:
            with append_to(self.directory / TRIALS) as file:
                if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                    file.write(b"\n")  # after a line that a kill truncated
                file.write(line.encode())
        except OSError as error:
            raise OperationFailed(f"cannot write `{self.directory / TRIALS}`: {error.strerror}") from None

    def used(self) -> float:
        """Node-hours of the trials so far."""
        return self.hours(sum(trial.seconds for trial in self.trials()))

    def hours(self, seconds: float) -> float:
        """Node-hours of so many seconds of one trial."""
        return self.nodes * seconds / len(self.places) / 3600

    def running(self) -> list[tuple[str, float]]:
        """Directory name of the setting, and start (seconds since 1970), of each trial that has not ended."""
        ended, running = {Path(trial.directory).parts[1:2] for trial in self.trials()}, []
        with suppress(OSError):
            for trial in sorted((self.directory / "trials").iterdir())[-len(self.places) :]:
                # Those before the newest may be of a process that was killed.
                if (trial.name,) in ended or (
                    self.per_node and (run_state(trial) or {}).get("state") == "ended"
                ):
                    continue
                running.append((trial.name.partition("-")[2], (trial / "job.sh").stat().st_mtime))
        return running

    def unchanged(self) -> bool:
        """Whether the spec is unchanged since the start of the tuning."""
        try:
            return (self.directory / SPEC).read_bytes() == self.spec.read_bytes()
        except OSError:
            return False


def directory_name(candidate: str) -> str:
    """The name of a candidate as part of the directory name of its trials."""
    return "".join(c if c.isalnum() or c in "._=" else "-" for c in candidate)[:60]


def load(directory: Path) -> Tuning | None:
    """The tuning of a directory; None without one. Raises Invalid for an invalid record."""
    if not (directory / RECORD).exists():
        return None
    try:
        return decoded(Tuning, read_json(directory / RECORD) or {}, directory=str(directory))
    except ValueError:
        raise Invalid(
            f"`{directory / RECORD}` is not a tuning of this version of dlrun",
            help="choose another directory with `--out`",
        ) from None


def locked(tuning: Tuning) -> AbstractContextManager[None]:
    """Lock the trials for this process; raises OperationFailed if another one runs them."""
    directory = tuning.directory
    return lock.exclusive(
        directory,
        f"another process runs the trials of `{directory}`",
        help=f"`dlrun tune --show {shlex.quote(str(directory))}` prints what it has measured",
    )
