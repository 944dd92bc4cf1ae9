"""Causes on the node: GPUs, memory, files, programs and libraries, containers, services. What each means, how to verify it, the way out."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.why.known.form import Advice

_LOADERS = "use fewer loader processes, or `torch.multiprocessing.set_sharing_strategy('file_system')`"
_CACHE = "`caches: auto` keeps compilers' caches on node-local storage; or set the variable that names the cache, such as `environment.variables: {TRITON_CACHE_DIR: /tmp/cache}`"
_SET_UP = ("environment-module", "environment", "interpreter-missing")

# ruff: noqa: E501 - a table
MACHINE: Mapping[str, Advice] = {
    # --- GPUs and drivers
    "gpu-memory": Advice(
        means="a GPU's memory was too small for the model and the batch",
        check="`dlrun usage JOB` shows the memory that each GPU used",
        next="make `batch_per_rank` smaller, or shard or checkpoint activations",
    ),
    "gpu-broken": Advice(
        means="a GPU reported a hardware fault",
        named="a GPU reported a hardware fault: {1}",
        check="`nvidia-smi -q -d ECC,PAGE_RETIREMENT` on the node, and its kernel log",
        next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
    ),
    "no-gpu": Advice(
        means="the program found no GPU that it can use",
        check="`nvidia-smi` (or `rocm-smi`) on a node of the job, and `echo $CUDA_VISIBLE_DEVICES` there",
        next="check `resources.gpus_per_node`, and that the environment's build fits the driver: `dlrun explain resources.gpus_per_node JOB`",
        roots=("gpu-busy", "driver-old", "driver-mismatch", "fabric-manager"),
    ),
    "gpu-number": Advice(
        means="a rank selected a GPU by a number that it does not have: there are more ranks on the node than GPUs that each of them sees",
        check="print `LOCAL_RANK` and `torch.cuda.device_count()` in each rank: with one visible GPU for each rank its number is always 0",
        next="select GPU `LOCAL_RANK % torch.cuda.device_count()`, or give as many GPUs as ranks: `resources.gpus_per_node`, `ranks_per_node`",
    ),
    "gpu-shared": Advice(
        means="two ranks use the same GPU: each must select its own",
        check="print `LOCAL_RANK`, `CUDA_VISIBLE_DEVICES` and `torch.cuda.current_device()` in each rank",
        next="call `torch.cuda.set_device(LOCAL_RANK)` before the first communication, and give one GPU for each rank: `resources.gpus_per_node`",
    ),
    "gpu-busy": Advice(
        means="a GPU is in use by another process, or may be used by one process only",
        check="`nvidia-smi` on the node: processes and compute mode",
        next="submit again with `resources.exclude` for this node; if it recurs, ranks share a GPU in exclusive mode",
    ),
    "driver-old": Advice(
        means="the node's GPU driver is older than the CUDA version of the program needs",
        check="`nvidia-smi` on a compute node shows the newest CUDA version that its driver runs",
        next="install a build for an older CUDA version (such as PyTorch's `cu118`), or use a partition with newer drivers",
    ),
    "driver-mismatch": Advice(
        means="the driver's kernel module and its library are of different versions: the driver was updated without a restart of the node",
        check="`cat /proc/driver/nvidia/version` and `nvidia-smi` on the node",
        next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
    ),
    "fabric-manager": Advice(
        means="the GPUs of the node are not ready: NVIDIA's Fabric Manager, which connects them by NVSwitch, does not run or does not fit the driver",
        check="`systemctl status nvidia-fabricmanager` and `nvidia-smi -q -i 0 | grep -A2 Fabric` on the node",
        next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
    ),
    "gpu-build": Advice(
        means="the program, or a library of it, was not built for this kind of GPU",
        check="`python -c 'import torch; print(torch.cuda.get_arch_list())'`, and the GPU's compute capability",
        next="install a build for this GPU, or rebuild extensions with `environment.variables: {TORCH_CUDA_ARCH_LIST: …}`",
    ),
    "gpu-library": Advice(
        means="a GPU library does not fit the driver, the GPU or the program's build",
        check="`python -m torch.utils.collect_env` in the job's environment, and `LD_LIBRARY_PATH`",
        next="remove other versions from `LD_LIBRARY_PATH` and `environment.modules`, or install builds that belong together",
    ),
    "cuda-fork": Advice(
        means="a process that was forked after the GPU was first used cannot use it",
        check="the lines before it: which call starts the processes",
        next="start them with `torch.multiprocessing.set_start_method('spawn')` (`DataLoader(multiprocessing_context='spawn')`), or use no GPU before",
    ),
    "device-assert": Advice(
        means="a kernel on the GPU failed; often a label or an index is out of range",
        named="a kernel on the GPU failed, where {1} does not hold; often a label or an index is out of range",
        check="run on one GPU, or on the CPU, where the error has the right line",
        next="run once with `environment.variables: {CUDA_LAUNCH_BLOCKING: 1}` to see the line",
    ),
    # --- Memory
    "memory": Advice(
        means="a node's memory, or the job's part of it, ran out",
        check="`dlrun usage JOB` shows the memory of each node",
        next="ask for more with `resources.memory_per_node`, or use fewer data-loader processes",
    ),
    "memory-limit": Advice(
        means="the job used more memory than it had requested, and the scheduler ended it",
        check="`dlrun usage JOB` compares the memory with the request",
        next="ask for more with `resources.memory_per_node`, or use fewer data-loader processes",
    ),
    "locked-memory": Advice(
        means="the limit of locked memory is too low for RDMA: adapters could not register memory (this is not the node's memory)",
        check="`ulimit -l` in a job on a compute node: it must be `unlimited`",
        next="ask the centre to raise the limit (Slurm: `PropagateResourceLimitsExcept=MEMLOCK`, `LimitMEMLOCK=infinity` of slurmd); until then `environment.setup: [ulimit -l unlimited]`, if the hard limit allows it",
    ),
    "shared-memory": Advice(
        means="the data loaders ran out of shared memory (/dev/shm)",
        check="`df -h /dev/shm` on the node, or inside the container",
        next=_LOADERS,
    ),
    "bus-error": Advice(
        means="a process crashed (SIGBUS): a file that it had mapped was cut short or could not be read, or its file system or /dev/shm is full",
        check="the library at the top of the stack in its log; `df -h /dev/shm $TMPDIR` and the quota of the file system with the mapped files (memmap, LMDB, Arrow, safetensors); `dmesg` of the node",
        next=f"let nothing write or truncate a mapped file while ranks read it, and give each rank its own to write; copy it to a file system with room; with data loaders {_LOADERS}",
    ),
    # --- Files
    "quota": Advice(
        means="a disk quota is used up",
        check="the centre's quota command (`quota -s`, `lfs quota -h -u $USER PATH`) shows which",
        next="delete files, or write to another file system; the centre's quota command shows which is full",
    ),
    "cache-quota": Advice(
        means="a disk quota is used up by a cache below the home directory",
        check="`du -sh ~/.cache ~/.triton ~/.apptainer` shows what takes the space",
        next="`caches: auto` moves those of compilers to node-local storage; or move it: `environment.variables: {XDG_CACHE_HOME: /scratch/cache}`, or `HF_HOME`, `TRITON_CACHE_DIR`, `PIP_CACHE_DIR`, `APPTAINER_CACHEDIR` alone",
    ),
    "cache-file": Advice(
        means="a cache of compiled code is on a network file system, where the ranks replace files below one another",
        check="`df -T` of the file's directory shows the type of its file system",
        next=_CACHE,
    ),
    "cache-database": Advice(
        means="a database of a cache is damaged: several nodes wrote it on a network file system",
        check="`df -T` of the cache's directory; MIOpen has its own below `~/.config/miopen`",
        next="remove the damaged file, and keep the cache on node-local storage: `caches: auto`, or `environment.variables: {MIOPEN_USER_DB_PATH: /tmp/miopen, MIOPEN_CUSTOM_CACHE_DIR: /tmp/miopen}`",
    ),
    "cache-lock": Advice(
        means="the ranks wait for the lock of an extension's build directory, which a killed job has left",
        check="`ls ~/.cache/torch_extensions/*/*/lock` with no job that builds",
        next="remove the `lock` file, and keep the directory on node-local storage: `caches: auto`, or `environment.variables: {TORCH_EXTENSIONS_DIR: /tmp/extensions}`",
    ),
    "file-locks": Advice(
        means="a file could not be locked: its file system has no locks, or another process holds it",
        check="`mount | grep flock` on the node (Lustre needs `flock`, NFS a lock service), and whether another process has the file open for writing",
        next="for HDF5 `environment.variables: {HDF5_USE_FILE_LOCKING: 'FALSE'}` if the file is only read; otherwise keep the file on node-local storage",
    ),
    "disk-full": Advice(
        means="a file system is full",
        check="`df -h` and `df -i` on the node show which",
        next="if it is /tmp or node-local, write elsewhere or stage less; `df -h` on the node shows which",
    ),
    "read-only": Advice(
        means="a file system may only be read on the node",
        check="`mount` on the node",
        next="write to another place; homes are read-only on the compute nodes of some centres",
        roots=("file-system",),
    ),
    "file-system": Advice(
        means="the shared file system failed",
        named="the shared file system failed: {1}",
        check="`ls` of the directory on the node that reported it, and the node's kernel log",
        next="submit again; if it comes back, exclude the node and report it to the centre",
    ),
    "file-missing": Advice(
        means="a file does not exist",
        named="a file does not exist: {1}",
        check="`ls -l` of the path on a compute node",
        next="check the path on a compute node; relative paths start at the spec's `directory`",
        roots_of_path=("permission", "read-only", "disk-full", "quota"),
    ),
    "file-exists": Advice(
        means="a file or directory existed already: another rank, or an earlier run, created it",
        named="a file or directory existed already, which another rank or an earlier run created: {1}",
        check="whether several ranks create it, or a run before this one did",
        next="create it in one rank only, or with `os.makedirs(path, exist_ok=True)`; give each run its own directory",
    ),
    "permission": Advice(
        means="the job may not read, write or run something",
        named="the job may not read, write or run {1}",
        check="`ls -ld` of the file and of each directory above it, on a compute node",
        next="see `ls -ld` of what the line names; let the program write below a directory of the job's user (`HOME`, `TMPDIR` or the library's own variable in `environment.variables`)",
    ),
    "too-many-files": Advice(
        means="the limit of open files was reached",
        check="`ulimit -n` in a job",
        next="`environment.setup: [ulimit -n 65536]`, or use fewer loader processes",
    ),
    "too-many-threads": Advice(
        means="the limit of processes and threads was reached",
        check="`ulimit -u` in a job, and `ps -eLf | wc -l` on the node",
        next="`environment.setup: [ulimit -u unlimited]`, or use fewer loader processes and threads",
    ),
    "file-damaged": Advice(
        means="a data file is damaged, or of another format than the program expects",
        check="open the file alone, with the same library; compare its size or checksum with its source",
        next="copy the file again from its source; `checksums` of a data set verifies each copy",
        roots=("disk-full", "quota"),
    ),
    "checkpoint-damaged": Advice(
        means="a file that the program loads is damaged, or was truncated while it was written",
        check="load the file alone on a login node; compare its size with that of the one before",
        next="remove the newest checkpoint and start from the previous one; write checkpoints to a new name, then rename them",
        roots=("disk-full", "quota"),
    ),
    "checkpoint-mismatch": Advice(
        means="the checkpoint belongs to another model than the one that loads it",
        check="compare the names and sizes in the message with the model's",
        next="give the program the right checkpoint, or start without one",
    ),
    # --- Programs and libraries
    "missing-module": Advice(
        means="Python has no module of this name in the job's environment",
        named="Python has no module `{1}` in the job's environment",
        check="`python -c 'import sys; print(sys.executable)'` in the job's environment, and `pip list` there",
        next="install it there, or name the right `environment.venv`, `conda` or `container`",
        roots=_SET_UP,
    ),
    "environment-module": Advice(
        means="an environment module could not be loaded",
        named="the environment module {1} could not be loaded",
        check="`module load` of the same names on a compute node",
        next="`module avail` on the cluster shows the names; correct `environment.modules`",
    ),
    "missing-library": Advice(
        means="a shared library is missing or too old on the node",
        named="the shared library `{1}` is missing or too old on the node",
        check="`ldd` of the program, or of the Python module's `.so`, on a compute node",
        next="load the module that provides it (`environment.modules`), or build for this system",
        roots=_SET_UP,
    ),
    "build-mismatch": Advice(
        means="a compiled library does not fit another one that it is loaded with: they are of different builds or versions",
        named="a compiled library does not fit another one that it is loaded with: `{1}`",
        check="`ldd` of the library that the line names, `pip list`, and `LD_LIBRARY_PATH` in the job",
        next="install builds of one version again together, and remove others from `LD_LIBRARY_PATH` and `environment.modules`",
        roots=_SET_UP,
    ),
    "illegal-instruction": Advice(
        means="the program was built for a CPU that this node does not have",
        check="`lscpu` on the node and where it was built",
        next="build it on a compute node, or ask for the right one with `resources.constraint`",
    ),
    "interpreter-missing": Advice(
        means="the program in the first line of a script does not exist on the node; with Windows line ends (CRLF) its name ends with a carriage return",
        named="the program in the first line of a script (`{1}`) does not exist on the node; with Windows line ends (CRLF) its name ends with a carriage return",
        check="`file FILE` shows CRLF; `head -1 FILE` shows the program",
        next="`sed -i 's/\\r$//' FILE` if `file FILE` shows CRLF; otherwise correct its first line (`#!/bin/bash`)",
        roots=_SET_UP,
    ),
    "command-missing": Advice(
        means="a command does not exist or cannot be run on the node",
        named="`{1}` does not exist or cannot be run on the node",
        check="`command -v` of it in the job's environment on a compute node",
        next="give its full path, or the environment that has it",
        roots=_SET_UP,
    ),
    "compiler": Advice(
        means="the program compiles code while it runs, and the compiler, or a part of it, is missing or failed on the node",
        named="the program compiles code while it runs, and this is missing or failed on the node: {1}",
        check="`which gcc nvcc ninja ptxas` in the job's environment on a compute node",
        next="load a compiler (and CUDA) with `environment.modules`, or build the extension beforehand",
        roots=_SET_UP,
    ),
    "environment": Advice(
        means="the job's environment does not exist on the node",
        named="the job's environment does not exist on the node: {1}",
        check="`ls` of the environment on a compute node",
        next="correct `environment.venv` or `conda`: it must exist on the compute nodes, too",
        roots=("environment-module",),
    ),
    "variable-not-set": Advice(
        means="a variable is used, and none of this name is set on the node",
        named="`{1}` is used, and no variable of this name is set on the node",
        check="`dlrun plan --script` shows the script with the line",
        next="set it (`environment.variables`, `setup`, or the module that sets it), or write its value into the spec",
    ),
    "name-of-dlrun": Advice(
        means="a set-up line defines or removes a function of dlrun",
        named="a set-up line defines or removes the function `{1}`, which is dlrun's own",
        check="`dlrun plan --script` shows the set-up lines",
        next="take another name in `environment.setup`, or in the file that it sources",
    ),
    # --- Containers
    "container-image": Advice(
        means="the container's image is missing, damaged, or could not be fetched or converted on the node",
        named="the container's image is missing, damaged, or could not be fetched or converted on the node: {1}",
        check="`ls -l` of the image on a compute node, or `apptainer inspect` (enroot: `enroot import`) of it there",
        next="correct `environment.container.image`; an image of Apptainer is pulled and converted once by `dlrun submit --fetch` (without `environment.container.fetch: job`), one of enroot on a login node (`enroot import`), onto a file system that the nodes see",
    ),
    "container": Advice(
        means="the container could not be started on the node",
        named="the container could not be started on the node: {1}",
        check="start the same image on that node yourself; `dlrun logs JOB --rank all` shows the messages of the runtime",
        next="correct `environment.container`; if only one node is affected, exclude it (`resources.exclude`) and report it to the centre",
    ),
    "container-namespace": Advice(
        means="the container runtime may not create the namespaces or mounts that it needs on this node",
        check="`cat /proc/sys/user/max_user_namespaces` and `ls -l $(command -v fusermount3)` on the node",
        next="ask the centre to allow unprivileged user namespaces, or to install the runtime with its set-user-id part",
    ),
    "container-mount": Advice(
        means="a directory that is to be mounted into the container does not exist, or may not be mounted",
        named="a directory that is to be mounted into the container does not exist, or may not be mounted: {1}",
        check="`ls -ld` of the path on a compute node",
        next="correct `environment.container.binds`: each must exist on the compute nodes",
    ),
    # --- Networks and services
    "no-network": Advice(
        means="the program needs the internet, which this node cannot reach",
        check="`curl -I https://huggingface.co` on a compute node",
        next="download on the login node beforehand, and set `environment.variables: {HF_HUB_OFFLINE: 1}` or the like",
    ),
    "no-access": Advice(
        means="a service refused the job's credentials",
        check="log in with the same token on a login node (`hf auth whoami`, `wandb login`)",
        next="give the token under `secrets:`",
    ),
    "licence": Advice(
        means="a program got no licence: its server does not answer the node, or all licences are in use",
        named="a program got no licence: {1}",
        check="`lmutil lmstat -a` with the program's `LM_LICENSE_FILE` on a compute node",
        next="name the server (`environment.variables: {LM_LICENSE_FILE: PORT@HOST}`, or the program's own variable), or submit again when a licence is free; centres often have a scheduler option for them (`--licenses`)",
    ),
    "not-found": Advice(
        means="a web server was reached and has nothing at this address (404): the name, the file or the revision is wrong",
        check="open the address that the log shows",
        next="correct the model's or data set's name, file or revision in the program's arguments",
    ),
    "hub-limit": Advice(
        means="a service limits requests (429): many ranks asked it at once",
        check="count the ranks that download: each asks for itself",
        next="name it under `data` (as `hf://ORG/NAME`): `dlrun submit` downloads it once for all ranks, and sets `HF_HUB_OFFLINE`; other services: download once beforehand, or let rank 0 download first",
    ),
    "hub-offline": Advice(
        means="a file of a hub is not in the local cache, and the node is offline or set to be",
        check="`ls $HF_HOME/hub` on a compute node, and the variables `HF_HUB_OFFLINE` and `HF_HOME` in the job",
        next="name it under `data` (as `hf://ORG/NAME`), and `dlrun submit` downloads it; or download it on the login node with the same `HF_HOME`, which the compute nodes must see",
    ),
    "tracking": Advice(
        means="the experiment tracker (such as Weights & Biases) could not be reached or did not start",
        check="whether compute nodes reach its server; whether another rank starts it as well",
        next="`environment.variables: {WANDB_MODE: offline}`, then `wandb sync` on a login node; a site profile with `internet: false` makes `track: wandb` do that",
    ),
}
"""Cause -> what it means, how to verify it, and the way out."""
