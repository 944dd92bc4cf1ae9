"""Check for a launcher as the training command: every rank would start a launcher with further ranks."""

from __future__ import annotations

from collections.abc import Sequence

from dlrun.frameworks.common.agents import split_python
from dlrun.frameworks.protocol import Shape
from dlrun.model.problem import Problem
from dlrun.model.text import Text

_PROGRAMS = {
    "torchrun": "`torch: {agent: true}` starts it, once per node",
    "horovodrun": "`horovod: {agent: true}` starts it, once",
    "deepspeed": "`deepspeed: {agent: true}` starts it, once per node",
    "accelerate": "`accelerate: {agent: true}` starts it, once per node",
    "paddle.distributed.launch": "`paddle: {agent: true}` starts it, once per node",
    "ddlrun": "with `framework: ibm_ddl` it is not needed",
    "mpirun": "`launcher:` selects what starts the ranks",
    "mpiexec": "`launcher:` selects what starts the ranks",
    "mpiexec.hydra": "`launcher:` selects what starts the ranks",
    "srun": "`launcher:` selects what starts the ranks",
    "sbatch": "`dlrun init --from SCRIPT` converts a batch script, `after:` orders jobs",
    "qsub": "`dlrun init --from SCRIPT` converts a batch script, `after:` orders jobs",
    "salloc": "in an allocation, `dlrun run` starts the ranks",
    "ray": "with `framework: ray` dlrun starts Ray on all nodes",
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "horovod.runner.launch": "horovodrun",
    "deepspeed.launcher.runner": "deepspeed",
    "accelerate.commands.launch": "accelerate",
    "paddle.distributed.launch": "paddle.distributed.launch",
}

_SEPARATE = {"accelerate": "--cpu"}
"""Launcher -> its option with which each process trains a separate model."""
_SUBCOMMANDS = {"accelerate": ("launch",), "ray": ("start", "submit", "up")}
"""Launcher -> the subcommands that launch."""


def problems(shape: Shape, command: Sequence[Text]) -> Sequence[Problem]:
    """The problem of a command that is a launcher; a warning with one rank per node, where it can be intended."""
    words = [word.literal or "" for word in command]
    name = words[0].rpartition("/")[2]
    arguments = words[1:]
    parts = split_python(command)
    if parts.python is not None and len(parts.words) > 1 and parts.words[0].literal == "-m":
        name = _MODULES.get(parts.words[1].literal or "", "")
        arguments = [word.literal or "" for word in parts.words[2:]]
    if (alone := _SEPARATE.get(name)) and alone in _before_script(arguments):
        problem = Problem(
            code="DLR046",
            message="`accelerate launch --cpu` trains a separate model in each process, without a warning",
            help="use `framework: accelerate` with the program itself as the command: dlrun sets what Accelerator() reads",
        )
        return (problem,)
    # `accelerate config` and the like start no ranks.
    way_out = _PROGRAMS.get(name)
    launching = _SUBCOMMANDS.get(name)
    if way_out is None or (launching and words[0].endswith(name) and not set(launching) & set(words)):
        return ()
    problem = Problem(
        code="DLR042",
        message=f"the command starts `{name}`, but dlrun starts the command once per rank",
        help=f"give the training program itself; {way_out}",
        warning=shape.ranks_per_node == 1,
    )
    return (problem,)


def _before_script(arguments: Sequence[str]) -> Sequence[str]:
    """The launcher's own options: the words before the script."""
    script = next((n for n, word in enumerate(arguments) if word.endswith(".py")), len(arguments))
    return arguments[:script]
