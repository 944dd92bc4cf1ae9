"""Plan copies of data sets to this machine, to the nodes of this allocation, or by a separate job.

All three use the plan that a training job would have for the same data sets, and the same node program.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dlrun.errors import Invalid
from dlrun.jobs.hubs import needed as hubs
from dlrun.jobs.records.jobs import base_for
from dlrun.jobs.submission.prepare import prepare, spec_inputs
from dlrun.model.data import DataSet, NodeLocal, is_hub
from dlrun.model.hostlist import expand
from dlrun.model.keys import DATA_NAME
from dlrun.model.placement import PlacementOptions
from dlrun.model.plan import Plan
from dlrun.model.problem import InvalidFile
from dlrun.model.program import Environment
from dlrun.model.spec import OnFailure, Resources, Spec, Sweep
from dlrun.model.text import Shell, Text, digits, expanding
from dlrun.model.units import Bytes
from dlrun.plan.data.sets import is_fetched, secrets_of, unsupported
from dlrun.plan.data.strategy import GIVEN
from dlrun.system import paths
from dlrun.system.inputs.profiles import Machine, load_site, recognise
from dlrun.system.inputs.spec import Inputs
from dlrun.system.writing import write_below

SPECS = (".yaml", ".yml")
_VARIABLE = re.compile(r"\$\{?(\w+)")
_KEY = re.compile(r"`strategy: (\w+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingRequest:
    """The arguments of a user: `what` is one spec, or sources; other values override those of the data sets."""

    what: tuple[str, ...]
    name: str | None = None
    to: str | None = None
    nodes: str | None = None
    strategy: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rate: str | None = None
    low_priority: bool = False
    verify: bool = False
    unpack: bool = False
    recheck: str | None = None
    quota: str | None = None
    site: str | None = None
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingJob:
    """The plan of a job that only stages, its inputs, and the staging directory on a node."""

    plan: Plan
    inputs: Inputs
    directory: Text


def staging(asked: StagingRequest, *, nodes: int | None) -> StagingJob:
    """Plan a staging request for `nodes` nodes (None: `--nodes`, else the spec's).

    Raises InvalidFile for an invalid spec or site, Invalid for other invalid arguments.
    """
    with tempfile.TemporaryDirectory(prefix="dlrun-stage-") as scratch:
        path = _spec_file(asked, Path(scratch))
        inputs = spec_inputs(path, sets=asked.sets, site=asked.site)
        if not inputs.spec.data:
            raise Invalid(
                f"`{path}` has no data sets",
                help="add them under `data:`, or name a source instead of a spec",
            )
        inputs = replace(inputs, spec=_only_data(inputs.spec, asked, nodes), site=inputs.site)
        inputs = _with_storage(inputs, asked)
        try:
            plan = prepare(path, inputs=inputs).plan
        except InvalidFile as error:
            if path.parent != Path(scratch):
                raise
            raise _as_typed(error) from None
    if asked.strategy:
        because = [data.because.replace(GIVEN, "from `--strategy`", 1) for data in plan.data]
        sets_ = zip(plan.data, because, strict=True)
        plan = replace(plan, data=tuple(replace(data, because=reason) for data, reason in sets_))
    directory = Text.of(expanding(asked.to)) if asked.to else plan.stage_directory
    if directory is None:  # all data sets are read in place
        directory = Text.of("")
    return StagingJob(plan=replace(plan, stage_directory=directory if plan.stage_directory else None), inputs=inputs,
                   directory=directory)  # fmt: skip


def with_hubs(staging: StagingJob, notice: Callable[[str], None]) -> StagingJob:
    """The same with what comes from a hub in the store, for a copy that is made without a job; raises like a submission."""
    base = base_for(staging.inputs.site).absolute()
    return replace(staging, plan=hubs.fetched(staging.plan, base, base / "job", notice))


def _as_typed(error: InvalidFile) -> InvalidFile:
    """The errors of a generated spec without their places in it, and with options instead of its keys."""
    return InvalidFile([
        replace(problem, origin=None, message=_KEY.sub(r"`--strategy \1`", problem.message),
                help=_KEY.sub(r"`--strategy \1`", problem.help))
        for problem in error.problems if not problem.warning
    ])  # fmt: skip


def _spec_file(asked: StagingRequest, scratch: Path) -> Path:
    """The user's spec, or a new one for the sources; raises Invalid."""
    specs = [word for word in asked.what if word.endswith(SPECS)]
    if specs and len(asked.what) > 1:
        raise Invalid(
            "name either one spec or sources", help=f"`{specs[0]}` is read as a spec because of its name"
        )
    if specs:
        if asked.name is not None:
            raise Invalid("--name applies to a source", help="data sets of a spec have their names there")
        return Path(specs[0])
    if asked.name is not None and not re.fullmatch(DATA_NAME, asked.name):
        raise Invalid(
            f"--name: `{asked.name}` cannot name a data set",
            help="a name has letters, digits and `_`, at most 128, and does not begin with a digit",
        )
    if asked.name is not None and len(asked.what) > 1:
        raise Invalid("--name applies to one source", help="stage them one by one, or from a spec")
    data: dict[str, object] = {}
    for source in asked.what:
        if not source.strip():
            raise Invalid("a source is empty", help="name a directory, a file, a glob or a URL")
        name = (
            _name(source.partition("@")[0] if is_hub(source) else source)
            if asked.name is None
            else asked.name
        )
        if name in data:
            raise Invalid(f"two sources would both be `{name}`", help="stage them one by one with --name")
        if not is_hub(source) and (way_out := unsupported(source)) is not None:
            raise Invalid(f"`{source}` is not on a file system that is mounted here", help=way_out)
        if is_fetched(source) or is_hub(source):
            data[name] = {"source": source}
            continue
        path = paths.working_directory() / paths.expanded(source)
        if paths.fault(path) and not set("*?[") & set(source) and not paths.fault(Path(*path.parts[:2])):
            raise Invalid(f"the source `{source}` does not exist", help=f"looked for `{path}`")
        data[name] = {"source": str(path)}
    content = {"name": "stage-data", "framework": "torch", "command": ["true"], "data": data}
    return write_below(scratch, "stage-data.yaml", json.dumps(content))


def _name(source: str) -> str:
    """The name of a source's data set: the last component of its path without wildcards."""
    parts = [part for part in Path(source).parts if not set("*?[") & set(part)]
    name = re.sub(r"\W", "_", Path(*parts).name if parts else "", flags=re.ASCII) or "data"
    return (f"_{name}" if digits(name[0]) else name)[:128]


def _only_data(spec: Spec, asked: StagingRequest, nodes: int | None) -> Spec:
    """The spec of a job with only the data sets and resources."""
    over: dict[str, object] = {"start": None}  # no training waits for the data
    if asked.strategy:
        over["strategy"] = asked.strategy
    if asked.include:
        over["include"] = asked.include
    if asked.exclude:
        over["exclude"] = asked.exclude
    if asked.recheck:
        over["recheck"] = asked.recheck
    if asked.rate:
        over["rate"] = _size("--rate", asked.rate)
    over |= {key: True for key in ("low_priority", "verify", "unpack") if getattr(asked, key)}
    data: dict[str, DataSet] = {
        name: replace(data_set, keep="cache", **over)  # type: ignore[arg-type]
        for name, data_set in spec.data.items()
    }
    names = {name for data_set in spec.data.values() for name in secrets_of(data_set, spec)}
    used = {name: secret for name, secret in spec.secrets.items() if name in names}
    return replace(
        spec,
        name=spec.name if spec.name.startswith("stage-") else f"stage-{spec.name}"[:128],
        command=("true",), framework="torch", launcher=spec.launcher, options={}, data=data,
        resources=_resources(spec.resources, asked, nodes),
        placement=PlacementOptions(), environment=Environment(), sweep=Sweep(), checkpoint=None, chain=False,
        on_failure=OnFailure(), after=(), hold=False, secrets=used, metrics={}, verify="off", fabric_check="off",
        usage=False, track=(), code="off",
    )  # fmt: skip


def _size(option: str, text: str) -> Bytes:
    try:
        size = Bytes.parse(text)
    except ValueError as error:
        raise Invalid(f"{option}: {error}", help=f"expected {Bytes.expected}") from None
    if not size:
        raise Invalid(f"{option}: `{text}` is too little; it must be more than zero")
    return size


def _resources(wanted: Resources, asked: StagingRequest, nodes: int | None) -> Resources:
    hosts = wanted.hosts
    if nodes is None:
        nodes = wanted.nodes
        if asked.nodes and digits(asked.nodes):
            nodes, hosts = int(asked.nodes), ()
        elif asked.nodes:
            try:
                hosts = expand(asked.nodes)
            except ValueError as error:
                raise Invalid(f"--nodes: {error}", help="a number, or hosts such as `n[01-04],n07`") from None
            nodes = len(hosts)
    if nodes < 1:
        raise Invalid("--nodes must be at least 1")
    return replace(
        wanted,
        nodes=nodes,
        hosts=hosts,
        ranks_per_node=1,
        ranks="auto",
        cpus_per_rank="auto",
        gpus_per_node="auto",
    )


def _with_storage(inputs: Inputs, asked: StagingRequest) -> Inputs:
    """The inputs with the directory of `--to` as node-local storage, and the quota of `--quota`; raises Invalid."""
    site = inputs.site
    if asked.to is None:
        if site.storage.node_local is None:
            raise Invalid(
                f"site `{site.name}` has no node-local storage",
                help="set the directory with --to",
            )
        local = site.storage.node_local
    elif not Path(os.path.expandvars(asked.to)).is_absolute():
        raise Invalid(f"--to `{asked.to}` is not an absolute path", help="`$NAME` in it expands on the node")
    else:
        known = site.storage.node_local
        local = NodeLocal(
            path=asked.to, size=known.size if known and asked.to.startswith(known.path) else None
        )
    if asked.quota:
        local = replace(local, quota=_size("--quota", asked.quota))
    site = replace(site, storage=replace(site.storage, node_local=local))
    return replace(inputs, site=site, loaded=replace(inputs.loaded, site=site))


def expanded(directory: Text) -> str:
    """A node's directory expanded on this machine, with the user name of the uid, as in job scripts (`USER` may differ)."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = os.environ.get("USER") or str(os.geteuid())
    return os.path.expandvars(str(directory).replace("$DLRUN_USER", user))


def expanded_here(directory: Text) -> str:
    """A node's directory expanded on this machine; raises Invalid if that needs a variable which is not set here."""
    names = [
        name for part in directory.parts if isinstance(part, Shell) for name in _VARIABLE.findall(part.code)
    ]
    unset = [name for name in names if name not in os.environ and name != "DLRUN_USER"]
    if unset:
        raise Invalid(
            f"`${unset[0]}` in the staging directory `{directory}` is not set on this machine",
            help="set it, or name the directory with --to",
        )
    return expanded(directory)


def here(asked: StagingRequest) -> str:
    """The staging directory on this machine, for `--list`, `--evict` and `--clean`; raises Invalid without one."""
    if asked.to is not None:
        return expanded_here(Text.of(expanding(asked.to)))
    name, because = (asked.site, "named by you") if asked.site else recognise(Machine())
    site = load_site(os.environ.get("DLRUN_SITE", name) if not asked.site else name, because=because).site
    if site.storage.node_local is None:
        raise Invalid(f"site `{site.name}` has no node-local storage", help="set the directory with --to")
    return expanded_here(Text.of(expanding(site.storage.node_local.path), "/dlrun-$DLRUN_USER"))
