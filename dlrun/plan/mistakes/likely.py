"""Warnings for valid specs that are probably not what the user meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from dlrun.model.keys import paths
from dlrun.model.plan import Binding
from dlrun.model.site import Site
from dlrun.model.spec import Spec
from dlrun.model.text import lazy_pattern
from dlrun.plan.command.command_line import RESERVED
from dlrun.plan.command.expressions import outside
from dlrun.plan.decisions import Ledger
from dlrun.plan.mistakes import (
    amounts,
    arguments,
    hosts,
    placeholders,
    programs,
    scheduler_options,
    sweeps,
    variable_values,
)
from dlrun.plan.resources import Layout, gpus_of_node

_SHELLS = lazy_pattern(r"(?:.*/)?(?:ba|z|k|da)?sh")
_EXPANDED = lazy_pattern(r"\$\{?([A-Za-z_]\w*)|(?:^|=)(~)(?:/|$)|(\$\([^)]*\)?|`[^`]+`)")
_VARIABLE = lazy_pattern(r"\$\{?([A-Za-z_]\w*)\}?")
_OPERATORS = lazy_pattern(r"\|\|?|&&?|;|[12]?>>?(?!=).*|&>.*|<(?!.*>).*|2>&1")
"""Words that are pipes, lists and redirections to a shell, also with an attached file (`>log`)."""

_PLAIN_FORMS = {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2013": "--", "\u2014": "--"}
_TYPOGRAPHIC = lazy_pattern(
    "(?:^|[\\s=])[\u201c\u201d\u2018\u2019]|[\u201c\u201d\u2018\u2019](?=\\s|$)|(?:^|\\s)[\u2013\u2014](?=\\w)"
)
"""Typographic quotes at either end of a word, and an en or em dash at its beginning."""

_GPU_PARTITION = lazy_pattern(r"gpu|cuda|[vahb][12]00|dgx|mi[123]\d\d|gh200", re.IGNORECASE)
"""Typical names of GPU partitions."""
_AS_TEXT = "write it as shell text under `run:` instead of `command:`"
_AS_LINE = "set it in a shell line under `environment:`"
_LONGEST = 60
"""Maximum length of a value in a message."""


def check(
    spec: Spec,
    site: Site,
    layout: Layout,
    binding: Binding,
    points: Sequence[Mapping[str, str]],
    ledger: Ledger,
) -> None:
    """Add a warning for each likely mistake, at its key."""
    placeholders.check(spec, ledger)
    arguments.check(spec, points, ledger)
    programs.check(spec, ledger)
    scheduler_options.check(spec, site, ledger)
    variable_values.check(spec, ledger)
    hosts.check(spec, layout, ledger)
    _modules(spec, ledger)
    _shell_text(spec, set(points[0]) if points else set(), ledger)
    _typography(spec, ledger)
    sweeps.check(spec, points, ledger)
    _two_environments(spec, ledger)
    _idle_gpus(layout, ledger)
    _cores(spec, layout, binding, ledger)
    _crowded(layout, ledger)
    _decimal_memory(spec, ledger)
    amounts.check(spec, layout, binding, ledger)


def _shell_text(spec: Spec, parameters: Collection[str], ledger: Ledger) -> None:
    """Warn of shell syntax in values that no shell reads."""
    if not _SHELLS.fullmatch(spec.command[0]):
        for index, word in enumerate(spec.command):
            what = f"`{word}`" if _OPERATORS.fullmatch(word) else next(_expansions(word), None)
            if what is not None:
                _warn_unread(
                    ledger,
                    f"{what} is passed to the program unchanged: no shell reads `command`",
                    f"command.{index}",
                    _rewritten(word, parameters),
                )
    for name, value in spec.environment.variables.items():
        if (what := next(_expansions(value), None)) is not None:
            way_out = f"{_AS_LINE}: `setup: ['export {name}=…']`"
            # Only the name of the variable is shown, because the rest of a value may be confidential.
            if variable := re.fullmatch(r"`(?:\$(\w+)|~)`", what):
                way_out = f"write `{{{{ {_of_plan(variable[1] or 'HOME')} }}}}` in its place, or {way_out}"
            _warn_unread(
                ledger,
                f"{what} in variable `{name}` is set unchanged: no shell reads `environment.variables`",
                f"environment.variables.{name}",
                way_out,
            )
    for place, path in paths(spec):
        if (what := next(_expansions(path), None)) not in (None, "`~`"):
            _warn_unread(
                ledger,
                f"{what} in the path is not expanded: no shell reads it",
                place,
                "write the path out; only `~` and `$HOME` at its beginning are replaced",
            )


def _typography(spec: Spec, ledger: Ledger) -> None:
    """Warn of typographic quotes and dashes in the command, as copied from a PDF file or word processor."""
    places = (
        {"run": spec.run}
        if spec.run is not None
        else {f"command.{index}": word for index, word in enumerate(spec.command)}
    )
    if (match := _TYPOGRAPHIC.search(spec.name)) is not None:
        ledger.problem(
            "DLR112",
            f"`{match[0].strip()}` is a typographic character, and a part of the name",
            "name",
            help="leave it out: a name needs no quotes",
            warning=True,
        )
    for place, text in places.items():
        if (match := _TYPOGRAPHIC.search(text)) is not None:
            plain = _PLAIN_FORMS[match[0].strip()]
            ledger.problem(
                "DLR112",
                f"`{match[0].strip()}` is a typographic character, which is passed to the program unchanged",
                place,
                "command",
                help=f"write `{plain}` in its place",
                warning=True,
            )
            return


def _warn_unread(ledger: Ledger, message: str, place: str, way_out: str) -> None:
    ledger.problem("DLR100", message, place, place.rpartition(".")[0], help=way_out, warning=True)


_PLANNED = {
    "WORLD_SIZE": "world_size", "SLURM_NTASKS": "world_size", "SLURM_NPROCS": "world_size", "OMPI_COMM_WORLD_SIZE": "world_size",
    "PMI_SIZE": "world_size", "RANK": "rank", "SLURM_PROCID": "rank", "OMPI_COMM_WORLD_RANK": "rank", "PMI_RANK": "rank",
    "PMIX_RANK": "rank", "LOCAL_RANK": "local_rank", "SLURM_LOCALID": "local_rank", "OMPI_COMM_WORLD_LOCAL_RANK": "local_rank",
    "MPI_LOCALRANKID": "local_rank", "GROUP_RANK": "node_rank", "NODE_RANK": "node_rank", "SLURM_NODEID": "node_rank",
    "LOCAL_WORLD_SIZE": "ranks_per_node", "SLURM_NTASKS_PER_NODE": "ranks_per_node", "NPROC_PER_NODE": "ranks_per_node",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "ranks_per_node", "NNODES": "nodes", "NUM_NODES": "nodes", "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes", "GPUS_PER_NODE": "gpus_per_node", "SLURM_GPUS_ON_NODE": "gpus_per_node",
    "OMP_NUM_THREADS": "threads", "HOSTNAME": "host", "SLURMD_NODENAME": "host",
}  # fmt: skip
"""Variable of a launcher or of torchrun -> the value of the plan that it has; the value is there under any launcher."""


def _of_plan(variable: str, parameters: Collection[str] = ()) -> str:
    """The name in `{{ }}` for a variable of the shell: a parameter of the sweep, a value of the plan, or the node's variable."""
    if variable in parameters:
        return variable
    return _PLANNED.get(variable) or (variable if variable in RESERVED else f"env.{variable}")


def _rewritten(text: str, parameters: Collection[str]) -> str:
    """The help for a text with shell expansions."""
    if (home := re.search(r"(?:^|=)(?=~(?:/|$))", text)) is not None:
        written = f"{text[: home.end()]}{{{{ env.HOME }}}}{text[home.end() + 1 :]}"
    else:
        written = _VARIABLE.sub(lambda match: f"{{{{ {_of_plan(match[1], parameters)} }}}}", text)
    if written == text or len(written) > _LONGEST or set("$`'\"") & set(written):
        return _AS_TEXT
    expanded = ", which is expanded on the node" if "{{ env." in written else ""
    return f"write `{written}`{expanded}, or {_AS_TEXT}"


def _expansions(text: str) -> Iterator[str]:
    """The shell expansions in a text, in backticks; `{{ }}` are not shell text."""
    for match in _EXPANDED.finditer(outside(text)):
        yield f"`${match[1]}`" if match[1] else f"`{match[2] or match[3].strip('`')}`"


def _modules(spec: Spec, ledger: Ledger) -> None:
    stems: dict[str, str] = {}
    for index, name in enumerate(spec.environment.modules):
        words = [
            word
            for word in re.split(r"[\s,;]+", name)
            if word and word not in ("module", "load", "add", "ml")
        ]
        key = f"environment.modules.{index}"
        way_out, warning = f"write `modules: [{', '.join(words)}]`", False
        if words == ["purge"]:
            message, way_out = "`module purge` is not a module", "write `hygiene: purge` under `environment:`"
        elif words != [name]:
            message = f"`{name}` is loaded as one module"
        elif "==" in name:
            message, way_out = f"`{name}` is not the name of a module", f"write `{name.replace('==', '/')}`"
        elif (first := stems.get(stem := re.sub(r"/v?\d[^/]*$", "", name))) is not None:
            message, way_out, warning = (
                f"modules `{first}` and `{name}` are two versions of one",
                "remove one of them",
                True,
            )
        else:
            stems[stem] = name
            continue
        ledger.problem("DLR127", message, key, "environment.modules", help=way_out, warning=warning)


def _two_environments(spec: Spec, ledger: Ledger) -> None:
    if spec.environment.venv and spec.environment.conda:
        ledger.problem(
            "DLR102",
            f"both conda environment `{spec.environment.conda}` and venv `{spec.environment.venv}` are activated",
            "environment.venv",
            help="the venv is activated last, so its Python is used: remove the other one",
            warning=True,
        )


def _idle_gpus(layout: Layout, ledger: Ledger) -> None:
    gpus = gpus_of_node(layout.topology, layout.node_type)
    if layout.gpus_per_node:
        return
    if gpus and layout.exclusive:
        message = f"the job gets whole nodes with {gpus} GPUs, but requests none of them"
        way_out = f"set `gpus_per_node: {gpus}` (or `auto`), or use a partition without GPUs"
    elif gpus is None and _GPU_PARTITION.search(layout.partition_name or ""):
        message = f"partition `{layout.partition_name}` seems to have GPUs, but the job requests none"
        way_out = (
            "set `gpus_per_node`: the site profile does not describe these nodes, so `auto` means no GPUs"
        )
    else:
        return
    ledger.problem(
        "DLR103",
        message,
        "resources.gpus_per_node",
        "resources.partition",
        "resources",
        help=way_out,
        warning=True,
    )


def _crowded(layout: Layout, ledger: Ledger) -> None:
    cores = len(layout.topology.cores) if layout.topology else 0
    if cores and layout.ranks_per_node > cores:
        ledger.problem(
            "DLR106",
            f"{layout.ranks_per_node} ranks share the {cores} cores of a node, so they wait for each other",
            "resources.ranks_per_node",
            "resources.ranks",
            "resources",
            help=f"use at most {cores} ranks per node, or more nodes",
            warning=True,
        )


def _decimal_memory(spec: Spec, ledger: Ledger) -> None:
    """`200GB` is 200 × 10⁹ bytes; `--mem=200G` and PBS's `mem=200gb` are 200 × 2³⁰."""
    wanted = spec.resources.memory_per_node
    if isinstance(wanted, str) or wanted % 10**9 or not ledger.given("resources.memory_per_node"):
        return
    ledger.problem(
        "DLR107",
        f"`{wanted // 10**9}GB` is {wanted // 2**20} MiB: the scheduler counts in units of 1,024",
        "resources.memory_per_node",
        help=f"write `{wanted // 10**9}GiB` for what `{wanted // 10**9}G` means to the scheduler",
        warning=True,
    )


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
