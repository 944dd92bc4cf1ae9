"""Known failures: the pattern of a log line, its meaning, and the next step, as a table in order of precedence.

Root causes come first: a lost-peer message only means that another rank failed earlier.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlrun.model.job import State
from dlrun.model.text import UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One kind of failure: a regular expression for one line, its meaning (`{1}`: first group), the next step.

    consequence: counts only if no log has a cause; passing: programs may log it and continue, so it counts only if no
    exception follows.
    """

    cause: str
    regex: str
    means: str
    next: str
    consequence: bool = False
    passing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A log line with a cause, and the values of its pattern's groups."""

    log: str
    line: str
    pattern: Pattern
    values: tuple[str, ...] = ()


# ruff: noqa: E501 - a table
PATTERNS = (
    Pattern(
        cause="variable-not-set",
        regex=rf"(?:line \d+|bash): (\w+): (?:{UNSET}|unbound variable)",
        means="`{1}` is used, and no variable of this name is set on the node",
        next="set it (`environment.variables`, `setup`, or the module that sets it), or write its value into the spec",
    ),
    Pattern(
        cause="name-of-dlrun",
        regex=r"line \d+: (?:unset: )?(_?dlrun_\w+): (?:cannot unset: )?readonly function",
        means="a set-up line defines or removes the function `{1}`, which is dlrun's own",
        next="take another name in `environment.setup`, or in the file that it sources",
    ),
    Pattern(
        cause="gpu-memory",
        regex=r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError: |CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory",
        means="a GPU's memory was too small for the model and the batch",
        next="make `batch_per_rank` smaller, or shard or checkpoint activations",
        passing=True,
    ),
    # The excluded Xids are those of program errors (NVIDIA/k8s-device-plugin, internal/rm/health.go).
    Pattern(
        cause="gpu-broken",
        regex=r"(uncorrectable (?:NVLink|ECC) error|NVRM: Xid \(\S+\): (?!(?:13|31|43|45|68|109)\b)\d+|CUDA_ERROR_ECC_UNCORRECTABLE|fallen off the bus|HSA_STATUS_ERROR_HARDWARE)",
        means="a GPU reported a hardware fault: {1}",
        next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
    ),
    Pattern(
        cause="no-gpu",
        regex=r"No CUDA GPUs are available|no CUDA-capable device is detected|Found no NVIDIA driver|CUDA driver version is insufficient|No HIP GPUs are available|Torch not compiled with CUDA enabled",
        means="the program found no GPU that it can use",
        next="check `resources.gpus_per_node`, and that the environment's build fits the driver: `dlrun explain resources.gpus_per_node JOB`",
    ),
    Pattern(
        cause="device-assert",
        regex=r"device-side assert triggered|an illegal memory access was encountered",
        means="a kernel on the GPU failed; often a label or an index is out of range",
        next="run once with `environment.variables: {CUDA_LAUNCH_BLOCKING: 1}` to see the line",
    ),
    Pattern(
        cause="shared-memory",
        regex=r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed by signal: Bus error|exited unexpectedly)|insufficient shared memory \(shm\)|unable to (?:open|write to file|mmap) .*shared memory|Unexpected bus error",
        means="the data loaders ran out of shared memory (/dev/shm)",
        next="use fewer loader processes, or `torch.multiprocessing.set_sharing_strategy('file_system')`",
    ),
    Pattern(
        cause="memory",
        regex=r"oom[-_]kill event|Out [Oo]f [Mm]emory: Killed process|is killed by signal: Killed|DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|MemoryError|exceeded memory limit|Cannot allocate memory",
        means="a node's memory, or the job's part of it, ran out",
        next="ask for more with `resources.memory_per_node`, or use fewer data-loader processes",
    ),
    Pattern(
        cause="quota",
        regex=r"Disk quota exceeded",
        means="a disk quota is used up",
        next="delete files, or write to another file system; the centre's quota command shows which is full",
    ),
    Pattern(
        cause="shared-memory",
        regex=r"No space left on device: '?/dev/shm",
        means="the node's shared memory (/dev/shm) is full",
        next="use fewer loader processes, or `torch.multiprocessing.set_sharing_strategy('file_system')`",
    ),
    Pattern(
        cause="read-only",
        regex=r"Read-only file system:? ?'?(\S*)",
        means="a file system may only be read on the node",
        next="write to another place; homes are read-only on the compute nodes of some centres",
        passing=True,
    ),
    Pattern(
        cause="launcher",
        regex=r"(?:srun|mpirun|mpiexec\S*|prterun): (?:error: )?((?:unrecognized option|unknown option|invalid option|[Uu]nrecognized argument|Invalid \S+ specification|Unable to create step|fatal: ).*)|(?:prte|prterun|mpirun|mpiexec)\S* (?:was unable to (?:find|launch)|detected an unknown option).*",
        means="the launcher could not start the ranks: {1}",
        next="correct `launcher` (`program`, `arguments`) in the site profile; `dlrun logs JOB --rank job` has all of it",
        passing=True,
    ),
    Pattern(
        cause="launcher",
        regex=r"srun: error: (Task launch for \S+ failed on node \S+: .*|timeout waiting for task launch.*)",
        means="the launcher could not start the ranks: {1}",
        next="exclude the node that it names (`resources.exclude`) and submit again; if every node is affected, check with `dlrun verify` whether they reach one another and their clocks agree",
        passing=True,
    ),
    Pattern(
        cause="launcher",
        regex=r"^(Connection to \S+ closed by remote host|client_loop: send disconnect.*|Timeout, server \S+ not responding|ssh: connect to host .*|(?:kex|ssh)_exchange_identification: .*|Host key verification failed|\S+: Permission denied \((?:publickey|password|keyboard-interactive|hostbased|gssapi)\S*)",
        means="the ssh connection by which ranks are started failed: {1}",
        next="check that you can log in from each node to the others without a prompt (`ssh NODE true`); if only one fails, exclude it: `resources.exclude`",
        passing=True,
    ),
    Pattern(
        cause="disk-full",
        regex=r"No space left on device",
        means="a file system is full",
        next="if it is /tmp or node-local, write elsewhere or stage less; `df -h` on the node shows which",
    ),
    Pattern(
        cause="file-system",
        regex=r"(Stale file handle|Transport endpoint is not connected|Input/output error|Cannot send after transport endpoint shutdown)",
        means="the shared file system failed: {1}",
        next="submit again; if it comes back, exclude the node and report it to the centre",
        passing=True,
    ),
    Pattern(
        cause="missing-module",
        regex=r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)",
        means="Python has no module `{1}` in the job's environment",
        next="install it there, or name the right `environment.venv`, `conda` or `container`",
        passing=True,
    ),
    Pattern(
        cause="environment-module",
        regex=r"Lmod has detected the following error|Unable to locate a modulefile for '?([^' ]*)|(?:module|ModuleCmd_\w+).*(?:ERROR|command not found)|The following module\(s\) are unknown: \"?([^\" ]*)",
        means="an environment module could not be loaded",
        next="`module avail` on the cluster shows the names; correct `environment.modules`",
        passing=True,
    ),
    Pattern(
        cause="missing-library",
        regex=r"error while loading shared libraries: ([^:]+)|(lib\S+\.so\S*): cannot open shared object file|version `((?:GLIBC|GLIBCXX|CXXABI)_[\d.]+)' not found",
        means="the shared library `{1}` is missing or too old on the node",
        next="load the module that provides it (`environment.modules`), or build for this system",
    ),
    Pattern(
        cause="illegal-instruction",
        regex=r"Illegal instruction",
        means="the program was built for a CPU that this node does not have",
        next="build it on a compute node, or ask for the right one with `resources.constraint`",
    ),
    Pattern(
        cause="port-in-use",
        regex=r"EADDRINUSE|[Aa]ddress already in use|errno: 98\b",
        means="a port was taken by another process of the node",
        next="let the program use DLRUN_MASTER_PORT rather than a port of its own, and submit again",
        passing=True,
    ),
    Pattern(
        cause="wrong-account",
        regex=r"Invalid account or account/partition combination|Unauthorized Request|Invalid qos specification|Job violates accounting/QOS policy",
        means="the account, partition and QOS do not go together",
        next="correct `resources.account`, `partition` or `qos`; `dlrun site show` says how accounts are found",
    ),
    Pattern(
        cause="no-network",
        regex=r"Temporary failure in name resolution|Name or service not known|[Cc]ould not resolve host|Network is unreachable|Max retries exceeded with url|We couldn't connect to 'https://",
        means="the program needs the internet, which this node cannot reach",
        next="download on the login node beforehand, and set `environment.variables: {HF_HUB_OFFLINE: 1}` or the like",
        passing=True,
    ),
    Pattern(
        cause="no-access",
        regex=r"GatedRepoError|40[13] Client Error|(?:Invalid|Incorrect) API key|wandb: ERROR.*(?:api_key|permission)",
        means="a service refused the job's credentials",
        next="give the token under `secrets:`",
        passing=True,
    ),
    Pattern(
        cause="checkpoint-damaged",
        regex=r"PytorchStreamReader failed|invalid magic number; corrupt file|invalid load key, |unpickling stack underflow|Unable to (?:synchronously )?open file \(truncated file|Ran out of input",
        means="a file that the program loads is damaged, or was truncated while it was written",
        next="remove the newest checkpoint and start from the previous one; write checkpoints to a new name, then rename them",
    ),
    Pattern(
        cause="checkpoint-mismatch",
        regex=r"Error\(s\) in loading state_dict|size mismatch for|Missing key\(s\) in state_dict",
        means="the checkpoint belongs to another model than the one that loads it",
        next="give the program the right checkpoint, or start without one",
        passing=True,
    ),
    Pattern(
        cause="too-many-files",
        regex=r"Too many open files",
        means="the limit of open files was reached",
        next="`environment.setup: [ulimit -n 65536]`, or use fewer loader processes",
        passing=True,
    ),
    Pattern(
        cause="too-many-threads",
        regex=r"can't start new thread|pthread_create failed|Resource temporarily unavailable|libgomp: Thread creation failed",
        means="the limit of processes and threads was reached",
        next="`environment.setup: [ulimit -u unlimited]`, or use fewer loader processes and threads",
        passing=True,
    ),
    Pattern(
        cause="mpi-slots",
        regex=r"There are not enough slots available|More processes requested than permitted",
        means="MPI was asked for more ranks than the nodes have slots",
        next="compare `resources.ranks_per_node` with what `dlrun plan` shows",
    ),
    Pattern(
        cause="fabric",
        regex=r"no usable transports|ibv_\w+ failed|NET/(?:IB|OFI) : .*(?:[Ee]rror|failed)|UCX  ERROR|libfabric:.*(?:error|failed)|got completion.*error \d+",
        means="the fabric failed, or could not be used",
        next="exclude the node that reported it first (`resources.exclude`) and submit again; `dlrun plan` shows the fabric's settings and their reasons",
    ),
    Pattern(
        cause="environment",
        regex=r"(\S+)/bin/activate: No such file or directory|(EnvironmentNameNotFound: .*)",
        means="the job's environment does not exist on the node: {1}",
        next="correct `environment.venv` or `conda`: it must exist on the compute nodes, too",
    ),
    Pattern(
        cause="fabric-interface",
        regex=r"Unable to find (?:interface|address) for: (\S+)|no socket interface found|Device \"(\S+)\" does not exist|there is no interface `?([^`\s]+)`? on this node",
        means="a node does not have the network interface {1} that is set for the job",
        next="correct `fabric.interfaces` in the site profile; `ip -brief link` on a compute node lists its interfaces",
    ),
    Pattern(
        cause="rendezvous",
        regex=r"RendezvousTimeoutError|RendezvousConnectionError|DistStoreError|The client socket has timed out|waiting for clients\. \d+/\d+ clients joined|Gloo connectFullMesh failed|DLRUN_MASTER_ADDR|No route to host",
        means="ranks did not find one another in time",
        next="check whether a rank never started (`dlrun logs JOB --rank all`), then the site's `rendezvous` rule",
    ),
    Pattern(
        cause="not-a-number",
        regex=r"(?i)\b(?:loss|gradient|grad_norm)\b.{0,30}\b(?:is|became|=|:)\s*(?:nan|inf)\b|FloatingPointError|NaN or Inf found",
        means="the loss or a gradient is not a number (NaN)",
        next="lower the learning rate, clip gradients, and continue from an earlier checkpoint",
        passing=True,
    ),
    Pattern(
        cause="interpreter-missing",
        regex=r"(\S+): cannot execute: required file not found|(\S+): \S+\^M: bad interpreter|env: \W?(\w+)\\r\W?: No such file",
        means="the program in the first line of a script (`{1}`) does not exist on the node; with Windows line ends (CRLF) its name ends with a carriage return",
        next="`sed -i 's/\\r$//' FILE` if `file FILE` shows CRLF; otherwise correct its first line (`#!/bin/bash`)",
        passing=True,
    ),
    Pattern(
        cause="command-missing",
        regex=r"(\S+): (?:command not found|cannot execute)|execve\(\): (\S+): No such file or directory|can't open file '([^']+)'",
        means="`{1}` does not exist or cannot be run on the node",
        next="give its full path, or the environment that has it",
        passing=True,
    ),
    Pattern(
        cause="permission",
        regex=r"Permission denied",
        means="the job may not read, write or run something",
        next="see the line above, and `ls -l` of the file that it names",
        passing=True,
    ),
    Pattern(
        cause="file-missing",
        regex=r"FileNotFoundError: (?:\[Errno 2\] No such file or directory: )?(.+)|([^\s:]+): No such file or directory$|No such file or directory:? (.+)",
        means="a file does not exist: {1}",
        next="check the path on a compute node; relative paths start at the spec's `directory`",
        passing=True,
    ),
    Pattern(
        cause="collective-timeout",
        regex=r"Watchdog caught collective operation timeout|Timed out waiting \d+ms for (?:send|recv)|Socket Timeout|Horovod has timed out|Stalled (?:ranks|ops)",
        means="a rank waited too long for the others: one of them stopped, or is much slower",
        next="compare the last lines of all ranks: `dlrun logs JOB --rank all`",
        consequence=True,
    ),
    Pattern(
        cause="peer-lost",
        regex=r"Connection (?:reset|closed) by peer|ncclRemoteError|Broken pipe|remote process exited|Connection refused|ncclSystemError|ncclInternalError|DistBackendError: |NCCL communicator was aborted|failed to recv, got 0 bytes|Socket closed|HorovodInternalError|stopped sending heartbeats",
        means="a rank lost the connection to another one",
        next="find why the other one ended: `dlrun logs JOB --rank all`",
        consequence=True,
    ),
    Pattern(
        cause="killed",
        regex=r"exitcode\s*: -9\b|Signal 9 \(SIGKILL\) received by PID|died with <Signals\.SIGKILL",
        means="a process was killed (SIGKILL), often because memory ran out",
        next="ask for more with `resources.memory_per_node`; if that does not help, see what else runs on the node",
        consequence=True,
    ),
    Pattern(
        cause="segmentation-fault",
        regex=r"exitcode\s*: -11\b|Signal 11 \(SIGSEGV\) received by PID|died with <Signals\.SIGSEGV",
        means="a process crashed (SIGSEGV), in compiled code",
        next="update or rebuild the library at the top of the stack; `environment.variables: {PYTHONFAULTHANDLER: 1}` shows it",
        consequence=True,
    ),
)

EXCEPTION = Pattern(
    cause="exception",
    regex=r"^\s*(?:(?:\[[^\]\s]{1,40}\](?:<std(?:err|out)>)?|\([^()]{0,60}\bpid=\d+[^()]{0,60}\)):?\s*){0,3}(?:what\(\): +(\S.{0,120})|((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Expired|Iteration|Failure)(?::?\s*$|: .{0,120})))",
    means="the program raised {1}",
    next="the whole traceback: `dlrun logs JOB --rank {rank}`",
)
"""The last line of a traceback, or a C++ exception, after the line prefixes of torchrun, mpirun and Ray."""

COMMAND_MISSING = next(pattern for pattern in PATTERNS if pattern.cause == "command-missing")
"""For a shell that did not find the program (exit code 126 or 127)."""

LAUNCHER_MISSING = Pattern(
    cause="launcher",
    regex="",
    means="the launcher, or a program that the job's script runs, does not exist: `{1}`",
    next="correct `launcher.program` in the site profile, or load the module that has it (`environment.modules`)",
)
"""For a program missing in the job's own script."""

BY_STATE = {
    State.TIMED_OUT: ("walltime", "the walltime was exceeded", "ask for more `resources.walltime`, or give `checkpoint:` and `on_failure.requeue`"),
    State.OUT_OF_MEMORY: ("memory", "a node's memory, or the job's part of it, ran out", "ask for more with `resources.memory_per_node`, or use fewer data-loader processes"),
    State.NODE_FAILED: ("node", "a node died", "submit again; `on_failure.requeue` does so automatically"),
    State.PREEMPTED: ("preempted", "a job of higher priority took its nodes", "submit again; `on_failure.requeue` does so automatically"),
    State.CANCELLED: ("cancelled", "it was cancelled by its user", "`dlrun resubmit JOB` submits it again"),
    State.CANCELLED_BY_ADMIN: ("cancelled-by-admin", "it was cancelled by an administrator", "ask the centre, then `dlrun resubmit JOB`"),
    State.LOST: ("lost", "how it ended is unknown", "see the end of its log: `dlrun logs JOB --rank job`"),
}  # fmt: skip
"""State that is a cause by itself -> (cause, meaning, next step)."""

DEPENDENCY = (
    "dependency",
    "it can never start, because a job under `after` did not end as `after` requires",
    "correct that job, and submit this one again with the new job under `after:`; `dlrun cancel JOB` removes it from the queue",
)
"""A job whose dependency can never be met."""

BY_NOTE = {
    "hang": ("hang", "no rank wrote or computed anything for the time that `hang` allows", "see where each rank waited, in its log and {stacks}; a rank in another place than the others is the likely cause"),
    "placement": ("placement", "the placement of ranks differs from the plan: the first {1}", "`dlrun verify` with its spec compares every rank and names the likely cause"),
    "node failed": ("node", "too few of its nodes are good: {1}", "`dlrun logs JOB --rank job` names the bad ones; request more `spare_nodes`, or report them to the centre"),
    "environment": ("environment", "the environment of a node differs from that of the first node: {1}", "have `environment.venv` or `conda` on a file system that all nodes see, or copy it to each: `environment.stage: true`; exclude the node (`resources.exclude`) if only it is wrong"),
    "fabric": ("fabric", "the job fell back to a slower network: {1}", "see the library's messages in {log} before the selected transport (NCCL: `NET/`); with `fabric_check: warn` the job runs nevertheless"),
}  # fmt: skip
"""Reason in a job's note -> (cause, meaning, next step); `{1}`: the note's detail."""

_EARLY = (
    "user-signal",
    "it received a user signal (SIGUSR1 or SIGUSR2), which it does not handle",
    "schedulers send these before a limit is reached, and so does `checkpoint`: handle the signal in the program, or find its sender among the options of the job and the site",
)
SIGNALS = {
    138: _EARLY,
    140: _EARLY,
    137: ("killed", "it was killed (SIGKILL), for an unknown reason: neither memory nor walltime is known to be used up", "check what else runs on the node, and the node's system log"),
    139: ("segmentation-fault", "it crashed (SIGSEGV), in compiled code", "update or rebuild the library at the top of the stack; `environment.variables: {PYTHONFAULTHANDLER: 1}` shows it"),
    143: ("terminated", "it was terminated (SIGTERM), but not by the job", "find what else ends processes: a launcher inside the command, a time limit of its own, another user"),
    136: ("arithmetic", "it crashed (SIGFPE): a division by zero in compiled code", "`environment.variables: {PYTHONFAULTHANDLER: 1}` shows where"),
    134: ("abort", "it aborted (SIGABRT), in compiled code", "the line before the abort in its log has the reason"),
    135: ("shared-memory", "it crashed (SIGBUS): a mapped file or shared memory was truncated, or is full", "check whether /dev/shm or a file system is full"),
    132: ("illegal-instruction", "it was built for a CPU that this node does not have (SIGILL)", "build it on a compute node, or ask for the right one with `resources.constraint`"),
}  # fmt: skip
"""Exit code of a signal (128 + its number) -> (cause, meaning, next step), for logs without evidence."""
