"""The lines with `dlrun_grant` (templates/lib/bind.sh): the placement of a whole node, and the roles that share it."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.model.cpuset import format_list
from dlrun.model.placement import CpuShare, Placement
from dlrun.render.shell import join


def grant_lines(placement: Placement, variable: str | None, shares: Sequence[CpuShare]) -> str:
    """The call of `dlrun_grant`; after one of `dlrun_take_part` where roles share the node."""
    line = join(("dlrun_grant", *grant_words(placement, variable)))
    if not shares:
        return line
    own = next(place for place, share in enumerate(shares) if share.own)
    parts = (f"{share.ranks}:{share.cores}:{format_list(share.cpus)}" for share in shares)
    part = join(("dlrun_take_part", str(own), placement.node.kept_free or "", *parts))
    return f"{part} # the cores of this role among those of all on the node, which divide what was granted\n{line}"


def grant_words(placement: Placement, variable: str | None) -> tuple[str, ...]:
    """Ranks, their hardware threads (after a slash: those that no rank may have), the numbers of compute, communication and
    loader cores and threads of each; with GPUs also the variable that limits them (`variable`), the GPUs of all ranks in order,
    and the hardware threads next to each GPU."""
    ranks = placement.ranks
    first = ranks[0]
    counts = (len(first.cores), len(first.comm), len(first.loader), first.threads)
    kept = f"/{placement.node.kept_free}" if placement.node.kept_free else ""
    words = [str(len(ranks)), f"{format_list(placement.cpus())}{kept}", *map(str, counts)]
    if variable and first.gpus:
        words += [variable, ",".join(str(gpu) for rank in ranks for gpu in rank.gpus)]
        words += placement.node.gpu_cpus
    return tuple(words)
