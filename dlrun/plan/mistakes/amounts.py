"""Amounts that fit their keys, but not one another or the program."""

from __future__ import annotations

from dlrun.model.plan import Binding
from dlrun.model.spec import Spec
from dlrun.model.text import digits
from dlrun.model.units import Bytes, many
from dlrun.plan.decisions import Ledger
from dlrun.plan.resources import Layout

_ONE_GPU_A_RANK = frozenset({"torch", "accelerate", "deepspeed", "horovod"})
"""Frameworks whose programs have one process for each GPU."""
_LEAST_MEMORY = 256 * 2**20
"""Bytes of a rank; `import torch` of PyTorch 2.13 for CPUs alone takes 227 MiB (getrusage, ru_maxrss)."""
_LEAST_HANG = 60
"""Seconds; imports from a shared file system and the compilation of a model are silent for longer."""


def check(spec: Spec, layout: Layout, binding: Binding, ledger: Ledger) -> None:
    """Add a problem for each such amount."""
    _hang(spec, layout, ledger)
    _memory(layout, ledger)
    _threads(spec, layout, binding, ledger)
    _gpus(spec, layout, ledger)


def _hang(spec: Spec, layout: Layout, ledger: Ledger) -> None:
    if spec.hang is None:
        return
    if layout.walltime is not None and spec.hang >= layout.walltime:
        ledger.problem(
            "DLR132", f"`hang: {spec.hang}` is not shorter than the walltime, {layout.walltime}, so no hang is found", "hang",
            help="write a time in which a training that works writes something, such as `10m`", warning=True,
        )  # fmt: skip
    elif spec.hang < _LEAST_HANG:
        ledger.problem(
            "DLR132", f"after `hang: {spec.hang}` without output and CPU use the job is ended", "hang",
            help="compilers and file systems sometimes take longer: write at least `2m`", warning=True,
        )  # fmt: skip


def _memory(layout: Layout, ledger: Ledger) -> None:
    if isinstance(layout.memory, Bytes) and layout.memory < _LEAST_MEMORY * layout.ranks_per_node:
        ledger.problem(
            "DLR132", f"{layout.memory} of memory for {many(layout.ranks_per_node, 'rank')}: importing PyTorch alone takes "
            "about 230MiB in each", "resources.memory_per_node", help="is it `GiB` that is meant?", warning=True,
        )  # fmt: skip


def _threads(spec: Spec, layout: Layout, binding: Binding, ledger: Ledger) -> None:
    """Compare `OMP_NUM_THREADS` with the hardware threads of a rank."""
    text = spec.environment.variables.get("OMP_NUM_THREADS", "")
    if not digits(text):
        return
    if binding.placement is not None:
        most = max(len(rank.mask) for rank in binding.placement.ranks)
    elif layout.topology is not None:
        most = max(1, len(layout.topology.cores) // layout.ranks_per_node)
    else:
        return
    if int(text) > most:
        ledger.problem(
            "DLR132", f"`OMP_NUM_THREADS: {text}` is more than the {most} cores of a rank, so threads wait for each other",
            "environment.variables.OMP_NUM_THREADS", help="remove it: dlrun sets one thread for each core", warning=True,
        )  # fmt: skip


def _gpus(spec: Spec, layout: Layout, ledger: Ledger) -> None:
    """Ranks with several GPUs, which programs of these frameworks do not use."""
    each = layout.gpus_per_node // layout.ranks_per_node
    if (
        layout.ranks_per_node == 1
        and spec.framework in _ONE_GPU_A_RANK
        and each > 1
        and ledger.given("resources.ranks_per_node")
    ):
        ledger.problem(
            "DLR103", f"each rank has {each} GPUs, but a program with `{spec.framework}` uses one in each process",
            "resources.ranks_per_node",
            help="write `ranks_per_node: auto` for one rank on each GPU, unless the program divides its model among several",
            warning=True,
        )  # fmt: skip
