"""The arguments of `dlrun_grant` (templates/lib/bind.sh): the placement of a whole node in one line."""

from __future__ import annotations

from dlrun.model.cpuset import format_list
from dlrun.model.placement import Placement


def grant_words(placement: Placement, variable: str | None) -> tuple[str, ...]:
    """Ranks, their hardware threads, the numbers of compute, communication and loader cores and threads of each; with GPUs also
    the variable that limits them (`variable`), the GPUs of all ranks in order, and the hardware threads next to each GPU."""
    ranks = placement.ranks
    cpus = {cpu for rank in ranks for cpu in (*rank.mask, *rank.comm, *rank.loader)}
    first = ranks[0]
    counts = (len(first.cores), len(first.comm), len(first.loader), first.threads)
    words = [str(len(ranks)), format_list(sorted(cpus)), *map(str, counts)]
    if variable and first.gpus:
        words += [variable, ",".join(str(gpu) for rank in ranks for gpu in rank.gpus)]
        words += placement.node.gpu_cpus
    return tuple(words)
