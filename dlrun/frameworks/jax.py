"""JAX: rendezvous through a coordinator in rank 0.

`jax.distributed.initialize` reads the coordinator's address from `JAX_COORDINATOR_ADDRESS`, but the number of processes and
the process id only from Slurm and Open MPI; elsewhere the program has to pass them (`{{ world_size }}` and `{{ rank }}`
in the command). As in JAX 0.10, `jax/_src/distributed.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlrun.frameworks import protocol
from dlrun.frameworks.common import defaults
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "jax"
TITLE = "JAX"
_READ = ("$SLURM_PROCID", "$OMPI_COMM_WORLD_RANK")
"""Variables from which JAX reads its process id (jax/_src/clusters: slurm_cluster.py, ompi_cluster.py)."""
ports = defaults.one_port
COMPILES = ("jax",)
_SOURCE = "JAX 0.10, jax/_src/distributed.py"


def roles(shape: Shape, command: Sequence[Text], options: defaults.NoOptions) -> Sequence[Role]:
    """One process per rank."""
    return (Role(name="rank", place="rank", argv=tuple(command), variables=coordinator(shape)),)


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: defaults.NoOptions,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """A warning if neither JAX (from the launcher) nor the command (by `{{ rank }}`) gets the process id."""
    reads_rank = shape.rank.code in _READ or protocol.RANK in (p for w in command for p in w.parts)
    if reads_rank or shape.world_size == 1:
        return ()
    problem = Problem(
        code="DLR038",
        message=f"JAX gets no process id from launcher `{shape.launcher}`, and the command does not pass `{{{{ rank }}}}`",
        help="add `--rank`, `{{ rank }}`, `--world`, `{{ world_size }}` to the command, for jax.distributed.initialize",
        warning=True,
    )
    return (problem,)


def coordinator(shape: Shape) -> tuple[Setting, ...]:
    """The coordinator's address, and without GPUs the library for collectives."""
    address = Text.of(protocol.MASTER_ADDR, ":", protocol.MASTER_PORT)
    rows: list[tuple[str, str | Text, str]] = [
        ("JAX_COORDINATOR_ADDRESS", address, "rank 0's node, by the site's address rule")
    ]
    if not shape.gpus_per_node:
        rows.append(("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo", "collectives between hosts without GPUs"))
    return defaults.settings(_SOURCE, rows)
