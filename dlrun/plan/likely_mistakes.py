"""Warnings for valid specs that are probably not what the user meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dlrun.model.plan import Binding
from dlrun.model.spec import Spec
from dlrun.plan.command.expressions import names, outside
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|k|da)?sh")
_EXPANDED = re.compile(r"\$\{?([A-Za-z_]\w*)|^(~)(?:/|$)")
_OPERATORS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"}


def check(
    spec: Spec, layout: Layout, binding: Binding, points: Sequence[Mapping[str, str]], ledger: Ledger
) -> None:
    """Warn of each likely mistake once, at the key where it stands."""
    _shell_text(spec, ledger)
    _unused_parameters(spec, points, ledger)
    _two_environments(spec, ledger)
    _idle_gpus(layout, ledger)
    _cores(spec, layout, binding, ledger)


def _shell_text(spec: Spec, ledger: Ledger) -> None:
    """Shell syntax in values that are not read by a shell."""
    if not _SHELLS.fullmatch(spec.command[0]):
        for index, word in enumerate(spec.command):
            what = f"`{word}`" if word in _OPERATORS else next(_expansions(word), None)
            if what is not None:
                ledger.problem(
                    "DLR100",
                    f"{what} reaches the program as it stands: no shell reads `command`",
                    f"command.{index}", "command",
                    help="write the command as shell text, under `run:` instead of `command:`",
                    warning=True,
                )  # fmt: skip
    for name, value in spec.environment.variables.items():
        what = next(_expansions(value), None)
        if what is not None:
            ledger.problem(
                "DLR100",
                f"{what} in variable `{name}` stays as it stands: no shell reads `environment.variables`",
                f"environment.variables.{name}",
                help=f"set it by a line of shell under `environment:`: `setup: ['export {name}=…']`",
                warning=True,
            )


def _expansions(text: str) -> Iterator[str]:
    """What a shell would expand in a text, in backticks; expressions of dlrun's own are not shell text."""
    for match in _EXPANDED.finditer(outside(text)):
        yield f"`${match[1]}`" if match[1] else "`~`"


def _unused_parameters(spec: Spec, points: Sequence[Mapping[str, str]], ledger: Ledger) -> None:
    if not points:
        return
    texts = (
        *spec.command,
        *spec.environment.variables.values(),
        spec.checkpoint.path or "" if spec.checkpoint else "",
    )
    used = {name.partition(".")[0] for text in texts for name in names(text)}
    for name in points[0]:
        if name not in used:
            ledger.problem(
                "DLR101",
                f"the command does not use the sweep parameter `{name}`, so its values make equal runs",
                f"sweep.{name}", f"sweep.grid.{name}", f"sweep.zip.{name}", f"sweep.list.0.{name}", "sweep",
                help=f"put `{{{{ {name} }}}}` into the command, or take the parameter out",
                warning=True,
            )  # fmt: skip


def _two_environments(spec: Spec, ledger: Ledger) -> None:
    if spec.environment.venv and spec.environment.conda:
        ledger.problem(
            "DLR102",
            f"both conda environment `{spec.environment.conda}` and venv `{spec.environment.venv}` are activated",
            "environment.venv",
            help="the venv is activated last and its Python is the one that runs: keep the one that you mean",
            warning=True,
        )


def _idle_gpus(layout: Layout, ledger: Ledger) -> None:
    gpus = len(layout.topology.gpus) if layout.topology else 0
    if gpus and not layout.gpus_per_node and layout.exclusive:
        ledger.problem(
            "DLR103",
            f"the job gets whole nodes with {gpus} GPUs and requests none of them",
            "resources.gpus_per_node", "resources.partition", "resources",
            help=f"set `gpus_per_node: {gpus}` (or `auto`), or use a partition without GPUs",
            warning=True,
        )  # fmt: skip


def _cores(spec: Spec, layout: Layout, binding: Binding, ledger: Ledger) -> None:
    wanted, placement = spec.resources.cpus_per_rank, binding.placement
    if wanted == "auto" or placement is None or layout.topology is None:
        return
    cores = [
        sum(bool(set(core.pus) & set(rank.mask)) for core in layout.topology.cores)
        for rank in placement.ranks
    ]
    if min(cores) != wanted:
        ledger.problem(
            "DLR104",
            f"`cpus_per_rank: {wanted}` is requested from the scheduler, but each rank is bound to {min(cores)} cores",
            "resources.cpus_per_rank",
            help="leave `cpus_per_rank` out where ranks are bound by the plan, or set `placement: {bind: job}`",
            warning=True,
        )
