"""What each cause means, how to verify it, and the way out: those of communication, launchers, schedulers and programs, and all."""

from __future__ import annotations

from collections.abc import Mapping

from dlrun.why.known.causes_node import MACHINE
from dlrun.why.known.form import Advice

_LOG = "`dlrun logs JOB --rank {rank}` has the lines around it"

SAVING = "; to save before the end, set `checkpoint`"
"""The end of a way out that a job with `checkpoint` does not need."""

# ruff: noqa: E501 - a table
CAUSES: Mapping[str, Advice] = {
    **MACHINE,
    # --- Communication
    "fabric": Advice(
        means="the fabric failed, or could not be used",
        check="`ibstat` or `fi_info` on the node that reported it first; `dlrun verify` with its spec tests each pair of nodes",
        next="exclude the node that reported it first (`resources.exclude`) and submit again; `dlrun plan` shows the fabric's settings and their reasons",
    ),
    "fabric-interface": Advice(
        means="a node does not have the network interface or address that is set for the job, or no usable one",
        named="a node does not have the network interface {1} that is set for the job",
        check="`ip -brief link` on a compute node",
        next="correct `fabric.interfaces` in the site profile; `ip -brief link` on a compute node lists its interfaces",
    ),
    "fabric-provider": Advice(
        means="the communication library found no provider for the fabric that it is set to",
        check="`fi_info -p PROVIDER` (or `ucx_info -d`) on a compute node, and `FI_PROVIDER`, `FI_PROVIDER_PATH`, `UCX_TLS` in the job",
        next="correct `fabric` in the site profile, or unset `FI_PROVIDER`, `FI_PROVIDER_PATH`, `UCX_TLS` and `OMPI_MCA_pml` (or `mtl`, `btl`) if the job or a module sets them; inside a container the fabric's libraries must be mounted",
    ),
    "rendezvous": Advice(
        means="ranks did not find one another in time",
        check="whether a rank never started: `dlrun logs JOB --rank all`",
        next="check whether a rank never started (`dlrun logs JOB --rank all`), then the site's `rendezvous` rule",
        roots=("socket-path", "launcher"),
    ),
    "socket-path": Advice(
        means="the name of the temporary directory is too long for a socket (108 characters)",
        check="`echo $TMPDIR` in the job",
        next="`environment.variables: {TMPDIR: /tmp}`, or another short directory that is the node's own; for Ray `RAY_TMPDIR`",
    ),
    "rendezvous-closed": Advice(
        means="the rendezvous was closed before this agent joined it: another agent had ended, or an old one with the same id was still there",
        check="which agent ended first: `dlrun logs JOB --rank all`",
        next="find why the first agent ended; give every start its own id (`--rdzv-id`), which dlrun does where it starts the agents",
    ),
    "no-libuv": Advice(
        means="this PyTorch was built without libuv, which its rendezvous uses by default since 2.4",
        check="`USE_LIBUV=0 python -m torch.distributed.run --standalone --no-python true` succeeds",
        next="set `environment.variables: {USE_LIBUV: '0'}`: the other back end of TCPStore does the same",
    ),
    "port-in-use": Advice(
        means="a port was taken by another process of the node",
        check="`ss -ltnp` on the node",
        next="let the program use DLRUN_MASTER_PORT rather than a port of its own, and submit again",
    ),
    "collective-mismatch": Advice(
        means="ranks called different collective operations, or the same with different shapes",
        check="`environment.variables: {TORCH_DISTRIBUTED_DEBUG: DETAIL}` names the operation of each rank",
        next="let all ranks take the same branches: the same number of batches, the same parameters in the loss",
    ),
    "collective-timeout": Advice(
        means="a rank waited too long for the others: one of them stopped, or is much slower",
        check="compare the last lines of all ranks",
        next="compare the last lines of all ranks: `dlrun logs JOB --rank all`",
    ),
    "peer-lost": Advice(
        means="a rank lost the connection to another one",
        check="which rank's log ends first: `dlrun logs JOB --rank all`",
        next="find why the other one ended: `dlrun logs JOB --rank all`",
    ),
    "communication": Advice(
        means="a communication library reported an error",
        named="a communication library reported an error: {1}",
        check="the lines around it on each rank (`dlrun logs JOB --rank all`); with `environment.variables: {NCCL_DEBUG: INFO}` NCCL writes more",
        next="see which rank reported it first; if a node recurs, exclude it (`resources.exclude`), otherwise compare the library's variables with those of `dlrun plan`",
    ),
    "rank-variables": Advice(
        means="the program does not see the variables with each rank's number and its peers",
        named="the program does not see the variable {1}, one of those with each rank's number and its peers",
        check="`dlrun plan --script` shows the variables; `env` at the beginning of the command shows what arrives",
        next="have nothing between dlrun and the program clear the environment (`env -i`, `sudo`, a container's `--cleanenv`, a new ssh session)",
    ),
    "library-setting": Advice(
        means="a communication library was given arguments or settings that it rejects",
        check="the variables that begin with `NCCL_`, `UCX_`, `FI_` or `OMPI_` in the job",
        next="remove or correct them in `environment.variables`; `dlrun plan` shows those that dlrun sets",
    ),
    "library-version": Advice(
        means="the ranks use different or incompatible versions of a communication library",
        check="`python -c 'import torch; print(torch.cuda.nccl.version())'` and `LD_LIBRARY_PATH` on each node",
        next="have the same environment on all nodes, and no second version in `LD_LIBRARY_PATH`",
    ),
    # --- MPI and launchers
    "launcher": Advice(
        means="the launcher could not start the ranks",
        named="the launcher could not start the ranks: {1}",
        check="`dlrun logs JOB --rank job` has all that the launcher reported",
        next="correct `launcher` (`program`, `arguments`) in the site profile; `dlrun logs JOB --rank job` has all of it",
    ),
    "ssh-connection": Advice(
        means="the ssh connection by which ranks are started failed",
        named="the ssh connection by which ranks are started failed: {1}",
        check="`ssh NODE true` from the first node, without a prompt",
        next="check that you can log in from each node to the others without a prompt (`ssh NODE true`); if only one fails, exclude it: `resources.exclude`",
    ),
    "mpi-daemon": Advice(
        means="MPI lost a daemon on a node, or could not start it there: the node died, or its network or ssh does not work",
        check="whether the node that it names answers; `dlrun verify` tests the nodes",
        next="exclude the node that it names (`resources.exclude`) and submit again; if every node is affected, give the interface in `fabric.interfaces` of the site profile",
    ),
    "mpi-pmi": Advice(
        means="the program's MPI does not fit the launcher: it was not built with the process manager (PMI or PMIx) that started the ranks",
        check="`srun --mpi=list`, and `ompi_info | grep -i pmi` (Open MPI) or `I_MPI_PMI_LIBRARY` (Intel MPI)",
        next="start it with its own launcher (`launcher: openmpi`, `intelmpi` or `hydra`), or with the right `--mpi=` of srun (`mpi` under `launcher` in the site profile)",
    ),
    "mpi-slots": Advice(
        means="MPI was to start more ranks than the nodes have slots",
        check="`dlrun plan` shows nodes and ranks",
        next="compare `resources.ranks_per_node` with what `dlrun plan` shows",
    ),
    "mpi-root": Advice(
        means="Open MPI refuses to start ranks as root",
        check="`id` in the job, or inside the container",
        next="run as an ordinary user; inside a container set `environment.variables: {OMPI_ALLOW_RUN_AS_ROOT: 1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: 1}`",
    ),
    "mpi-init": Advice(
        means="MPI could not be initialised",
        named="MPI could not be initialised: {1}",
        check="`dlrun logs JOB --rank all` has the lines before it; `dlrun verify` tests the nodes",
        next="check that program and launcher are of the same MPI (`ldd PROGRAM`, `environment.modules`)",
    ),
    "mpi-abort": Advice(
        means="a rank called MPI_Abort",
        named="a rank called MPI_Abort: {1}",
        check="the log of that rank: `dlrun logs JOB --rank all`",
        next="see the lines before it in that rank's log: `dlrun logs JOB --rank all`",
    ),
    "mpi-ended": Advice(
        means="a rank ended without MPI_Finalize, and the launcher ended the others",
        check="the log of that rank: `dlrun logs JOB --rank all`",
        next="see the end of that rank's log: `dlrun logs JOB --rank all`",
    ),
    # --- Scheduler
    "wrong-account": Advice(
        means="the account, partition and QOS do not go together",
        check="the accounts that the scheduler lists for you (`sacctmgr show assoc user=$USER`)",
        next="correct `resources.account`, `partition` or `qos`; `dlrun site show` has how accounts are found",
    ),
    "walltime": Advice(
        means="the walltime was exceeded",
        check="`dlrun usage --page JOB` compares the time with the request",
        next="ask for more `resources.walltime`, or give `checkpoint:` and `on_failure.requeue`",
    ),
    "cpu-time": Advice(
        means="the job used more CPU time than its limit",
        check="`ulimit -t` in a job, and the limits of the queue",
        next="ask the centre for a queue without this limit; dlrun's `resources.walltime` is not CPU time",
    ),
    "node": Advice(
        means="a node died",
        named="a node died: {1}",
        check="the scheduler's state of the node (`sinfo -N -l`, `pbsnodes NODE`, `qhost`)",
        next="submit again; `on_failure.requeue` does so automatically",
    ),
    "preempted": Advice(
        means="a job of higher priority took its nodes",
        check="the partition's or QOS's preemption (`scontrol show partition`)",
        next="submit again; `on_failure.requeue` does so automatically",
    ),
    "step-cancelled": Advice(
        means="the job's step was cancelled by somebody, not the job",
        named="the job's step {1} was cancelled by somebody, not the job",
        check="`sacct -j ID --format=JobID,State,ExitCode` shows who cancelled which step",
        next="`dlrun resubmit JOB` submits it again; to end a job use `dlrun cancel JOB`",
    ),
    "cancelled": Advice(
        means="it was cancelled",
        check="the scheduler's accounting names the user",
        next="`dlrun resubmit JOB` submits it again",
    ),
    "scheduler": Advice(
        means="the scheduler could not start the job or its processes on a node",
        named="the scheduler could not start the job or its processes on a node: {1}",
        check="the scheduler's log on that node",
        next="exclude the node that it names (`resources.exclude`), submit again, and report it to the centre",
    ),
    # --- The program
    "not-a-number": Advice(
        means="the loss or a gradient is not a number (NaN)",
        check="the loss in the log before it",
        next="lower the learning rate, clip gradients, and continue from an earlier checkpoint",
    ),
    "killed": Advice(
        means="a process was killed (SIGKILL); no log says by whom",
        check="the node's kernel log (`dmesg -T | grep -i oom`), and `dlrun usage JOB`",
        next="if they show that memory ran out, ask for more with `resources.memory_per_node`; else see what else runs on the node",
    ),
    "left-early": Advice(
        means="a rank ended with exit code 0 while the others still needed it",
        check="`dlrun logs JOB --rank all`: how that one ended",
        next="give every rank the same number of steps; where ranks may end at different times, let the launcher wait (`launcher: {arguments: …}` in the site profile)",
    ),
    "user-signal": Advice(
        means="a rank received a user signal (SIGUSR1 or SIGUSR2), which it, or the shell around it, does not handle",
        check="`dlrun logs JOB --rank job` and the time: `checkpoint` and `--signal` send theirs before the walltime only",
        next=f"find its sender: a user or an administrator (`scancel --signal`, which also reaches the shell of each rank), or an option of the job or the site{SAVING}",
    ),
    "terminated": Advice(
        means="a process was asked to end (SIGTERM) by something outside the program: a launcher, the scheduler or a user",
        check="`dlrun logs JOB --rank all`: which process ended first, and why",
        next="find what ends processes: the scheduler at a limit, a launcher inside the command, another user",
    ),
    "segmentation-fault": Advice(
        means="a process crashed (SIGSEGV), in compiled code",
        check="the stack in its log; `environment.variables: {PYTHONFAULTHANDLER: 1}` prints it",
        next="update or rebuild the library at the top of the stack; `environment.variables: {PYTHONFAULTHANDLER: 1}` shows it",
    ),
    "arithmetic": Advice(
        means="a process crashed (SIGFPE): a division by zero in compiled code, or a library that does not fit the GPU",
        check="`environment.variables: {PYTHONFAULTHANDLER: 1}` shows where",
        next="`environment.variables: {PYTHONFAULTHANDLER: 1}` shows where; update the library at the top of the stack",
    ),
    "abort": Advice(
        means="a process aborted (SIGABRT), in compiled code",
        check="the lines before it in its log",
        next="the line before the abort in its log has the reason",
    ),
    "loader": Advice(
        means="a data-loader process ended or did not answer",
        check="the lines of the loader process above it; run once with 0 loader processes",
        next="run with 0 loader processes to see its own error; use fewer of them if memory or threads run out",
        roots=("cuda-fork",),
    ),
    "configuration": Advice(
        means="the framework rejected the job's configuration",
        named="the framework rejected the job's configuration: {1}",
        check=_LOG,
        next="correct the option that the line names in the program's arguments or its configuration file",
    ),
    "ranks": Advice(
        means="the number of ranks does not fit the program's settings",
        named="the number of ranks does not fit the program's settings: {1}",
        check="`dlrun plan` shows nodes and ranks",
        next="correct the program's parallel sizes, or `resources.nodes` and `ranks_per_node`",
        roots=("mpi-pmi",),
    ),
}
"""Cause -> what it means, how to verify it, and the way out."""
