"""Hydra's launcher `dlrun`: a multirun is one sweep, and the launcher's configuration has the keys of a spec.

Hydra imports this module in each of its programs, also where the launcher is not used: dlrun's interface is imported at launch.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from dlrun.config.hints import keys
from dlrun.model.spec import Spec

_OF_THE_POINTS = ("run", "sweep.list", "sweep.zip", "sweep.grid")
"""Keys of a spec that follow from the overrides."""
_NOT_FOR_RUNS = ("hydra/launcher", "hydra.launcher", "hydra.mode", "hydra.sweep.dir", "hydra.run.dir")
"""Overrides for the multirun as a whole."""

log = logging.getLogger(__name__)


def _configuration(schema: type, above: str, *more: tuple[str, Any, Any]) -> type:
    """A structured config with the keys of a schema, all unset."""
    made = list(more)
    for name, key in keys(schema).items():
        path = f"{above}{name}"
        if path in _OF_THE_POINTS:
            continue
        if key.hint.schema is not None and not key.hint.words and not key.hint.items:
            nested = _configuration(key.hint.schema, f"{path}.")
            made.append((name, nested, field(default_factory=nested)))
        else:
            made.append((name, Any, None))
    return make_dataclass(schema.__name__, made)


class DlrunLauncher(Launcher):
    """Submits the runs of a multirun as the points of one sweep, and waits for their end."""

    def __init__(self, spec: str | None = None, wait: bool = True, **settings: Any) -> None:
        self._file = spec
        self._wait = wait
        self._settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra's call before the first launch."""
        self._config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submit one job with a point for each list of overrides; what it returns are the metrics of the spec."""
        from dlrun.errors import DlrunError
        from dlrun.model.problem import InvalidFile
        from dlrun.terminal.diagnostics import report

        try:
            return self._launch(job_overrides, initial_job_idx)
        except InvalidFile as error:
            raise CompactHydraException(report(error)) from error
        except DlrunError as error:
            raise CompactHydraException(error.message + (f"; {error.help}" if error.help else "")) from error

    def _launch(self, runs: Sequence[Sequence[str]], first: int) -> list[JobReturn]:
        from dlrun import api
        from dlrun.api import overrides

        words, points = overrides.sweep(runs, first)
        given = overrides.spec(self._settings, self._command(words), points)
        if self._file is None:
            given = {"name": self._config.hydra.job.name, **given}
        if "submitit" in sys.modules:  # the program asks it for its job
            self._add_submitit(given)
        job = api.submit(given) if self._file is None else api.submit(Path(self._file), **given)
        log.info("job %s with %d runs: %s", job.id, len(points), job.directory)
        returned = [JobReturn(overrides=filter_overrides(run), status=JobStatus.COMPLETED) for run in runs]
        if self._wait:
            job.wait()
            for number, (one, result) in enumerate(zip(returned, job.results(), strict=True)):
                self._add(one, result, f"`dlrun why {job.directory.name}:{number}`")
        return returned

    def _add_submitit(self, given: dict[str, Any]) -> None:
        """Add the variables by which `submitit.JobEnvironment` finds a job."""
        from dlrun import api, backends
        from dlrun.api import overrides

        planned = api.plan(given) if self._file is None else api.plan(Path(self._file), **given)
        allocation = backends.scheduler(planned.inputs.site.scheduler.type).ALLOCATION
        of_slurm = allocation is not None and allocation.job_id == "SLURM_JOB_ID"
        environment = given.setdefault("environment", {})
        environment["variables"] = {
            **overrides.submitit_variables(of_slurm=of_slurm),
            **(environment.get("variables") or {}),
        }

    def _add(self, run: JobReturn, result: dict[str, Any], cause: str) -> None:
        """Add the end of a run to what Hydra gets of it."""
        if result["state"] == "completed":
            found = [result.get(name) for name in self._settings.get("metrics") or ()]
            run.return_value = found[0] if len(found) == 1 else found or None
            return
        run.status = JobStatus.FAILED
        run.return_value = CompactHydraException(f"the run is {result['state']}; {cause} finds the cause")

    def _command(self, words: Sequence[str]) -> list[str]:
        """The command of all points: the program, its configuration, and the overrides."""
        from dlrun.api import overrides
        from dlrun.plan.command.command_line import literal

        hydra = self._config.hydra
        for_all = [
            word
            for word in OmegaConf.to_container(hydra.overrides.hydra)
            if not word.lstrip("+~").startswith(_NOT_FOR_RUNS)
        ]
        directory = str(Path(hydra.sweep.dir).absolute()).replace("\\", "\\\\").replace("'", "\\'")
        program = self._settings.get("command") or map(literal, self._program())
        number = f"{{{{ {overrides.NUMBER} }}}}"
        return [
            *program,
            *map(literal, overrides.configuration_options(sys.argv[1:])),
            *words,
            *map(literal, for_all),
            "hydra.mode=RUN",
            f"hydra.job.num={number}",
            f"hydra.job.id={number}",
            literal(f"hydra.sweep.dir='{directory}'"),
            "hydra.run.dir=${hydra.sweep.dir}/${hydra.sweep.subdir}",
        ]

    def _program(self) -> list[str]:
        """The running program; where the job sets up an environment of its own, with that environment's Python."""
        chosen = self._settings.get("environment") or {}
        own = any(chosen.get(name) for name in ("modules", "venv", "conda", "setup"))
        own = own or bool((chosen.get("container") or {}).get("image"))
        python = "python" if own or self._file is not None else sys.executable
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        if main is not None:
            return [python, "-m", main.name.removesuffix(".__main__")]
        return [python, sys.argv[0]]


ConfigStore.instance().store(
    group="hydra/launcher",
    name="dlrun",
    node=_configuration(
        Spec,
        "",
        ("_target_", str, f"{__name__}.{DlrunLauncher.__name__}"),
        ("_convert_", str, "all"),
        ("_recursive_", bool, False),
        ("spec", Any, None),
        ("wait", bool, True),
    ),
    provider="dlrun",
)
