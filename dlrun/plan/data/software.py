"""The venv, image and snapshot of a job as data sets: copied to node-local storage, like all data, before the ranks start."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from dlrun.model.data import CodeMode, ResultsPlan, Snapshot
from dlrun.model.plan import DataPlan, Plan
from dlrun.model.program import Container
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import Shell, Text
from dlrun.model.units import Duration
from dlrun.plan.decisions import Ledger

ENVIRONMENT = "environment"
"""Name of the staged venv among the data sets of a node."""
IMAGE = "image"
"""The begin of the name of a staged image there: each image has its own, so that jobs with several of them keep all."""
CODE = "code"
"""Name of the staged snapshot there, before that of the run."""
_KEY = "environment.stage"
_BEFORE_END = 60
"""Seconds for what was written beside staged code, at most a tenth of the walltime."""


def image_name(path: str) -> str:
    """The name of an image among the data sets of a node; path: of its file."""
    return f"{IMAGE}-{sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def code_of(spec: Spec) -> CodeMode | Snapshot:
    """The key `code`, with a snapshot as its options."""
    return Snapshot() if spec.code == "snapshot" else spec.code


def anchored(spec: Spec, directory: str) -> Spec:
    """The spec, with absolute paths of data and results where commands run in a snapshot, not in `directory`."""
    if not isinstance(code_of(spec), Snapshot):
        return spec

    def at(path: str) -> str:
        return path if path.startswith(("~", "$")) or "://" in path else posixpath.join(directory, path)

    data = {name: replace(data_set, source=at(data_set.source)) for name, data_set in spec.data.items()}
    results = spec.results and replace(spec.results, to=at(spec.results.to))
    return replace(spec, data=data, results=results)


def place_software(spec: Spec, site: Site, data: Sequence[DataPlan], ledger: Ledger) -> DataPlan | None:
    """The venv or the container's image as a data set, with `environment.stage`, or an image where the site wants it."""
    wanted = spec.environment
    if wanted.stage or (wanted.stage is None and _is_default(spec, site)):
        if wanted.venv is not None and wanted.container is None:
            return _placed(
                ENVIRONMENT, wanted.venv, who="Python imports", spec=spec, site=site, data=data, ledger=ledger
            )
        if wanted.container is not None and _can_be_staged(wanted.container, ledger):
            image = wanted.container.image
            return _placed(
                image_name(image),
                image,
                who="ranks read the image",
                spec=spec,
                site=site,
                data=data,
                ledger=ledger,
            )
        if wanted.container is None:
            ledger.problem(
                "DLR092",
                "`stage: true` needs a venv or a container, but the spec sets none",
                _KEY,
                help="set it with `venv:` or `container:`; conda environments cannot be staged",
            )
    return None


def results_of_code(walltime: Duration | None) -> ResultsPlan:
    """The copy of what the program writes beside its staged code, without `results`: code is small, and so is the time for it."""
    seconds = _BEFORE_END if walltime is None else max(1, min(_BEFORE_END, int(walltime) // 10))
    return ResultsPlan(to="", when="always", before_end=Duration(seconds))


def stages_code(plan: Plan) -> bool:
    """Whether the ranks of a plan run in copies of the submitted code on their nodes."""
    return any(data_set.is_code and data_set.strategy != "in_place" for data_set in plan.data)


def place_code(spec: Spec, site: Site, data: Sequence[DataPlan], ledger: Ledger) -> DataPlan | None:
    """The run's copy of the snapshot as a data set, with `code: {stage: true}`."""
    if not isinstance(spec.code, Snapshot) or not spec.code.stage:
        return None
    variable = "DLRUN_DATA_CODE"
    _check_free(variable, "snapshot", data, ledger)
    because = _local("code.stage", "Python imports", "", site, ledger)
    if because is None:
        return None
    return DataPlan(
        name=CODE,
        source="",
        strategy="copy",
        path=Text.of(Shell("$DLRUN_WORK")),
        because=because,
        variable=variable,
        fallback=True,
        is_code=True,
    )


def _is_default(spec: Spec, site: Site) -> bool:
    """Whether the site stages the image of a job whose spec leaves that open."""
    local, container = site.storage.node_local, spec.environment.container
    if local is None or not local.images or container is None or spec.sweep.nodes is not None:
        return False
    sized = any("{gb}" in text for text in (local.request or "", *local.lines))
    return _why_not(container) is None and not (sized and spec.resources.node_local is None)


def _can_be_staged(container: Container, ledger: Ledger) -> bool:
    why = _why_not(container)
    if why is not None:
        ledger.problem(
            "DLR092",
            f"`{container.image}` cannot be staged: {why[0]}",
            _KEY,
            "environment.container",
            help=why[1],
        )
    return why is None


def _why_not(container: Container) -> tuple[str, str] | None:
    """Why an image is not a file when the job starts, and the way out; None if it is one."""
    named = "://" in container.image or "#" in container.image
    if container.runtime == "enroot" and (named or not container.image.startswith(("/", "~", "."))):
        return (
            "pyxis imports it on each node by itself",
            "remove `stage: true`, or name a file (`enroot import`)",
        )
    return None


def _placed(
    name: str, source: str, who: str, spec: Spec, site: Site, data: Sequence[DataPlan], ledger: Ledger
) -> DataPlan | None:
    variable = f"DLRUN_DATA_{name.partition('-')[0].upper()}"
    _check_free(variable, "venv" if name == ENVIRONMENT else "image", data, ledger)
    default = "" if spec.environment.stage else " (`storage.node_local.images` of the site profile)"
    because = _local(_KEY, who, default, site, ledger)
    if because is None:
        return None
    return DataPlan(
        name=name,
        source=source,
        strategy="copy",
        path=Text.of(Shell(f"${variable}")),
        because=because,
        variable=variable,
        # Later jobs use the same venv or image, and copy only files that changed.
        keep="cache",
        fallback=True,
    )


def _check_free(variable: str, what: str, data: Sequence[DataPlan], ledger: Ledger) -> None:
    """Add a problem if a data set of the spec has the variable of what is staged."""
    if taken := next((data_set.name for data_set in data if data_set.variable == variable), None):
        ledger.problem(
            "DLR092",
            f"`{taken}` is reserved for the staged {what}",
            f"data.{taken}",
            help="give the data set another name",
        )


def _local(key: str, who: str, default: str, site: Site, ledger: Ledger) -> str | None:
    """Decide whether it is staged, which needs node-local storage: the reason; None if it is not."""
    there = site.storage.node_local is not None
    because = (
        f"{who} from node-local storage, which relieves the shared file system{default}"
        if there
        else "there is no node-local storage in the site profile"
    )
    ledger.decide(key, "copy" if there else "in_place", "staging", because, origin=ledger.origin(key))
    return because if there else None
