"""What tests of frameworks share: shapes, roles as plain data, and `rank.sh` run as one process would be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from dlrun import backends
from dlrun.frameworks.protocol import Shape
from dlrun.model.observed import Installed
from dlrun.model.placement import RankPlacement
from dlrun.model.text import Text
from tests.making import plan_of, write_job

COMMAND = (Text.of("python"), Text.of("train.py"))
SSH = "name: hosts\nscheduler: {type: openpbs}\nlauncher: {name: ssh}\n"


RUN = f"{os.getpid()}.0"
"""The id of the run: by it a rank ends what it has started, and nothing of a test in another process."""


def shape(**changes) -> Shape:
    usual = {
        "nodes": 2, "ranks_per_node": 2, "world_size": 4, "gpus_per_node": 0, "threads": 8,
        "ranks": (), "interface": None, "fabric": None, "launcher": "ssh", "scheduler": "openpbs",
    }  # fmt: skip
    usual |= changes
    launcher = backends.launcher(usual["launcher"])
    return Shape(**{"mpi": launcher.MPI, "rank": launcher.IDENTITY.rank} | usual)


def placed(*comm: tuple[int, ...], cores=((0, 1), (4, 5)), siblings=()) -> tuple[RankPlacement, ...]:
    """The placement of ranks with these communication cores."""
    pairs = enumerate(zip(comm, cores, strict=False))
    return tuple(
        RankPlacement(
            rank=rank,
            threads=len(own),
            cores=own,
            mask=own,
            comm=for_comm,
            comm_siblings=siblings[rank] if siblings else tuple(() for _ in for_comm),
        )
        for rank, (for_comm, own) in pairs
    )


def roles(framework, options=None, command=COMMAND, **changes) -> dict[str, object]:
    framework = backends.completed("framework", framework)
    found = framework.roles(shape(**changes), command, options or framework.Options())
    return {role.name: role for role in found}


def told(role) -> dict[str, str]:
    assert all(s.because for s in role.variables)
    return {s.name: str(Text.of(s.value)) for s in role.variables}


def words(texts) -> str:
    return " ".join(map(str, texts))


def problems(framework, options=None, *, packages=None, locks=(), variables=None, command=COMMAND, **changes):
    """The codes of what a framework has against a job, with `!` where it only warns."""
    framework = backends.completed("framework", framework)
    found = framework.problems(
        shape(**changes),
        command,
        options or framework.Options(),
        variables or {},
        Installed(packages=packages, locks=locks),
    )
    assert all(problem.message and problem.help for problem in found)
    return [problem.code + "!" * problem.warning for problem in found]


def run_process(
    place: Path, spec: str, role: str, rank: int, *, hosts=("n1", "n2"), site: str = SSH, more=None
) -> str:
    """What process `rank` of a role prints when `rank.sh` of a spec is run, here, for it, with `more` variables."""
    plan = plan_of(place, spec, site, directory=str(place))
    write_job(plan, place)
    for name in ("logs", "failures", "ended"):
        (place / name).mkdir(exist_ok=True)
    (place / "hosts").write_text("".join(f"{host}\n" for host in hosts))
    per_node = next(r.per_node for r in plan.roles if r.name == role)
    environment = {
        "DLRUN_JOB_DIR": str(place),
        "DLRUN_RUN_DIR": str(place),
        "DLRUN_RUN_ID": RUN,
        "DLRUN_HOSTS": str(place / "hosts"),
        "DLRUN_NODES": str(len(hosts)),
        "DLRUN_MASTER_ADDR": "n1",
        "DLRUN_MASTER_IP": "10.0.0.1",
        "DLRUN_MASTER_PORT": "20000",
        **dict.fromkeys(("DLRUN_RANK", "PMI_RANK"), str(rank)),
        **dict.fromkeys(("DLRUN_LOCAL_RANK", "MPI_LOCALRANKID"), str(rank % per_node)),
        "PATH": os.environ["PATH"],
        **(more or {}),
    }
    done = subprocess.run(
        ["bash", place / "rank.sh", role], env=environment, cwd=place, check=False, timeout=120
    )
    printed = (place / "logs" / f"{role}-{rank}.log").read_text()
    assert done.returncode == 0, printed
    return printed


def only(number: int) -> int:
    """Seconds to sleep for a process that is then looked for by its command line: no other test's sleep as long."""
    return int(f"{number}{os.getpid():07d}")
