"""The problem codes, for `dlrun explain DLR012` and the reference page."""

from __future__ import annotations

from dlrun.plan.command.codes import COMMAND_CODES
from dlrun.plan.data.codes import DATA_CODES
from dlrun.plan.mistakes.codes import MISTAKE_CODES

# ruff: noqa: E501, ISC004 - a page of prose, one code an entry
CODES: dict[str, tuple[str, str]] = {
    "DLR001": (
        "a secret as a plain value",
        "A secret is written in the spec, and the spec is copied into the job directory: the value of a variable whose name looks "
        "like a secret, a password or signature in a URL, a token of a known form, a private key, or the value of an argument such "
        "as `--api-key`, which every user of a node can read with `ps`. Name the source instead: `secrets: {HF_TOKEN: {env: HF_TOKEN}}`, `{file: ~/.hf-token}` (mode 0600), "
        "or `{command: [pass, hf-token]}`. The value is read by each rank when it starts, and is never written or printed. A data set "
        "on a web server takes presigned URLs and headers from secrets: `credentials: {url: NAME}`, "
        "`credentials: {headers: {Authorization: NAME}}`.",
    ),
    "DLR002": (
        "a secret needs exactly one source",
        "Set exactly one of `env` (a variable of the submitting shell), `file` (readable only by you) and `command` (prints the secret).",
    ),
    "DLR010": (
        "several nodes on one machine",
        "The `workstation` site is the local machine. Several nodes need the site profile of a cluster.",
    ),
    "DLR011": (
        "ranks do not fill the nodes",
        "With `ranks`, every node except the last has `ranks_per_node` ranks, and the last has at least one.",
    ),
    "DLR012": (
        "no such partition",
        "`dlrun site show SITE` lists the partitions of the site profile. Its limits are not checked until the name is right.",
    ),
    "DLR013": (
        "no such node type",
        "`dlrun site show SITE` lists the node types of the site profile.",
    ),
    "DLR014": (
        "walltime outside the limits",
        "`min_walltime` and `max_walltime` of the partition, in the site profile, limit the walltime of a job.",
    ),
    "DLR015": (
        "request outside the limits",
        "The site has `count` nodes of a type. The partition and the QOS limit nodes, GPUs, cores, memory on each node, nodes × walltime and jobs (`min_nodes`, `max_gpus`, …).",
    ),
    "DLR016": (
        "GPUs and ranks do not match",
        "Frameworks expect one GPU per rank, or the same number of GPUs for every rank. `ranks_per_node: auto` means one rank per GPU.",
    ),
    "DLR017": (
        "more memory than a node has",
        "`memory` of the node type is what jobs can use; the rest is reserved for the system.",
    ),
    "DLR018": ("more GPUs than a node has", "The topology of the node type gives its number of GPUs."),
    "DLR019": (
        "more cores than a node has",
        "`cpus_per_rank` × `ranks_per_node` must not exceed the usable cores of the node.",
    ),
    "DLR020": (
        "a required option is missing",
        "The site requires this option in every job (`scheduler.required`).",
    ),
    "DLR021": (
        "a forbidden option is set",
        "The site's scheduler rejects jobs that set this option (`scheduler.forbidden`).",
    ),
    "DLR022": (
        "a mandatory scheduler option is missing",
        "The site requires it in every job: set it under `resources.options`.",
    ),
    "DLR023": (
        "not an account of this site",
        "`scheduler.account.pattern` of the site profile describes valid account names, `accounts` of a partition or QOS those that "
        "may use it.",
    ),
    "DLR024": (
        "`bind: plan` needs a topology",
        "Ranks can be bound to planned cores only if the topology of the node type is known.",
    ),
    "DLR025": (
        "ranks do not fit on the node's cores",
        "Every rank needs at least one compute core in addition to its communication and loader cores. `dlrun tune-affinity` shows layouts.",
    ),
    "DLR026": (
        "placement warning",
        "The placement is valid but not ideal: cores stay idle, or a rank's GPU or NIC is on another package.",
    ),
    "DLR027": (
        "no node-local storage",
        "Data can be copied to nodes only if the site profile has `storage.node_local`.",
    ),
    "DLR028": (
        "the launcher does not suit the framework or the site",
        "Leave out `launcher:` to use the launcher of the site.",
    ),
    "DLR029": (
        "an expression cannot be evaluated",
        "`{{ }}` may contain arithmetic with values of the plan; the message lists their names.",
    ),
    "DLR030": (
        "a large global batch",
        "Above 8,192 samples per step, plain SGD with a linearly scaled learning rate loses accuracy "
        "(Goyal et al. 2017, arXiv:1706.02677). Use a longer warm-up, LARS or LAMB, or fewer ranks.",
    ),
    "DLR031": (
        "the container's runtime does not suit the launcher or the image",
        "enroot containers are started by the pyxis plug-in of srun; apptainer works with every launcher. Apptainer names an image of a "
        "registry `docker://nvcr.io/nvidia/pytorch:25.01-py3`, enroot `nvcr.io#nvidia/pytorch:25.01-py3`.",
    ),
    "DLR032": (
        "the script does not exist, or cannot be run",
        "The training script is not on the submitting host (relative paths start at the job's directory), or is a file that cannot be run there.",
    ),
    "DLR033": (
        "no virtual environment there",
        "`environment.venv` is the directory that contains `bin/activate`.",
    ),
    "DLR034": (
        "the data does not exist",
        "The data source is not on the submitting host, although its file system is mounted there.",
    ),
    "DLR035": (
        "a secret's file is missing or open to others",
        "The file of a secret must exist and have mode 0600.",
    ),
    "DLR040": (
        "Gloo on the loopback interface",
        "With `GLOO_SOCKET_IFNAME=lo` every rank announces 127.0.0.1, to which other nodes cannot connect.",
    ),
    "DLR041": (
        "agent options without `agent: true`",
        "`agent_arguments`, and `rendezvous` and `max_restarts` of torch, are options of the framework's own launcher (`torchrun`, "
        "`deepspeed`, `accelerate launch`, `paddle.distributed.launch`, `horovodrun`), which is started only with "
        "`agent: true`. Paddle's launcher starts collective training only.",
    ),
    "DLR050": (
        "a partition with an unknown node type",
        "`node_type` of a partition must be one of the profile's `node_types`.",
    ),
    "DLR051": (
        "two default partitions",
        "Only one partition can be the default of specs that do not set one.",
    ),
    "DLR052": (
        "contradictory limits of a partition",
        "`min_nodes` must not exceed `max_nodes`, nor `default_walltime` `max_walltime`.",
    ),
    "DLR053": (
        "an option that is both required and forbidden",
        "No job could be submitted: remove it from `scheduler.required` or from `scheduler.forbidden`.",
    ),
    "DLR054": (
        "an incomplete rendezvous rule",
        "`rendezvous.address: interface` also needs `interface`, and `ports` is the first and last port of a range.",
    ),
    "DLR055": (
        "an invalid regular expression",
        "Patterns have the syntax of Python's `re`; put them into single quotes, which keep backslashes.",
    ),
    "DLR056": (
        "file name and profile name differ",
        "Sites are found by file name, so `name` and the name of the file should be the same.",
    ),
    "DLR057": (
        "a profile without sources",
        "`sources` lists the sources of the values with their dates, so that others can check and update them.",
    ),
    "DLR058": (
        "an incomplete profile",
        "Unknown values are left out of a profile; the message names what dlrun cannot do without this one.",
    ),
    "DLR059": (
        "an invalid key or value in a profile",
        "A key is unknown or was removed, a value is not valid for its key, or numbers of a node are contradictory. "
        "`dlrun keys --profile` and [the keys of a profile](site.md) list the valid ones.",
    ),
    "DLR094": (
        "features that do not work with `horovodrun`",
        "`horovodrun` starts ranks by ssh, outside the control of the scheduler and dlrun: containers, early signals and "
        "secrets from variables do not reach them. Without `agent: true` dlrun starts the ranks, and all of these work.",
    ),
    "DLR042": (
        "a launcher as the command",
        "dlrun itself starts the command once per rank and sets rank and world size. `torchrun`, `horovodrun`, `deepspeed`, "
        "`accelerate launch`, `mpirun` and similar launchers would start further processes in every rank. Give the training "
        "program itself as the command; with `agent: true` under the framework's key, dlrun starts the framework's launcher.",
    ),
    "DLR043": (
        "MXNet 1.x with NumPy 1.24 or later",
        "`import mxnet` fails with `module 'numpy' has no attribute 'bool'`. MXNet is archived: use `numpy<1.24` in its "
        "environment, or set `np.bool = bool` before importing it.",
    ),
    "DLR036": (
        "Keras 3 under MultiWorkerMirroredStrategy",
        "`model.fit` of Keras 3 raises a TypeError there (PerReplica values). Use the legacy Keras (`tf_keras` with "
        "`TF_USE_LEGACY_KERAS=1`, which `framework: keras` sets), a custom training loop, or another back end.",
    ),
    "DLR037": (
        "PaddlePaddle without parameter server",
        "PaddlePaddle wheels do not contain the parameter server (`libpaddle has no attribute DistFleetWrapper`); it needs a "
        "build with WITH_PSCORE=ON. Collective training works with every wheel.",
    ),
    "DLR046": (
        "`accelerate launch --cpu`",
        "With `--cpu` and several processes, Accelerate 1.15 trains a separate model in each of them, without a warning. "
        "`framework: accelerate` sets the variables that `Accelerator()` reads, so the program itself can be the command.",
    ),
    "DLR047": (
        "a stale compilation lock",
        "DeepSpeed compiles operators on first use. If it is killed while it compiles, its lock file remains, and later ranks "
        "wait for it forever. Remove the file if nothing is compiling.",
    ),
    "DLR044": (
        "no time before the early signal",
        "`checkpoint.before_end` must be shorter than the walltime: it is the time between the signal and the end of the walltime.",
    ),
    "DLR045": (
        "different policies for preemption and node failure",
        "A scheduler that requeues jobs does so both after preemption and after a node failure, so "
        "`on_failure.preempted` and `on_failure.node_failed` must be the same.",
    ),
    "DLR048": (
        "no cores for communication threads",
        "Servers of MLSL (Intel Caffe) and workers of oneCCL should each have a core that no OpenMP thread uses. This needs "
        "ranks bound by the plan: whole nodes of known topology.",
    ),
    "DLR038": (
        "JAX cannot find its process id",
        "JAX reads the number of processes and its process id from Slurm and Open MPI, not from other launchers. Pass "
        "`{{ rank }}` and `{{ world_size }}` to the program, and from there to `jax.distributed.initialize`.",
    ),
    "DLR039": (
        "uneven nodes",
        "Some frameworks need the same number of ranks on every node; with `resources.ranks` the last node has fewer.",
    ),
    "DLR049": (
        "MLSL message priority",
        "MLSL implements prioritised all-reduce only for numbers of ranks that are powers of two.",
    ),
    "DLR060": (
        "a harmful setting",
        "The variable is known to cause errors or to slow down training on this fabric. `dlrun explain VARIABLE` prints "
        "the details, with sources. Remove it unless you measured that it helps.",
    ),
    "DLR061": (
        "a deprecated setting",
        "The variable was renamed or removed, or applies to old versions only. The message names its replacement. If your "
        "site has the old version, set it under `fabric.versions` in the site profile.",
    ),
    "DLR062": (
        "a setting that breaks the job",
        "The job would deadlock or abort, according to the vendor or operator of the fabric; `dlrun explain VARIABLE` cites the source.",
    ),
    "DLR063": (
        "a setting without its counterpart",
        "Some variables are valid only together with an option of the scheduler or launcher, such as Slingshot's "
        "`FI_CXI_RDZV_PROTO=alt_read` with `disable_rdzv_get`. Give both, or neither.",
    ),
    "DLR064": (
        "part of a profile has no source",
        "Each entry of `sources` gives source and date for the keys under `covers`.",
    ),
    "DLR065": (
        "settings that belong together",
        "Some settings are valid only together, so `fabric.drop` of one drops all of them: Omni-Path's `NCCL_PROTO`, "
        "`NCCL_NET_GDR_READ` and `NCCL_CUMEM_ENABLE`.",
    ),
    "DLR066": (
        "a venv or conda environment outside the container",
        "A container has its own `PATH` and file system, so an environment that is activated outside is not available inside. "
        "Install the packages into the image, or leave out the container.",
    ),
    "DLR067": (
        "a path that cannot be mounted in the container",
        "The job directory, the working directory and the data sets are mounted at the same paths inside the container. "
        "Container runtimes treat a colon or a comma as the end of a path.",
    ),
    "DLR069": (
        "a variable that is both dropped and set",
        "`environment.drop` unsets a variable wherever it was set, except those of the rendezvous, such as `RANK` and `MASTER_ADDR`.",
    ),
    "DLR068": (
        "cores per rank are not set on shared nodes",
        "On shared nodes a job is granted only the cores that it requests, by default usually one per rank: training and data "
        "loaders then share a single core. Set `cpus_per_rank`, request whole nodes (`exclusive: true`), or describe the "
        "nodes in the site profile (`node_types: {gpu: {topology: …}}` and `node_type` of the partition), so that `auto` is "
        "an equal share.",
    ),
    "DLR070": (
        "partitions differ from the scheduler's",
        "On the cluster, `dlrun site check` compares partitions, the default one, QOS and features with the scheduler's.",
    ),
    "DLR071": (
        "limits differ from the scheduler's",
        "A limit is missing in the profile or is higher than the scheduler's, so that the scheduler rejects jobs that dlrun accepts.",
    ),
    "DLR072": (
        "node types differ from the scheduler's",
        "No node of the cluster has the packages, cores, memory or GPUs of a node type, or the number of nodes differs.",
    ),
    "DLR073": (
        "the scheduler differs from the profile's",
        "The scheduler did not answer, or it is not of the type or version in the profile.",
    ),
    "DLR117": (
        "no such QOS",
        "`qos:` of the site profile lists the QOS, `partitions` of a QOS those where it is valid. A name that resembles one of them is "
        "taken for misspelled. Another one is a warning, because centres have more QOS than a profile lists.",
    ),
    "DLR118": (
        "no such node feature",
        "`constraint` names a feature that resembles one in the `constraint:` of a partition or node type. Other features are passed "
        "to the scheduler as they are.",
    ),
    "DLR119": (
        "no such type of GPU",
        "`gpu_type` must be `scheduler.gpu_type` of the site profile, also as overridden for a partition or node type. MIG slices are passed to the scheduler as they are.",
    ),
    "DLR074": (
        "limits or numbers of nodes that are older than a year",
        "The source that names a fact most specifically gives its date. Limits, QOS, numbers of nodes, versions and modules change; "
        "cores, GPUs and adapters of a node do not, and are never reported.",
    ),
    "DLR075": (
        "partitions that a job cannot use together",
        "Slurm starts a job in the first of several partitions (`partition: a,b`) with room; where a job is in one queue, dlrun takes the first that accepts it. The plan must be right in each, so only limits may differ in the site profile.",
    ),
    "DLR080": (
        "zipped parameters of unequal length",
        "`sweep.zip` uses the first value of each parameter for the first point, the second for the second, and so on.",
    ),
    "DLR081": (
        "a parameter of a sweep in two places",
        "A parameter must be in only one of `list`, `zip` and `grid` (directly under `sweep:` means `grid`).",
    ),
    "DLR082": (
        "points with different parameters",
        "Each point of `sweep.list` must give a value to every parameter, because all points run the same command.",
    ),
    "DLR085": (
        "an incomplete metric",
        "A metric has a `pattern` (a regular expression with the number as its one group, or as the group `value`) or a "
        "`json` key of lines that are JSON objects. Only `throughput` may have neither: dlrun knows the log formats "
        "of common trainers.",
    ),
    "DLR086": (
        "a metric in steps without a batch size",
        "Steps per second are converted into samples per second with the global batch: `batch_per_rank` × ranks.",
    ),
    "DLR091": (
        "the launcher does not support `spare_nodes`",
        "With `spare_nodes` a job is granted more nodes than it uses, so its launcher must accept a list of hosts: "
        "srun, Open MPI, hydra, Intel MPI and ssh do.",
    ),
    "DLR093": (
        "no time to copy the results",
        "`results.before_end` is the time reserved at the end of the walltime to copy results from the nodes. It must not "
        "exceed half of the walltime.",
    ),
    "DLR092": (
        "an environment that cannot be staged",
        "`environment.stage` copies the virtual environment of `environment.venv`, or the image file of "
        "`environment.container`, to each node, as a data set with the name `environment` or `image`. Conda environments, and "
        "images that are files only on the nodes, cannot be staged.",
    ),
    "DLR098": (
        "a variable that belongs to bash or to dlrun",
        "The scripts of a job are bash. Some variables are set by bash itself (`UID`, `IFS`, `RANDOM`, `PWD`), so the program would not "
        "get the given value; others change how bash works (`BASH_ENV`, `POSIXLY_CORRECT`, `TMOUT`), and with it the scripts; names "
        "that begin with `DLRUN_` are reserved for dlrun. A variable for the program alone can be set in the command: "
        "`command: [env, TMOUT=5, python, train.py]`.",
    ),
    "DLR090": (
        "a fabric check without information",
        "`fabric_check` compares the transports that libraries log with those of the site's fabric. It needs a fabric that "
        "dlrun knows (or `fabric.expect` in the profile) and logging by the library, such as `NCCL_DEBUG=INFO`.",
    ),
    "DLR111": (
        "no interface is known",
        "Without a configured interface, NCCL and Gloo select one for their sockets, possibly that of a management network. This "
        "affects all data on Ethernet, and on any fabric the data of Gloo in jobs without GPUs, because Gloo uses only IP.",
    ),
    **COMMAND_CODES,
    **MISTAKE_CODES,
    **DATA_CODES,
}
"""Code -> title, explanation."""
