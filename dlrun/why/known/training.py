"""Errors of launchers of trainings and of libraries that share a training out: torchrun, DeepSpeed, Megatron, Lightning."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_TORCH = "https://github.com/pytorch/pytorch/blob/main/torch/distributed/"
_SPEED = "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="torchrun",
        source=_TORCH + "elastic/",
        forms=(
            Form(
                cause="rendezvous-closed",
                texts=("RendezvousClosedError", "The rendezvous '{1}' has been closed"),
                source=_TORCH + "elastic/rendezvous/dynamic_rendezvous.py",
                consequence=True,
            ),
            Form(
                cause="rendezvous",
                texts=(
                    "RendezvousTimeoutError",
                    "RendezvousConnectionError",
                    "The connection to the C10d store has failed",
                    "connect() timed out",
                    "RendezvousStateError",
                ),
                source=_TORCH + "elastic/rendezvous/api.py",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=(),
                regex=r"SignalException: Process \d+ got signal: 1\s*$|Received (?:(?:Signals\.)?SIGHUP|1) death signal",
                source="https://github.com/zai-org/ChatGLM2-6B/issues/238",
                means="the terminal or the ssh session from which it was started ended (SIGHUP)",
                check="whether it was started by hand, and when that session ended",
                next="start it as a job (`dlrun submit`); by hand in `tmux`, or with `nohup` and `disown`",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=(),
                regex=r"SignalException: Process \d+ got signal: 2\s*$|Received (?:(?:Signals\.)?SIGINT|2) death signal",
                source=_TORCH + "elastic/multiprocessing/api.py",
                means="it was interrupted (SIGINT): by Ctrl-C in its terminal, or by a signal that a user sent to the job",
                next="submit it again; to end a job use `dlrun cancel JOB`",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=(
                    "SignalException: Process {} got signal: {1}",
                    "lightning.{}.SIGTERMException",
                    "Signal 15 (SIGTERM) received by PID",
                    "exitcode : -15",
                    "died with <Signals.SIGTERM",
                ),
                regex=r"exitcode\s*: -15\b|Received (?:Signals\.)?SIGTERM(?:\.15)?,? (?:death signal|Sending process)",
                source=_TORCH + "elastic/multiprocessing/api.py",
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=("Signal 9 (SIGKILL) received by PID", "died with <Signals.SIGKILL"),
                regex=r"exitcode\s*: -9\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("Signal 11 (SIGSEGV) received by PID", "died with <Signals.SIGSEGV"),
                regex=r"exitcode\s*: -11\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("Signal 7 (SIGBUS) received by PID", "died with <Signals.SIGBUS"),
                regex=r"exitcode\s*: -7\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("Signal 6 (SIGABRT) received by PID", "died with <Signals.SIGABRT"),
                regex=r"exitcode\s*: -6\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="arithmetic",
                texts=("Signal 8 (SIGFPE) received by PID", "died with <Signals.SIGFPE"),
                regex=r"exitcode\s*: -8\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="illegal-instruction",
                texts=("Signal 4 (SIGILL) received by PID", "died with <Signals.SIGILL"),
                regex=r"exitcode\s*: -4\b",
                source=_TORCH + "elastic/multiprocessing/errors/__init__.py",
                consequence=True,
            ),
            Form(
                cause="ranks",
                texts=("unrecognized arguments: --local{}rank={1}",),
                source=_TORCH + "launch.py",
                means="the program does not know the option `--local-rank`, which the old torch launcher adds",
                next="read `LOCAL_RANK` from the environment in the program, or add the option to its parser",
            ),
        ),
    ),
    Writer(
        name="DeepSpeed, Megatron and Lightning",
        source="https://github.com/deepspeedai/DeepSpeed",
        forms=(
            Form(
                cause="killed",
                texts=("exits with return code = -9", "exits with return code = 137"),
                source=_SPEED + "launcher/launch.py",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("exits with return code = -11", "exits with return code = 139"),
                source=_SPEED + "launcher/launch.py",
                consequence=True,
            ),
            Form(
                cause="bus-error",
                texts=("exits with return code = -7",),
                source=_SPEED + "launcher/launch.py",
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("exits with return code = -6", "exits with return code = 134"),
                source=_SPEED + "launcher/launch.py",
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("exits with return code = -15", "exits with return code = 143"),
                source=_SPEED + "launcher/launch.py",
                consequence=True,
            ),
            Form(
                cause="illegal-instruction",
                texts=("exits with return code = -4",),
                source=_SPEED + "launcher/launch.py",
            ),
            Form(
                cause="ssh-connection",
                texts=(
                    "launcher 'pdsh' not installed",
                    "Using hostfile={} but host={1} was not reachable via ssh",
                    "was not reachable via ssh",
                ),
                source=_SPEED + "launcher/runner.py",
                means="DeepSpeed's own launcher could not reach the nodes",
                next="let dlrun start the ranks (`framework: deepspeed`) instead of the `deepspeed` command",
            ),
            Form(
                cause="configuration",
                texts=(
                    "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size {1}",
                    "DeepSpeedConfigError: {1}",
                    "deepspeed.runtime.config_utils.{1}",
                    "MisconfigurationException: {1}",
                    "pydantic_core._pydantic_core.ValidationError: {1}",
                    "ValidationError: {1} validation error",
                    "omegaconf.errors.{1}",
                    "hydra.errors.{1}",
                    "Could not override '{1}'",
                    "Key '{1}' is not in struct",
                ),
                source=_SPEED + "runtime/config.py",
                passing=True,
            ),
            Form(
                cause="ranks",
                texts=(
                    "world size ({1}) is not divisible by",
                    "world_size ({1}) is not divisible by",
                    "is not divisible by tensor_model_parallel_size",
                    "is not divisible by pipeline",
                    "is not divisible by data parallel size",
                    "should be divisible by world size",
                    "must be divisible by world_size",
                    "You set `--nodes={}` in Lightning, but",
                    "does not match the number of processes launched",
                    "perhaps you have fewer shards than workers",
                ),
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/parallel_state.py",
            ),
            Form(
                cause="not-a-number",
                texts=(
                    "Current loss scale already at minimum - cannot decrease scale anymore",
                    "loss scale already at minimum",
                    "found NaN in local grad norm",
                    "found Inf in local grad norm",
                    "Rank {}: found NaN in",
                    "Anomaly detected: {}nan",
                    "returned nan values in its",
                ),
                regex=r"(?i)\b(?:loss|gradient|grad_norm)\b.{0,30}\b(?:is|became|=|:)\s*(?:nan|inf)\b|FloatingPointError|NaN or Inf found",
                source=_SPEED + "runtime/fp16/loss_scaler.py",
                passing=True,
            ),
            Form(
                cause="checkpoint-mismatch",
                texts=("Loading a checkpoint for MP={} but world size is {1}",),
                source="https://github.com/meta-llama/llama/issues/551",
                means="the checkpoint was written for another number of ranks",
                next="start as many ranks as the checkpoint has parts (`resources.nodes`, `ranks_per_node`), or convert it",
            ),
            Form(
                cause="ranks",
                texts=(),
                regex=r"(?i)((?:global[ _]batch[ _]size|batch[ _]size|world[ _]?size|num(?:ber)?[ _]?(?:of[ _])?(?:gpus|processes|ranks|heads|attention heads|layers|experts)|(?:tensor|pipeline|context|expert|data|model)[ _-](?:model[ _-])?parallel)[^.]{0,80}(?:not divisible|must be divisible|should be divisible|must be a multiple|does not match|is not equal to|must equal|not a multiple)[^.]{0,80})",
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
            ),
            Form(
                cause="ranks",
                texts=(),
                regex=r"(?:AssertionError|ValueError|RuntimeError): (.*\b(?i:(?:un)?expected|wrong|mismatch\w*|differs?)\b"
                r"(?:\W+(?i:\d+|the|an?|of|in|ranks?|processes|tasks|gpus|but|got|found)\b)*"
                r"\W+(?i:world[ _]?size|number of (?:mpi )?(?:ranks|processes|tasks))\b.*)",
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
            ),
            Form(
                cause="ranks",
                texts=(),
                regex=r"(?:AssertionError|ValueError|RuntimeError): (.*divisible by (?:the )?(?:number of |num_)?(?:tensor|pipeline|context|expert|data|model|sequence|world|(?i:gpus|ranks|processes|devices))\b.*)",
                source="https://github.com/verl-project/verl/issues/3296",
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"(?:AssertionError|ValueError): (.*\b(?:(?i:divisible by|multiple of|parallelism|(?:tensor|pipeline|sequence|context|expert|data)[ _-](?:model[ _-])?parallel\w*|(?:micro|global)[ _-]?batch\w*|gradient[ _]accumulation\w*|seq(?:uence)?[ _-]len\w*)|ZeRO)\b.*)",
                source="https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
                means="settings of the program do not fit one another, or the number of ranks: {1}",
                passing=True,
            ),
            Form(
                cause="ranks",
                texts=(
                    "You set `devices={}` in Lightning, but",
                    "You set `num_nodes={}` in Lightning, but",
                    "number of tasks per node configured in SLURM {1}",
                    "number of nodes configured in SLURM {1}",
                ),
                source="https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/plugins/environments/slurm.py",
            ),
            Form(
                cause="configuration",
                texts=(
                    "disagreement between rank0 and rank{}",
                    "invalid ZeRO stage",
                    "DeepSpeed {} requires {1}",
                    "ZeRO-{} is not supported {1}",
                ),
                source="https://github.com/deepspeedai/DeepSpeed/issues/5799",
                passing=True,
            ),
        ),
    ),
)
