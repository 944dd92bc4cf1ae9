"""Where the runs of a study are planned and submitted: here, or on a login node that is asked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from dlrun.effects.clusters import control
from dlrun.effects.clusters.login import transport_of
from dlrun.effects.jobs.files import files
from dlrun.effects.jobs.prepare import prepare, read_inputs
from dlrun.effects.jobs.submit import submit
from dlrun.effects.records import given
from dlrun.effects.records.jobs import Job
from dlrun.effects.remote import plan as remote_plan
from dlrun.effects.remote import submit as remote
from dlrun.effects.remote.destination import Destination
from dlrun.effects.remote.plan import RemoteInputs
from dlrun.effects.remote.submission import Payload, carry_out
from dlrun.effects.scaling.study import Study
from dlrun.model.plan import Plan

Say = Callable[[str], None]


class Submitter(Protocol):
    """Plans and submits a study's spec with these `--set`s."""

    waits: bool
    """Jobs can wait for one another."""

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:
        """The plan; `like`: for the place of this job. Raises InvalidFile if there can be none."""
        ...

    def submit(self, sets: Sequence[str], directory: Path, say: Say) -> Job:
        """Submit it, with `directory` as its job directory, or as the record of it. Raises what `dlrun submit` does."""
        ...

    def go_on(self, sets: Sequence[str], job: Job, say: Say) -> Job:
        """Complete an interrupted submission."""
        ...


def submitter_of(study: Study) -> Submitter:
    """Where a study runs; its spec's relative paths start in the working directory."""
    return RemoteSubmitter(study) if study.host is not None else LocalSubmitter(study)


class LocalSubmitter:
    """This machine, or the scheduler whose clients it has."""

    def __init__(self, study: Study) -> None:
        self._study = study
        inputs = read_inputs(study.spec, sets=study.sets, site=study.site)
        self.waits = inputs is None or control.of(inputs.site.scheduler.type).WAITS

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:  # noqa: ARG002 - the place is the same
        """The plan."""
        return prepare(self._study.spec, sets=sets, site=self._study.site).plan

    def submit(self, sets: Sequence[str], directory: Path, say: Say) -> Job:
        """Submit it."""
        prepared = prepare(self._study.spec, sets=sets, site=self._study.site)
        return submit(prepared.plan, prepared.inputs, directory=directory, say=say).job

    def go_on(self, sets: Sequence[str], job: Job, say: Say) -> Job:
        """Not needed: what broke off here was given up or adopted (`study.settle`)."""
        raise NotImplementedError


class RemoteSubmitter:
    """A login node."""

    waits = True

    def __init__(self, study: Study) -> None:
        assert study.host is not None  # noqa: S101 - `place_of` looks
        self._study = study
        inputs = read_inputs(study.spec, sets=study.sets, site=study.site)
        draft, self._to = remote.begin(inputs, Destination(host=study.host, transport=study.transport))
        self._transport = transport_of(self._to.host, self._to.transport)
        named = draft.named
        draft, self._facts = remote.ask(self._transport, draft)
        self._site = study.site if named else draft.inputs.site.name
        remote_plan.check_paths(self._to.host, draft.inputs, self._facts)

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:
        """The plan, for a job directory there."""
        known = like.remote.directory if like is not None and like.remote is not None else None
        place = known or f"{self._facts.jobs}/{self._study.name}"
        return remote_plan.plan(self._draft(sets), self._facts.home, place, self._to.host)

    def submit(self, sets: Sequence[str], directory: Path, say: Say) -> Job:
        """Send and submit it."""
        draft = self._draft(sets)
        return self._carry_out(
            lambda place: remote.payload_of(draft, self._to, self._facts.home, place), directory, say
        )

    def go_on(self, sets: Sequence[str], job: Job, say: Say) -> Job:
        """The plan is the one in the record: another one's size and order in the queue may be others by now."""
        sent = tuple(self._draft(sets).sent)
        kept = given.kept(job.directory)
        plan = job.plan()
        return self._carry_out(
            lambda place: Payload(plan=plan, texts=files(plan, None, Path(place)) | kept, sent=sent),
            job.directory,
            say,
        )

    def _draft(self, sets: Sequence[str]) -> RemoteInputs:
        return remote_plan.draft(read_inputs(self._study.spec, sets=sets, site=self._site), self._to.host)

    def _carry_out(self, load_for: Callable[[str], Payload], record: Path, say: Say) -> Job:
        return carry_out(self._transport, self._to, self._facts, load_for, say, record=record)
