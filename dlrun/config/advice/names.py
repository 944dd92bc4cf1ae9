"""Names of other programs in a spec, and what to write for them: keys of dlrun, or where the thing itself belongs."""

# ruff: noqa: E501 - tables, with one help line an entry
from __future__ import annotations

import re
from collections.abc import Mapping

RESOURCE_KEYS: Mapping[str, str] = {
    "queue": "partition", "project": "account", "time": "walltime", "mem": "memory_per_node", "ntasks": "ranks",
    "ntasks_per_node": "ranks_per_node", "tasks_per_node": "ranks_per_node", "nproc_per_node": "ranks_per_node",
    "ppn": "ranks_per_node", "cpus_per_task": "cpus_per_rank", "nodelist": "hosts", "gres": "gpus_per_node",
}  # fmt: skip
"""Option of sbatch, qsub or torchrun (with `_` for `-`) -> the corresponding key of `resources`."""

FOREIGN_NAMES = {
    **RESOURCE_KEYS,
    "time_limit": "walltime", "duration": "walltime", "gpus": "gpus_per_node", "memory": "memory_per_node",
    "tasks": "ranks", "workers": "ranks", "feature": "constraint", "env": "variables", "cmd": "command",
    "script": "command", "run": "command", "job_name": "name", "datasets": "data", "dependency": "after",
    "depends": "after", "array": "sweep", "image": "container", "workdir": "directory", "chdir": "directory",
    "virtualenv": "venv", "torchrun": "agent", "horovodrun": "agent", "launch": "agent",
    "gpu": "gpus_per_node", "ngpus": "gpus_per_node", "num_gpus": "gpus_per_node", "n_gpus": "gpus_per_node",
    "gpu_count": "gpus_per_node", "gpus_per_task": "gpus_per_node", "gpus_per_rank": "gpus_per_node",
    "num_gpus_per_node": "gpus_per_node", "gpu_per_node": "gpus_per_node", "accelerators": "gpus_per_node",
    "devices": "gpus_per_node",
    "cpus": "cpus_per_rank", "num_cpus": "cpus_per_rank", "ncpus": "cpus_per_rank", "cores": "cpus_per_rank",
    "cpus_per_gpu": "cpus_per_rank", "cores_per_rank": "cpus_per_rank", "cores_per_task": "cpus_per_rank",
    "num_nodes": "nodes", "nnodes": "nodes", "node_count": "nodes", "nprocs": "ranks", "world_size": "ranks", "np": "ranks",
    "num_processes": "ranks", "num_tasks": "ranks", "n_tasks": "ranks",
    "procs_per_node": "ranks_per_node", "processes_per_node": "ranks_per_node",
    "ram": "memory_per_node", "mem_per_node": "memory_per_node", "memory_gb": "memory_per_node", "wall_time": "walltime",
    "timeout": "walltime", "max_time": "walltime", "timelimit": "walltime", "wall": "walltime", "allocation": "account",
    "wckey": "account", "quality_of_service": "qos", "features": "constraint", "entrypoint": "command", "entry_point": "command",
    "args": "command", "cwd": "directory", "working_directory": "directory", "work_dir": "directory", "working_dir": "directory",
    "retries": "requeue", "max_restarts": "requeue", "restarts": "requeue", "max_retries": "requeue", "checkpoints": "checkpoint",
    "ckpt": "checkpoint", "dataset": "data", "params": "sweep", "parameters": "sweep",
    "hyperparameters": "sweep", "grid_search": "sweep",
    "env_vars": "variables", "envvars": "variables", "environment_variables": "variables", "cluster": "site", "system": "site",
    "backend": "framework", "singularity": "container", "apptainer": "container", "docker": "container", "conda_env": "conda",
    "virtual_env": "venv", "module": "modules", "depends_on": "after", "docker_image": "container",
    "per_rank_batch": "batch_per_rank", "program": "command", "executable": "command", "num_machines": "nodes", "machines": "nodes",
    "select": "nodes", "node": "nodes", "hours": "walltime", "disk": "node_local", "tmp": "node_local", "tmpdir": "node_local",
    "scratch": "node_local", "local_storage": "node_local", "gpu_model": "gpu_type", "gpu_kind": "gpu_type", "gpu_name": "gpu_type",
    "before_script": "setup", "pre_commands": "setup", "prologue": "setup", "setup_commands": "setup", "init": "setup",
    "num_spares": "spare_nodes", "spares": "spare_nodes", "cpu_bind": "bind", "gpu_bind": "bind", "binding": "bind",
    "hyperthreading": "smt", "type": "name", "kind": "name", "hyperthreads": "smt", "numa": "bind", "loader_workers": "loader_cores",
}  # fmt: skip
"""Names in schedulers and other launchers -> keys of dlrun."""

_MAIL = "for mail write options of the scheduler: `resources: {options: {mail-type: END, mail-user: …}}` (docs/guide/mail.md)"
_BATCH = "`batch_per_rank` times the number of ranks is the global batch, `{{ global_batch }}` in the command"
_GPUS = "each rank gets one GPU: `gpus_per_node` is their number on a node, and `ranks_per_node: auto` one rank for each"
_OWN = "the training program has its own options: write it as an argument of `command`"
_LOADERS = "workers of a data loader are an option of the program: write it as an argument of `command`; ranks are `resources.ranks_per_node`"
_LOGS = "each job has a directory of its own with a log of each rank: `dlrun logs JOB` shows them"
_PORT = "remove it: when the job starts, dlrun takes a port that is free and the address of rank 0, which all ranks get"
_NOTE = "a spec has no such key: write a comment, `# …`"
_BEGIN = "write an option of the scheduler: `resources: {options: {begin: …}}` (sbatch), `{a: …}` (qsub)"
_PACKAGES = (
    "dlrun installs nothing: `venv:`, `conda:`, `modules:` or `container:` names an environment that exists"
)
_PRIORITY = (
    "a priority is given by `qos:` or `partition:`, or by options of the scheduler: `options: {priority: …}`"
)
_TRACKER = (
    "`track: wandb` (mlflow, tensorboard) names the run; its project and settings are the program's own, or variables under "
    "`environment.variables`, and its key belongs under `secrets:`"
)
_OF_ROLES = (
    "a key of one of several programs of a job: `roles: {NAME: {command: […], …}}` (docs/guide/roles.md)"
)
_SECTION = "write what the job requests under `resources:`; an option that has no key there: `resources: {options: {NAME: VALUE}}`"
_ADVICE = {
    **dict.fromkeys(("slurm", "sbatch", "pbs", "torque", "qsub", "sge", "lsf", "scheduler", "scheduler_options", "slurm_options", "sbatch_options",
                     "slurm_args", "sbatch_args", "extra_args", "native_args", "additional_parameters"), _SECTION),
    **dict.fromkeys(("mail", "email", "mail_type", "mail_user", "notify", "notifications", "notification"), _MAIL),
    **dict.fromkeys(("batch", "batchsize", "batch_size", "global_batch", "globalbatch", "global_batchsize", "global_batch_size",
                     "train_batch_size", "micro_batch_size", "per_device_train_batch_size", "batch_size_per_gpu"), _BATCH),
    **dict.fromkeys(("lr", "learning_rate", "epochs", "num_epochs", "seed", "optimizer", "model", "max_steps", "precision", "mixed_precision",
                     "strategy", "bf16", "fp16", "gradient_accumulation_steps", "steps", "config"), _OWN),
    **dict.fromkeys(("num_workers", "dataloader_num_workers", "workers_per_gpu"), _LOADERS),
    **dict.fromkeys(("output", "error", "log", "log_file", "logfile", "log_dir", "stdout", "stderr", "output_dir"), _LOGS),
    **dict.fromkeys(("needs", "ready", "ends", "beside"), _OF_ROLES),
    **dict.fromkeys(("port", "master_port", "master_addr", "main_process_port", "main_process_ip", "rdzv_backend", "rdzv_endpoint",
                     "rdzv_id", "rendezvous_endpoint", "node_rank", "machine_rank", "coordinator_address"), _PORT),
    **dict.fromkeys(("description", "comment", "notes", "tags", "labels", "version", "author"), _NOTE),
    **dict.fromkeys(("begin", "start", "start_time", "schedule"), _BEGIN),
    **dict.fromkeys(("pip", "requirements", "packages", "dependencies", "python", "python_version", "conda_packages"), _PACKAGES),
    **dict.fromkeys(("priority", "nice"), _PRIORITY),
    **dict.fromkeys(("wandb", "mlflow", "tensorboard", "logging", "tracking"), _TRACKER),
    **dict.fromkeys(("gpus_per_rank", "gpus_per_task", "gpu_per_rank", "gpu_per_task"), _GPUS),
}  # fmt: skip
"""Name that is not a key -> the help line for it."""

TOPOLOGY_NAMES = {
    "queues": "partitions",
    "sockets": "packages", "threads": "smt", "threads_per_core": "smt", "hyperthreads": "smt", "cores_per_socket": "cores",
    "cores_per_package": "cores", "numa": "numa_per_package", "numa_nodes": "numa_per_package",
}  # fmt: skip
"""Names in Slurm, lscpu and hwloc -> keys of a node's topology."""

_KEEPS = "the program saves by itself; dlrun signals it before the walltime: `{signal: USR1, before_end: 5m, path: …}`"
_AT = {
    "data": {
        **dict.fromkeys(("path", "src", "file", "dir", "directory", "url", "location", "from", "root"), "source"),
        **dict.fromkeys(("stage", "copy", "staged", "node_local"), "`strategy: copy` copies it to each node, `in_place` reads it where it is"),
        **dict.fromkeys(("dest", "destination", "target", "to"), "dlrun chooses the place: `{{ data.NAME }}` in the command is the path on the node"),
    },
    "results": {**dict.fromkeys(("path", "dir", "directory", "dest", "destination", "target"), "to")},
    "checkpoint": {
        **dict.fromkeys(("dir", "directory", "file", "folder", "output"), "path"),
        **dict.fromkeys(("before", "grace", "time", "seconds"), "before_end"),
        **dict.fromkeys(("every", "interval", "frequency", "period", "steps"), _KEEPS),
    },
    "environment": {**dict.fromkeys(("docker", "image", "singularity", "apptainer"), "container")},
}  # fmt: skip
"""First key of a path -> name below it -> a key there, or a help line (with a space)."""


_OF_FRAMEWORKS = (
    ("torch", ("backend",), 'the program chooses it: `init_process_group("nccl")`, or `gloo` on CPUs'),
    ("accelerate", ("config", "config_file"), "write `agent: true` and `agent_arguments: [--config_file, …]`"),
    ("accelerate", ("mixed_precision",), "the program chooses it: `Accelerator(mixed_precision=…)`"),
    ("deepspeed", ("config", "config_file"), "an argument of the program: `command: [python, train.py, --deepspeed_config, …]`"),
    ("lightning", ("devices", "num_nodes", "strategy"),
     "an argument of the program's `Trainer`: pass `{{ ranks_per_node }}` and `{{ nodes }}` in the command (docs/frameworks/lightning.md)"),
    ("ray", ("num_cpus", "num_gpus", "num_workers"), "Ray gets the cores and GPUs of `resources`; the number of workers is the program's"),
)  # fmt: skip
"""Framework, names under its key, and the help line for them."""


def meaning(name: str, path: tuple[str | int, ...]) -> str:
    """What an unknown name in a spec below `path` stands for: a key there (one word), a help line, or empty."""
    plain = re.sub(r"[-\s]+", "_", name.strip().lower())
    place = str(path[0]) if path else ""
    hint = _AT.get(place, {}).get(plain, "")
    hint = hint or next((line for of, names, line in _OF_FRAMEWORKS if of == place and plain in names), "")
    return hint or _ADVICE.get(plain, "")
