"""Which rows run for real, how each is started, and whether it belongs to every run or to the full one."""

from __future__ import annotations

from dataclasses import dataclass

from tests.frameworks.install import SLOW

SSH = "{name: ssh}"
SRUN = "{name: srun}"
OPENMPI = "{name: openmpi, program: mpirun.openmpi}"
MPICH = "{name: hydra, program: /usr/bin/mpiexec.hydra, arguments: [-launcher, ssh]}"
INTELMPI = "{name: intelmpi, arguments: [-bootstrap, ssh]}"
INTELMPI_HERE = 'environment.setup=["export I_MPI_ROOT=$VIRTUAL_ENV LD_LIBRARY_PATH=$VIRTUAL_ENV/lib"]'
LINKS_HERE = 'environment.setup=["export LD_LIBRARY_PATH=$VIRTUAL_ENV/links"]'
MPICH_HERE = 'environment.setup=["export LD_LIBRARY_PATH=$VIRTUAL_ENV/links MPI4PY_MPIABI=mpich"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One real run on two hosts.

    `row` names the environment, `example` the directory of the example. `role` are the processes that train,
    `world` how many of them say who they are (0: one driver does not). `replicas` is false where parameters
    may differ. `victim` is the process that is killed in the middle, None where that would show nothing new.
    `says` is a line that process 0 of the role must print.
    """

    row: str
    name: str = ""
    example: str = ""
    launcher: str = SSH
    sets: tuple[str, ...] = ()
    role: str = "rank"
    world: int = 2
    replicas: bool = True
    victim: tuple[str, int] | None = ("rank", 1)
    seconds: float = 360
    says: str = ""

    @property
    def id(self) -> str:
        """Its name in test reports."""
        return self.name or self.row

    @property
    def slow(self) -> bool:
        """Whether the row takes minutes to install."""
        return self.row in SLOW


CASES = (
    Case(row="torch"),
    Case(name="torch-slurm", row="torch", example="torch", launcher=SRUN),
    Case(
        name="torchrun-static",
        row="torch",
        example="torch",
        sets=("torch.agent=true", "resources.ranks_per_node=2"),
        role="agent",
        world=4,
        victim=("agent", 1),
    ),
    Case(
        name="torchrun-c10d",
        row="torch",
        example="torch",
        sets=("torch.agent=true", "torch.rendezvous=c10d"),
        role="agent",
        victim=None,
    ),
    Case(
        name="horovod-gloo",
        row="horovod",
        sets=("resources.ranks_per_node=2", "resources.ranks=3"),
        world=3,
    ),
    Case(name="horovod-slurm", row="horovod", example="horovod", launcher=SRUN),
    Case(name="horovod-mpi", row="horovod", launcher=OPENMPI),
    Case(name="horovodrun", row="horovod", example="horovod", sets=("horovod.agent=true",)),
    Case(name="mpi-openmpi", row="mpi", launcher=OPENMPI),
    Case(name="mpi-mpich", row="mpi", launcher=MPICH, sets=(MPICH_HERE,)),
    Case(name="mpi-intelmpi", row="intelmpi", example="mpi", launcher=INTELMPI, sets=(INTELMPI_HERE,)),
    Case(name="mxnet-sync", row="mxnet", role="worker", victim=("worker", 1)),
    Case(
        name="mxnet-slurm", row="mxnet", example="mxnet", launcher=SRUN, role="worker", victim=("server", 1)
    ),
    Case(
        name="mxnet-async",
        row="mxnet",
        launcher=OPENMPI,
        sets=("command+=--store", "command+=dist_async", "mxnet.servers_per_node=2"),
        role="worker",
        replicas=False,
        victim=("server", 0),
    ),
    Case(row="tensorflow"),
    Case(
        name="tensorflow-ps-slurm",
        row="tensorflow",
        example="tensorflow-ps",
        launcher=SRUN,
        role="chief",
        world=0,
        victim=None,
    ),
    Case(
        name="tensorflow-ps",
        row="tensorflow",
        example="tensorflow-ps",
        role="chief",
        world=0,
        victim=("ps", 1),
    ),
    Case(name="keras", row="tensorflow", example="keras"),
    Case(row="chainermn", launcher=OPENMPI),
    Case(row="paddle"),
    Case(
        name="paddle-launch",
        row="paddle",
        example="paddle",
        sets=("paddle.agent=true",),
        role="agent",
        victim=("agent", 1),
    ),
    Case(row="jax"),
    Case(row="deepspeed"),
    Case(
        name="deepspeed-launcher",
        row="deepspeed",
        example="deepspeed",
        sets=("deepspeed.agent=true", "resources.ranks_per_node=2", "resources.ranks=3"),
        role="agent",
        world=3,
        victim=("agent", 1),
    ),
    Case(row="accelerate"),
    Case(
        name="accelerate-launch",
        row="accelerate",
        example="accelerate",
        sets=("accelerate.agent=true", "resources.ranks_per_node=2"),
        role="agent",
        world=4,
        victim=("agent", 1),
    ),
    Case(row="lightning"),
    Case(row="cntk", launcher=OPENMPI, sets=(LINKS_HERE,)),
    Case(row="mesh_tensorflow", role="driver", world=0, victim=("server", 1)),
    Case(row="ray", role="driver", victim=("node", 0), seconds=480),
    Case(
        name="ray-tune",
        row="ray",
        example="ray",
        sets=("command=[python, examples/ray/tune.py, --cpus, 2]",),
        role="driver",
        world=4,
        replicas=False,
        victim=None,
        seconds=480,
        says="nodes: n1 n2",
    ),
    Case(row="spark", role="driver", world=0, victim=("worker", 1), seconds=480),
    Case(row="h2o", role="driver", world=0, victim=("node", 1), seconds=480),
)
"""Every real run; the first of each row also shows how it dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standin:
    """One row: the environment that the stand-in runs in, its launcher, and what the example's command becomes."""

    row: str
    venv: str = "mpi"
    launcher: str = OPENMPI
    command: str = ""
    role: str = "rank"
    world: int = 2
    setup: str = ""
    slow: bool = False


STANDINS = (
    Standin(row="nvcaffe"),
    Standin(row="caffe_mpi"),
    Standin(row="torch_mpi"),
    Standin(
        row="theano_mpi",
        command='[python, -u, {0}/theano_worker.py, "cuda{{{{ local_rank }}}}", avg, nccl32, models, AlexNet]',
        world=4,
    ),
    Standin(row="ibm_ddl", command="[python, {0}/ddl_train.py]", world=4),
    Standin(
        row="caffe2",
        launcher=SSH,
        command="[python, {0}/caffe2_trainer.py, --train_data, null]",
        role="shard",
    ),
    *(
        Standin(
            row=row,
            venv="spark",
            launcher=SSH,
            command="[python, {0}/spark_app.py, {0}/../../../examples/spark/train.py, --workers, 2]",
            role="driver",
            world=0,
            slow=True,
        )
        for row in ("caffeonspark", "deeplearning4j")
    ),
)
"""Every run with a stand-in on small hosts; `{0}` in a command is where the stand-ins are."""

_INTEL_SETUP = INTELMPI_HERE.partition("[")[2].removesuffix("]")
_INTELCAFFE = Standin(row="intelcaffe", venv="intelmpi", launcher=INTELMPI, world=4, setup=_INTEL_SETUP)
_ONECCL = Standin(
    row="oneccl",
    venv="intelmpi",
    launcher=INTELMPI,
    command="[python, {0}/ccl_program.py]",
    world=4,
    setup=_INTEL_SETUP,
)
ON_BIG_HOSTS = (_INTELCAFFE, _ONECCL)
"""Those that need hosts of 2 × 24 cores."""
