"""What each problem code means and what to do: `dlrun explain DLR012`, and the reference page."""

from __future__ import annotations

# ruff: noqa: E501, ISC004 - a page of prose, one code an entry
CODES: dict[str, tuple[str, str]] = {
    "DLR001": (
        "a secret as a plain value",
        "A variable whose name looks like a secret has its value in the spec. Everything in a spec ends up in the job "
        "directory, so name the source instead: `secrets: {HF_TOKEN: {env: HF_TOKEN}}`, `{file: ~/.hf-token}` (mode 0600), "
        "or `{command: [pass, hf-token]}`. The value is read by each rank when it starts, and is never written or printed.",
    ),
    "DLR002": (
        "a secret needs exactly one source",
        "Give one of `env` (a variable of the submitting shell), `file` (readable by you alone), `command` (prints it).",
    ),
    "DLR010": (
        "several nodes on one machine",
        "The `workstation` site is this machine alone. Several nodes need a cluster's site profile.",
    ),
    "DLR011": (
        "ranks do not fill the nodes",
        "With `ranks` given, every node but the last has `ranks_per_node` ranks and the last has at least one.",
    ),
    "DLR012": (
        "no such partition",
        "`dlrun site show SITE` lists the partitions that the site profile describes.",
    ),
    "DLR013": (
        "no such node type",
        "`dlrun site show SITE` lists the node types that the site profile describes.",
    ),
    "DLR014": (
        "walltime outside the limits",
        "The partition's `min_walltime` and `max_walltime` in the site profile bound a job's walltime.",
    ),
    "DLR015": (
        "number of nodes outside the limits",
        "The partition's `min_nodes` and `max_nodes` bound a job's nodes, `max_node_hours` its nodes × walltime.",
    ),
    "DLR016": (
        "GPUs and ranks do not match",
        "Frameworks expect one GPU a rank, and every rank the same number. `ranks_per_node: auto` gives one rank a GPU.",
    ),
    "DLR017": (
        "memory over the node's",
        "The node type's `memory` is what jobs can use; the system keeps the rest.",
    ),
    "DLR018": ("more GPUs than a node has", "The node type's topology says how many GPUs it has."),
    "DLR019": (
        "more cores than a node has",
        "`cpus_per_rank` × `ranks_per_node` must not exceed the cores of the node.",
    ),
    "DLR020": ("a required option is missing", "The site's scheduler accepts no job without it."),
    "DLR021": (
        "a refused option is given",
        "The site's scheduler rejects jobs that give it: it is set by the site itself.",
    ),
    "DLR022": (
        "a mandatory scheduler option is missing",
        "The site wants it with every job; give it under `resources.options`.",
    ),
    "DLR023": ("not an account of this site", "The site profile says what its accounts look like."),
    "DLR024": (
        "binding by plan needs a topology",
        "Only a node type whose topology is known can be planned core by core.",
    ),
    "DLR025": (
        "ranks do not fit on the node's cores",
        "Every rank needs at least one compute core besides its communication and loader cores. `dlrun tune-affinity` tries layouts.",
    ),
    "DLR026": (
        "placement warning",
        "The placement works but wastes something: idle cores, or a GPU or NIC on the other package.",
    ),
    "DLR027": (
        "no node-local storage",
        "Copying data to nodes needs `storage.node_local` in the site profile.",
    ),
    "DLR028": (
        "launcher and framework or site do not go together",
        "Leave `launcher:` out to use the site's own.",
    ),
    "DLR029": (
        "an expression cannot be evaluated",
        "`{{ }}` holds arithmetic over named plan values; the message lists the names.",
    ),
    "DLR030": (
        "a large global batch",
        "Beyond 8,192 samples a step, plain SGD with a linearly scaled learning rate loses accuracy "
        "(Goyal et al. 2017, arXiv:1706.02677). Use a longer warm-up, LARS or LAMB, or fewer ranks.",
    ),
    "DLR031": (
        "container and launcher do not go together",
        "enroot images are started by srun's pyxis plug-in; apptainer works with every launcher.",
    ),
    "DLR032": (
        "the script does not exist",
        "The training script was looked for on the submitting host, from the job's directory.",
    ),
    "DLR033": (
        "no virtual environment there",
        "`environment.venv` names the directory that holds `bin/activate`.",
    ),
    "DLR034": (
        "the data does not exist",
        "The source was looked for on the submitting host, whose file system it is on.",
    ),
    "DLR035": (
        "a secret's file is missing or open to others",
        "A file that holds a secret must exist and have mode 0600.",
    ),
    "DLR040": (
        "Gloo on the loopback interface",
        "`GLOO_SOCKET_IFNAME=lo` makes every rank announce 127.0.0.1: other nodes cannot connect.",
    ),
    "DLR041": (
        "options of an agent that is not started",
        "`agent_arguments`, and torch's `rendezvous` and `max_restarts`, belong to the framework's own agent (`torchrun`, "
        "`deepspeed`, `accelerate launch`, `paddle.distributed.launch`, `horovodrun`), which `agent: true` beside them "
        "starts. Paddle's starts collective training only.",
    ),
    "DLR050": (
        "a partition of an unknown node type",
        "A partition's `node_type` must be one of the profile's `node_types`.",
    ),
    "DLR051": (
        "two default partitions",
        "Only one partition can be used when a spec names none.",
    ),
    "DLR052": (
        "limits of a partition that exclude one another",
        "The fewest nodes of a job cannot be more than the most, nor the usual walltime longer than the longest.",
    ),
    "DLR053": (
        "an option that is required and forbidden",
        "No job could be submitted: take it out of `scheduler.required` or of `scheduler.forbidden`.",
    ),
    "DLR054": (
        "no rendezvous is possible",
        "Ranks meet at an address by `rendezvous.address` (with `interface`, name the interface too) and a port from `ports`.",
    ),
    "DLR055": (
        "a pattern that is no regular expression",
        "`scheduler.account.pattern` is in the syntax of Python's `re`; put it into single quotes.",
    ),
    "DLR056": (
        "a profile under another name",
        "Sites are found by file name, so a profile's `name` and its file should agree.",
    ),
    "DLR057": (
        "a profile without sources",
        "`sources` says who said what and when, so that others can check the values and renew them.",
    ),
    "DLR058": (
        "a profile leaves something open",
        "What is not known stays out of a profile; the finding says what dlrun cannot do without it.",
    ),
    "DLR059": (
        "a value of a profile that does not fit",
        "A key is unknown, or its value is none that it can have; numbers of a node that contradict one another count too. "
        "`dlrun schema site` and [the keys of a profile](site.md) say what fits.",
    ),
    "DLR094": (
        "ranks that an agent starts by ssh are out of reach",
        "`horovodrun` starts ranks by ssh, outside of what the scheduler and dlrun know: no container, no early signal and no "
        "secret from a variable reaches them. Without `agent: true` dlrun starts the ranks, and all of these do.",
    ),
    "DLR042": (
        "a launcher as the command",
        "dlrun starts the command once for each rank and tells it who it is: `torchrun`, `horovodrun`, `deepspeed`, "
        "`accelerate launch`, `mpirun` and their like are not needed, and would start ranks of ranks. Give the training "
        "program itself as the command; `agent: true` under the framework's key has dlrun start the framework's own.",
    ),
    "DLR043": (
        "MXNet 1.x with NumPy 1.24 or later",
        "`import mxnet` fails with `module 'numpy' has no attribute 'bool'`. MXNet is archived: use `numpy<1.24` in its "
        "environment, or set `np.bool = bool` before importing it.",
    ),
    "DLR036": (
        "Keras 3 under MultiWorkerMirroredStrategy",
        "`model.fit` of Keras 3 raises a TypeError there (PerReplica values). Use the legacy Keras (`tf_keras` with "
        "`TF_USE_LEGACY_KERAS=1`, which `framework: keras` sets), a training loop of your own, or another back end.",
    ),
    "DLR037": (
        "PaddlePaddle without its parameter server",
        "Wheels of PaddlePaddle lack the parameter server (`libpaddle has no attribute DistFleetWrapper`): it needs a build "
        "with WITH_PSCORE=ON. Collective training works with every wheel.",
    ),
    "DLR046": (
        "`accelerate launch --cpu`",
        "With `--cpu` and several processes Accelerate 1.15 trains one separate copy in each, and says nothing. "
        "`framework: accelerate` sets what `Accelerator()` reads, so the program itself can be the command.",
    ),
    "DLR047": (
        "a lock left of a compilation",
        "DeepSpeed compiles operators on first use. Killed in the middle it leaves its lock behind, and every later rank "
        "waits for it for ever. Remove the file if nothing is compiling.",
    ),
    "DLR044": (
        "no time before the early signal",
        "`checkpoint.before_end` is how long before the end the program is told to save its state; it must be shorter than "
        "the walltime.",
    ),
    "DLR045": (
        "two policies for one event",
        "A scheduler that may start jobs again does so after preemption and after a node's failure alike, so "
        "`on_failure.preempted` and `on_failure.node_failed` must say the same.",
    ),
    "DLR048": (
        "communication without cores of its own",
        "MLSL's servers (Intel Caffe) and oneCCL's workers should each have a core that no OpenMP thread uses; only a plan "
        "that binds ranks (whole nodes of known topology) can give them one.",
    ),
    "DLR038": (
        "JAX cannot tell which process it is",
        "Slurm and Open MPI tell JAX the number of processes and which one this is; other launchers do not. Pass "
        "`{{ rank }}` and `{{ world_size }}` to the program, and on to `jax.distributed.initialize`.",
    ),
    "DLR039": (
        "uneven nodes",
        "Some frameworks want the same number of ranks on every node: with `resources.ranks` the last node has fewer.",
    ),
    "DLR049": (
        "MLSL message priority",
        "MLSL implements prioritised all-reduce for numbers of ranks that are powers of two.",
    ),
    "DLR060": (
        "a harmful setting",
        "This variable is known to be wrong or slow on this fabric when it is set blindly. `dlrun explain VARIABLE` says what "
        "is known of it, with sources. Leave it out unless you measured that it helps.",
    ),
    "DLR061": (
        "a deprecated setting",
        "The variable was renamed or removed, or was right for old versions only. The message names what replaced it. Where "
        "your site really has the old version, say so under `fabric.versions` of its profile.",
    ),
    "DLR062": (
        "a setting that is refused",
        "The job would deadlock or abort: this is documented by who makes or runs the fabric, and `dlrun explain VARIABLE` cites them.",
    ),
    "DLR063": (
        "half of a pair",
        "Some variables are only right together with an option of the scheduler or launcher: Slingshot's "
        "`FI_CXI_RDZV_PROTO=alt_read` with `disable_rdzv_get`. Give both, or neither.",
    ),
    "DLR064": (
        "a part of a profile without a source",
        "`sources` says for each part of a profile, by `covers`, who said so and when.",
    ),
    "DLR065": (
        "a unit taken apart",
        "Some settings are only right together, so `fabric.drop` of one drops all of them: Omni-Path's `NCCL_PROTO`, "
        "`NCCL_NET_GDR_READ` and `NCCL_CUMEM_ENABLE`.",
    ),
    "DLR066": (
        "an environment that the container hides",
        "A container has a `PATH` and a file system of its own: a venv or conda environment that was activated outside is "
        "not found inside. Install what is missing into the image, or leave the container out.",
    ),
    "DLR067": (
        "a path that a container cannot mount",
        "The job directory, the directory that the job runs in and the data sets are mounted at the same paths inside. "
        "Container runtimes read a colon or a comma in such a path as the end of it.",
    ),
    "DLR069": (
        "a variable that is dropped and set",
        "`environment.drop` leaves a variable unset whoever else sets it; `RANK`, `MASTER_ADDR` and the like, by which ranks "
        "find one another, cannot be left unset.",
    ),
    "DLR068": (
        "a rank's share of a shared node is not known",
        "Where other jobs run on the same nodes, a scheduler grants only the cores that a job asks for, and mostly one for "
        "each rank if it asks for none: the training then runs on one core, with its data loaders. Give `cpus_per_rank`, ask "
        "for whole nodes (`exclusive: true`), or describe the nodes in the site profile (`node_types: {gpu: {topology: …}}` "
        "and the partition's `node_type`): `auto` is then an equal share.",
    ),
    "DLR070": (
        "partitions other than the scheduler's",
        "On the cluster itself, `dlrun site check` compares the names in the profile (partitions, the default one, QOS, "
        "features) with the scheduler's.",
    ),
    "DLR071": (
        "limits other than the scheduler's",
        "The profile lets jobs through that the scheduler will refuse, or knows no limit where there is one.",
    ),
    "DLR072": (
        "nodes other than the scheduler's",
        "No node of the cluster has the packages, cores, memory or GPUs, or there are not as many nodes, as a node type says.",
    ),
    "DLR073": (
        "a scheduler other than the profile's",
        "The scheduler did not answer, or is of another kind or version than the profile says.",
    ),
    "DLR080": (
        "zipped parameters of unequal length",
        "`sweep.zip` takes the first value of each parameter for the first point, the second for the second, and so on.",
    ),
    "DLR081": (
        "a parameter of a sweep in two places",
        "A parameter stands in one of `list`, `zip` and `grid` (or directly under `sweep:`, which is the grid).",
    ),
    "DLR082": (
        "points with different parameters",
        "Each point of `sweep.list` gives a value to every parameter, since one command serves all of them.",
    ),
    "DLR083": (
        "a parameter with a name of the plan's",
        "`{{ nodes }}`, `{{ world_size }}`, `{{ global_batch }}` and the like are worked out from the plan, which is the "
        "same for all points of a sweep: they are one job array. `dlrun scale` measures a job at several sizes.",
    ),
    "DLR084": (
        "too many points in a sweep",
        "Every point has a directory of its own with its logs. For more points than this, use a search that chooses "
        "them: docs/guide/sweeps.md.",
    ),
    "DLR085": (
        "a metric that cannot be found",
        "A metric has a `pattern` (a regular expression with the number as its one group, or as the group `value`) or a "
        "`json` key of lines that are JSON objects. Only `throughput` may have neither: dlrun knows how common trainers "
        "print it.",
    ),
    "DLR086": (
        "a metric in steps without a batch size",
        "Steps a second become samples a second by the global batch, which is `batch_per_rank` times the ranks.",
    ),
    "DLR091": (
        "a launcher that uses every node",
        "With `spare_nodes` the job is granted more nodes than it uses, so its launcher must be told on which to start ranks. "
        "srun, Open MPI, hydra, Intel MPI and ssh are.",
    ),
    "DLR096": (
        "node-local storage of no size",
        "The site makes node-local storage for each job (BeeOND, a burst buffer) as large as the job asks, so the spec has "
        "to say how much it needs on each node: `resources: {node_local: 200GB}`.",
    ),
    "DLR093": (
        "no time to bring the results",
        "`results.before_end` is kept free at the end of the walltime, so that results on the nodes are not lost with "
        "the job. It may take half of the walltime at most.",
    ),
    "DLR092": (
        "an environment that cannot be staged",
        "`environment.stage` brings the virtual environment of `environment.venv` to each node under the name "
        "`environment`; conda environments and containers are found elsewhere.",
    ),
    "DLR090": (
        "a fabric check that sees nothing",
        "`fabric_check` compares what libraries print with what the site's fabric offers. It needs a fabric that dlrun knows "
        "(or `fabric.expect` in the profile), and libraries that may say what they choose: NCCL with `NCCL_DEBUG=INFO`.",
    ),
}
"""Code -> title, explanation."""
