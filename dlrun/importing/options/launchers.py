"""Options of launchers and agents, as data: what each takes, and what the import makes of it.

Sources: srun(1) of Slurm 25.05 and pyxis 0.20, mpirun(1) of Open MPI 4.1 and 5.0, mpiexec of MPICH 4, Intel MPI 2021 and PALS
1.4, aprun(1) of ALPS 6, flux-run(1) of Flux 0.88, jsrun(1) of IBM JSM 10.4, torchrun of PyTorch 2.9, horovodrun of Horovod 0.28,
deepspeed 0.17, apptainer-exec(1) of Apptainer 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.importing.options import Table, Takes, name_set


def _table(
    nothing: str = "", value: str = "", attached: str = "", pair: str = "", short: str = "", *,
    single_dash: bool = False, underscores: bool = False,
) -> Table:  # fmt: skip
    takes: dict[str, Takes] = {}
    for names, kind in (
        (nothing, Takes.NOTHING),
        (value, Takes.VALUE),
        (attached, Takes.ATTACHED),
        (pair, Takes.PAIR),
    ):
        takes |= dict.fromkeys(names.split(), kind)
    letters = dict(pair.split("=") for pair in short.split())
    return Table(takes, letters, single_dash=single_dash, underscores=underscores)


SRUN = _table(
    nothing="label unbuffered exact overlap no-kill quiet verbose overcommit oversubscribe multi-prog "
    "disable-status contiguous "
    "preserve-env spread-job use-min-nodes wait-all-nodes no-container-mount-home container-mount-home "
    "container-remap-root "
    "no-container-remap-root container-writable container-readonly no-container-entrypoint container-entrypoint "
    "interactive test-only whole",
    attached="exclusive kill-on-bad-exit pty immediate nice resv-ports unbuffered-output propagate",
    value="nodes ntasks ntasks-per-node cpus-per-task gpus gpus-per-node gpus-per-task gpus-per-socket gres "
    "gres-flags mem "
    "mem-per-cpu mem-per-gpu time partition account qos constraint nodelist exclude job-name output error input mpi "
    "distribution chdir cpu-bind mem-bind gpu-bind accel-bind hint jobid threads-per-core ntasks-per-gpu "
    "ntasks-per-socket "
    "ntasks-per-core cpus-per-gpu wait export relative het-group network signal reservation comment cpu-freq gpu-freq "
    "tres-per-task tres-bind cores-per-socket sockets-per-node extra-node-info open-mode bcast epilog prolog "
    "task-prolog "
    "task-epilog time-min tmp licenses mail-type mail-user dependency priority profile slurmd-debug compress "
    "wckey nodefile "
    "container-image container-mounts container-workdir container-name container-env container-save "
    "environment uenv view",
    short="N=nodes n=ntasks c=cpus-per-task G=gpus t=time p=partition A=account q=qos C=constraint w=nodelist "
    "x=exclude "
    "J=job-name o=output e=error i=input m=distribution D=chdir W=wait r=relative K=kill-on-bad-exit l=label "
    "u=unbuffered "
    "k=no-kill Q=quiet v=verbose O=overcommit s=oversubscribe X=disable-status E=preserve-env I=immediate "
    "B=extra-node-info "
    "L=licenses",
    underscores=True,  # the earlier spelling of some: `--cpu_bind`
)  # fmt: skip

MPI = _table(
    nothing="oversubscribe nooversubscribe allow-run-as-root bynode byslot bysocket bycore bind-to-core bind-to-socket "
    "bind-to-none report-bindings display-map display-allocation tag-output timestamp-output quiet q verbose v nolocal "
    "pernode use-hwthread-cpus rr l line-buffer no-transfer genvall envall genvnone rmk-none prepend-rank "
    "disable-hostname-propagation enable-x novm",
    value="np n c N ppn perhost npernode npersocket map-by bind-to rank-by x H host hosts hostfile "
    "machinefile machine f mca-param "
    "genvlist envlist prefix wdir wd path o outfile-pattern errfile-pattern pmi hosts-file cpu-bind depth d "
    "mem-bind gpu-bind cc j S "
    "iface bootstrap bootstrap-exec launcher rmk cpus-per-proc cpus-per-rank cpus-per-proc-list "
    "output-filename output timeout slot-list "
    "rankfile rf tune am display personality pe-list env-file topolib binding order label-io line-label "
    "ppn-list p hostlist runtime-options "
    "membind cpu-binding stdin",
    pair="mca gmca omca prtemca pmixmca genv env default-param",
    short="",
    single_dash=True,
)  # fmt: skip
"""mpirun and mpiexec of all MPIs. `env` is one word where it has `=`: `dlrun.importing.launch`."""

FLUX = _table(
    nothing="exclusive unbuffered label-io verbose dry-run debug quiet wrap",
    value="nodes ntasks cores-per-task cores gpus-per-task gpus tasks-per-node tasks-per-core time-limit "
    "setattr setopt env env-remove "
    "env-file rlimit output error input queue bank requires begin-time signal dependency cwd job-name urgency "
    "taskmap add-file "
    "gpus-per-node cores-per-node conf",
    short="N=nodes n=ntasks c=cores-per-task g=gpus-per-task q=queue B=bank t=time-limit o=setopt S=setattr "
    "l=label-io u=unbuffered "
    "v=verbose x=exclusive",
)  # fmt: skip

TORCHRUN = _table(
    nothing="standalone module no-python run-path use-env",
    value="nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval "
    "start-method role "
    "log-dir redirects tee local-ranks-filter node-rank master-addr master-port local-addr logs-specs "
    "event-log-handler "
    "numa-binding",
    short="m=module r=redirects t=tee",
    single_dash=True,
    underscores=True,
)  # fmt: skip

DEEPSPEED = _table(
    nothing="module no-python no-local-rank force-multi",
    value="num-gpus num-nodes master-port master-addr hostfile include exclude launcher",
    short="H=hostfile i=include e=exclude",
    underscores=True,
)

ACCELERATE = _table(
    nothing="multi-gpu cpu use-deepspeed use-fsdp use-megatron-lm same-network debug quiet module no-python "
    "tpu use-xpu",
    value="num-processes num-machines machine-rank main-process-ip main-process-port main-training-function "
    "mixed-precision config-file "
    "dynamo-backend dynamo-mode num-cpu-threads-per-process gradient-accumulation-steps gradient-clipping zero-stage "
    "offload-optimizer-device offload-param-device zero3-init-flag zero3-save-16bit-model deepspeed-config-file "
    "deepspeed-multinode-launcher deepspeed-hostfile gpu-ids rdzv-backend rdzv-conf max-restarts "
    "monitor-interval role tee "
    "fsdp-offload-params fsdp-sharding-strategy fsdp-auto-wrap-policy fsdp-transformer-layer-cls-to-wrap "
    "fsdp-state-dict-type "
    "fsdp-backward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading fsdp-sync-module-states fsdp-version "
    "fsdp-min-num-params fsdp-activation-checkpointing fsdp-reshard-after-forward "
    "deepspeed-moe-layer-cls-names log-dir",
    short="m=module",
    single_dash=True,
    underscores=True,
)  # fmt: skip

HOROVODRUN = _table(
    nothing="verbose mpi gloo mpi-auto tcp disable-cache",
    value="num-proc np hosts hostfile network-interface start-timeout timeline-filename fusion-threshold-mb "
    "cycle-time-ms ssh-port p "
    "output-filename log-level",
    short="H=hosts p=ssh-port",
    single_dash=True,
)

JSRUN = _table(
    value="n nrs tasks_per_rs a cpu_per_rs c gpu_per_rs g rs_per_host r np p bind b launch_distribution d "
    "latency_priority l env E "
    "smpiargs M stdio_stdout o stdio_stderr k stdio_mode e",
    single_dash=True,
)

PBSDSH = _table(nothing="o s v u E", value="c n h", single_dash=True)

LAUNCHERS: Mapping[str, Table] = {
    "srun": SRUN, **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "mpiexec.slurm", "orterun", "prun", "prterun"), MPI),
    "aprun": MPI, "ibrun": _table(value="n o", single_dash=True), "flux": FLUX, "jsrun": JSRUN,
}  # fmt: skip
"""Program that starts processes on nodes -> its options."""

COUNTS: Mapping[str, Mapping[str, str]] = {
    "srun": {"nodes": "nodes", "ntasks": "tasks", "ntasks-per-node": "tasks_per_node", "cpus-per-task": "cpus_per_task",
             "gpus-per-node": "gpus", "gpus-per-task": "gpus_per_task", "gpus": "all_gpus"},
    "flux": {"nodes": "nodes", "ntasks": "tasks", "tasks-per-node": "tasks_per_node", "cores-per-task": "cpus_per_task",
             "cores": "all_cpus", "gpus-per-task": "gpus_per_task", "gpus-per-node": "gpus"},
    "": {"np": "tasks", "n": "tasks", "c": "tasks", "ppn": "tasks_per_node", "perhost": "tasks_per_node",
         "npernode": "tasks_per_node", "N": "tasks_per_node"},
    "jsrun": {"np": "tasks", "p": "tasks", "n": "sets", "nrs": "sets", "tasks_per_rs": "tasks_per_set", "a": "tasks_per_set",
              "rs_per_host": "sets_per_node", "r": "sets_per_node", "gpu_per_rs": "gpus_per_set", "g": "gpus_per_set"},
}  # fmt: skip
"""Launcher -> option -> the count that it sets; `""`: all MPIs."""

PLACED: Mapping[str, frozenset[str]] = {
    "srun": name_set(
    "label unbuffered exact overlap no-kill quiet verbose overcommit oversubscribe disable-status "
    "contiguous preserve-env spread-job use-min-nodes wait-all-nodes exclusive kill-on-bad-exit pty "
    "immediate nice resv-ports propagate gres gres-flags mem mem-per-cpu mem-per-gpu time partition "
    "account qos constraint job-name output error mpi distribution cpu-bind mem-bind gpu-bind accel-bind "
    "hint jobid threads-per-core wait network signal reservation comment cpu-freq gpu-freq tres-bind "
    "open-mode time-min tmp licenses mail-type mail-user priority profile compress cpus-per-gpu bcast "
    "whole tres-per-task multi-prog"
),
    "flux": name_set(
    "exclusive unbuffered label-io verbose quiet time-limit setattr setopt output error queue bank "
    "requires taskmap job-name signal urgency rlimit"
),
    "": name_set(
    "oversubscribe nooversubscribe allow-run-as-root bind-to-core bind-to-socket bind-to-none "
    "report-bindings display-map display-allocation tag-output timestamp-output quiet q verbose v "
    "use-hwthread-cpus rr l line-buffer genvall envall prepend-rank disable-hostname-propagation mca gmca "
    "prtemca pmixmca map-by bind-to rank-by prefix pmi cpu-bind depth d mem-bind gpu-bind cc j S iface "
    "bootstrap bootstrap-exec launcher rmk output-filename o outfile-pattern errfile-pattern display "
    "output label-io byslot bysocket bycore cpus-per-proc cpus-per-rank genvlist envlist timeout hostfile "
    "machinefile f H host hosts hostlist bynode order"
),
    "jsrun": name_set(
    "bind b launch_distribution d latency_priority l smpiargs M cpu_per_rs c stdio_stdout o stdio_stderr "
    "k"
),
}  # fmt: skip
"""Launcher -> options that dlrun replaces: layout on nodes and cores, logs, limits of the step."""

SPAWNERS = frozenset({"pbsdsh", "blaunch"})
"""Programs of schedulers that start others on the nodes, in an environment of their own."""

OPEN_MPI = frozenset(
    {"x", "mca", "gmca", "npernode", "map-by", "bind-to", "rank-by", "report-bindings", "allow-run-as-root"}
)
"""Options that only Open MPI has."""

AGENTS: Mapping[str, tuple[str, Table]] = {
    "torchrun": ("torch", TORCHRUN), "accelerate": ("accelerate", ACCELERATE), "deepspeed": ("deepspeed", DEEPSPEED),
    "horovodrun": ("horovod", HOROVODRUN),
}  # fmt: skip
"""Framework's own launcher -> framework and options."""

AGENT_MODULES: Mapping[str, str] = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}  # fmt: skip
"""Module of `python -m` -> the launcher that it is."""

PREFIXES = frozenset({"uv", "poetry", "pipenv", "pdm", "hatch", "rye"})
"""Programs that run a command in an environment: `uv run COMMAND`."""
