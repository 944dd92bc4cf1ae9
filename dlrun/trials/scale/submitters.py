"""Plan and submit the runs of a study, on this host or on a login node, which is queried once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from dlrun.jobs.clusters import control
from dlrun.jobs.clusters.login import transport_of
from dlrun.jobs.queue.study import Study
from dlrun.jobs.records import spec_arguments
from dlrun.jobs.records.jobs import Job
from dlrun.jobs.remote import plan as remote_plan, submit as remote
from dlrun.jobs.remote.destination import Destination
from dlrun.jobs.remote.plan import RemoteInputs
from dlrun.jobs.remote.submission import Payload, carry_out
from dlrun.jobs.submission.files import files
from dlrun.jobs.submission.prepare import prepare, read_inputs, spec_inputs
from dlrun.jobs.submission.submit import submit
from dlrun.model.plan import Plan

Notice = Callable[[str], None]


class Submitter(Protocol):
    """Plans and submits a study's spec with arguments of `--set`."""

    waits: bool
    """Whether jobs can depend on each other."""

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:
        """The plan, for the directory of the job `like`, if given; raises InvalidFile."""
        ...

    def submit(self, sets: Sequence[str], directory: Path, notice: Notice) -> Job:
        """Submit the plan; directory: job directory or local record. Raises like `dlrun submit`."""
        ...

    def resume(self, sets: Sequence[str], job: Job, notice: Notice) -> Job:
        """Complete an interrupted submission."""
        ...


def submitter_of(study: Study) -> Submitter:
    """The submitter of a study; relative paths start in the working directory."""
    return RemoteSubmitter(study) if study.host is not None else LocalSubmitter(study)


class LocalSubmitter:
    """Submission on this host."""

    def __init__(self, study: Study) -> None:
        self._study = study
        inputs = spec_inputs(study.spec, sets=study.sets, site=study.site)
        self.waits = control.of(inputs.site.scheduler.type).WAITS

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:
        """The plan."""
        return prepare(self._study.spec, sets=sets, site=self._study.site).plan

    def submit(self, sets: Sequence[str], directory: Path, notice: Notice) -> Job:
        """Submit it."""
        prepared = prepare(self._study.spec, sets=sets, site=self._study.site)
        return submit(prepared.plan, prepared.inputs, directory=directory, notice=notice).job

    def resume(self, sets: Sequence[str], job: Job, notice: Notice) -> Job:
        """Not needed: `study.settle` completes interrupted submissions on this host."""
        raise NotImplementedError


class RemoteSubmitter:
    """Submission on a login node."""

    waits = True

    def __init__(self, study: Study) -> None:
        assert study.host is not None  # noqa: S101 - checked by `submitter_of`
        self._study = study
        inputs = read_inputs(study.spec, sets=study.sets, site=study.site)
        draft = remote_plan.draft(inputs, study.host)
        self._to = remote.reached(Destination(host=study.host, transport=study.transport), draft)
        self._transport = transport_of(self._to.host, self._to.transport)
        asked = remote.ask(self._transport, draft)
        self._facts = asked.facts
        self._site = study.site if draft.named else asked.draft.inputs.site.name
        remote_plan.check_paths(self._to.host, asked.draft.inputs, asked.facts)

    def plan(self, sets: Sequence[str], like: Job | None = None) -> Plan:
        """The plan, for a job directory on the login node."""
        known = like.remote.directory if like is not None and like.remote is not None else None
        place = known or f"{self._facts.jobs}/{self._study.name}"
        return remote_plan.plan(self._draft(sets), self._facts.home, place, self._to.host)

    def submit(self, sets: Sequence[str], directory: Path, notice: Notice) -> Job:
        """Send and submit it."""
        draft = self._draft(sets)
        return self._carry_out(
            lambda place: remote.payload_of(draft, self._to, self._facts.home, place), directory, notice
        )

    def resume(self, sets: Sequence[str], job: Job, notice: Notice) -> Job:
        """Resume with the recorded plan: a new one could have other runs and dependencies."""
        sent = tuple(self._draft(sets).sent)
        kept = spec_arguments.copied_files(job.directory)
        plan = job.plan()
        return self._carry_out(
            lambda place: Payload(plan=plan, texts=files(plan, None, Path(place)) | kept, sent=sent),
            job.directory,
            notice,
        )

    def _draft(self, sets: Sequence[str]) -> RemoteInputs:
        return remote_plan.draft(read_inputs(self._study.spec, sets=sets, site=self._site), self._to.host)

    def _carry_out(self, load_for: Callable[[str], Payload], record: Path, notice: Notice) -> Job:
        return carry_out(self._transport, self._to, self._facts, load_for, notice, record=record)
