"""Plan a job for a login node: independent of this machine, except for the sent files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun import backends
from dlrun.errors import Invalid
from dlrun.jobs.records import jobs
from dlrun.jobs.remote import code as remote_code, files as remote_files
from dlrun.jobs.remote.files import SentFile
from dlrun.jobs.remote.images import source_of
from dlrun.jobs.remote.site import site_of_host
from dlrun.jobs.remote.steps import Facts
from dlrun.jobs.submission.prepare import build_plan, dependencies, plan_inputs
from dlrun.model.data import Snapshot, is_hub
from dlrun.model.origin import Origin
from dlrun.model.plan import Plan
from dlrun.model.problem import InvalidFile, Problem
from dlrun.model.spec import Spec
from dlrun.system.inputs import preflight, spec as reading
from dlrun.system.inputs.home import at_home
from dlrun.system.inputs.spec import Inputs
from dlrun.system.paths import expanded, working_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteInputs:
    """The inputs and the files to send, before the login node is contacted."""

    inputs: Inputs
    sent: Sequence[SentFile]
    named: bool
    """Whether the site is known; if not, it is detected on the login node."""
    notes: Sequence[str] = ()
    """About files that are not sent."""

    @property
    def stores(self) -> bool:
        """Whether there is a file that a snapshot can have."""
        return any(file.size is not None and file.link is None for file in self.sent)


def draft(inputs: Inputs | None, host: str, *, sends: bool = True) -> RemoteInputs:
    """Prepare a submission without contacting the login node; sends: False if its files are there.

    Raises Invalid for a saved plan (None), InvalidFile with all problems of spec, profile and files.
    """
    if inputs is None:
        raise Invalid(
            "a saved plan is for the machine that it was made on", help="submit the spec itself with `--host`"
        )
    named = inputs.spec.site is not None or bool(os.environ.get("DLRUN_SITE"))
    if not named and (name := site_of_host(host)) is not None:
        inputs, named = reading.on_site(inputs, name), True
    if any(is_hub(data.source) for program in inputs.programs for data in program.spec.data.values()):
        raise Invalid(
            "models and data sets of the hub (`hf://`) are fetched by the host that submits, and this one cannot send them to "
            f"`{host}`",
            help=f"submit on `{host}`; or fetch it there (`hf download REPOSITORY --local-dir PLACE`), and name that directory",
        )
    base = base_of(inputs.spec)
    collected = _collected(inputs, base) if sends else remote_files.Collected([], [])
    sent, problems = collected.files, collected.problems
    notes: Sequence[str] = ()
    if (wanted := wanted_snapshot(inputs.spec)) is not None:
        of_snapshot = remote_code.chosen(sent, wanted, inputs.spec.files)
        sent, notes = of_snapshot.files, of_snapshot.notes
    if sends and (inputs.spec.files or inputs.spec.directory is None):
        # Paths that only the cluster has are checked there (`check_paths`).
        for program in inputs.programs:
            bare = replace(program.spec.environment, venv=None)
            problems += preflight.check(
                replace(program.spec, environment=bare, data={}, secrets={}),
                working_directory(),
                program.origins,
            )
        problems += _left_behind(inputs, sent)
    if any(not p.warning for p in problems):
        raise InvalidFile(list(dict.fromkeys(problems)), dict(inputs.sources))
    return RemoteInputs(inputs=inputs, sent=sent, named=named, notes=notes)


def _collected(inputs: Inputs, base: Path) -> remote_files.Collected:
    """The files of all programs of the job, which are sent as one tree, and problems."""
    sent: dict[str, SentFile] = {}
    problems: list[Problem] = []
    for program in inputs.programs:
        spec = replace(program.spec, code=inputs.spec.code)
        collected = remote_files.collect(spec, base, program.origins)
        sent |= {file.name: file for file in collected.files}
        problems += collected.problems
        if base_of(spec) != base and (spec.files or sent):
            problems.append(
                Problem(
                    message="the files of all roles are sent as one tree, and this role has a directory of its own",
                    origin=program.origins.get("directory"),
                    help="leave out its `directory`, and name its files from that of the job",
                )
            )
    return remote_files.Collected([sent[name] for name in sorted(sent)], problems)


def base_of(spec: Spec) -> Path:
    """The base directory of sent files."""
    return expanded(spec.directory).absolute() if spec.directory else working_directory()


def on_site(earlier: RemoteInputs, site: str) -> RemoteInputs:
    """The draft for the detected site."""
    return replace(earlier, inputs=reading.on_site(earlier.inputs, site), named=True)


def _left_behind(inputs: Inputs, sent: Sequence[SentFile]) -> Iterator[Problem]:
    """Problems: relative paths of the spec that are not among the sent files."""
    names = {file.name for file in sent}
    for path, origin, code in _named(inputs):
        if not path.startswith(("/", "~/")) and os.path.normpath(path) not in names:
            message = f"`{path}` is not among the `files` that are copied"
            hint = "name one on the cluster by its full path (or `~/…`), or copy this one"
            yield Problem(code=code, message=message, origin=origin, help=hint)


def paths(inputs: Inputs) -> list[str]:
    """Paths that must exist on the login node."""
    return list(dict.fromkeys(path for path, _, _ in _named(inputs) if path.startswith(("/", "~/"))))


def _named(inputs: Inputs) -> Iterator[tuple[str, Origin | None, str]]:
    """Each path in the specs of the job's programs, the place of its key, and the problem code for a missing path."""
    for program in inputs.programs:
        paths_by_key = {}
        if program.spec.environment.venv:
            paths_by_key["environment.venv"] = (f"{program.spec.environment.venv}/bin/activate", "DLR033")
        for name, data in program.spec.data.items():
            if not any(c in data.source for c in "*?["):
                paths_by_key[f"data.{name}.source"] = (data.source, "DLR034")
        for name, secret in program.spec.secrets.items():
            if secret.file is not None:
                paths_by_key[f"secrets.{name}"] = (secret.file, "DLR035")
        for key, (path, code) in paths_by_key.items():
            yield path, program.origins.get(key) or program.origins.get(key.rpartition(".")[0]), code


def check_paths(host: str, inputs: Inputs, facts: Facts) -> None:
    """Raise InvalidFile for paths of the spec that do not exist on the login node."""

    def problems() -> Iterator[Problem]:
        for path, origin, code in _named(inputs):
            if path in facts.missing:
                message = f"there is no `{path}` on `{host}`"
                yield Problem(
                    code=code, message=message, origin=origin, help="paths of a job are paths on the cluster"
                )

    if missing := list(problems()):
        raise InvalidFile(missing, dict(inputs.sources))


def plan(drafted: RemoteInputs, home: str, directory: str, host: str, *, stored: bool = False) -> Plan:
    """The plan for a job on a login node with the home directory `home`; directory: the job's own, or that of the job whose files
    it uses; stored: they are there as a snapshot, if the spec asks for one. Raises Invalid, InvalidFile.
    """
    inputs = drafted.inputs
    spec = _with_code(at_home(inputs.spec, home), stored=stored)
    if backends.scheduler(inputs.site.scheduler.type).ON_THIS_MACHINE:
        raise Invalid(
            f"site `{inputs.site.name}` runs jobs on the submitting machine, but `{host}` is another",
            help="name a cluster's site with `--site`",
        )
    made = build_plan(
        replace(
            plan_inputs(inputs, spec, _working_directory(spec, home, directory)),
            after=dependencies(spec, inputs.site.scheduler.type, jobs.home(), host),
        ),
        {name: replace(role, spec=at_home(role.spec, home)) for name, role in inputs.roles.items()},
        lambda of_role: _working_directory(of_role, home, directory),
    )
    pulled = [role.name for role in made.each_role if source_of(role.plan) is not None]
    if pulled:
        raise Invalid(
            f"the image of role `{pulled[0]}` is pulled by the host that submits, and this one cannot send it to `{host}`",
            help=f"name a file on `{host}` (`apptainer pull` makes one there)",
        )
    return made


def wanted_snapshot(spec: Spec) -> Snapshot | None:
    """The snapshot that a spec asks for."""
    return Snapshot() if spec.code == "snapshot" else spec.code if isinstance(spec.code, Snapshot) else None


def _with_code(spec: Spec, *, stored: bool) -> Spec:
    """A spec without a snapshot if no file is stored.

    Raises Invalid for a snapshot, or a comparison, of a directory that only the login node has.
    """
    mode = "snapshot" if wanted_snapshot(spec) is not None else spec.code
    if mode not in ("snapshot", "strict"):
        return spec
    if spec.directory is not None and not spec.files:
        does = "store" if mode == "snapshot" else "compare"
        raise Invalid(
            f"`code: {mode}` cannot {does} `{spec.directory}`, which is on the login node",
            help="name the `files` to send: the job runs in a copy of them; or submit there",
        )
    return replace(spec, code="record") if mode == "snapshot" and not stored else spec


def _working_directory(spec: Spec, home: str, directory: str) -> str:
    """The working directory of the command: the sent files' copy, else the spec's `directory`."""
    if spec.directory is None or spec.files:
        return f"{directory}/{remote_files.FILES}"
    return spec.directory if spec.directory.startswith("/") else f"{home}/{spec.directory}"
