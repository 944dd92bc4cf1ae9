"""What other schedulers write into the log of a job: PBS, Grid Engine, Flux."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_PBS = "https://github.com/openpbs/openpbs/blob/master/src/resmom/"
_NEAR = "exclude the node that it names (`resources.exclude`) and submit again; if every node is affected, check with `dlrun verify` whether they reach one another and their clocks agree"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="PBS",
        source="https://github.com/openpbs/openpbs",
        forms=(
            Form(
                cause="memory-limit",
                texts=(
                    "PBS: job killed: mem {} exceeded limit",
                    "PBS: job killed: vmem {} exceeded limit",
                    "exceeded MEM usage hard limit",
                    "Job exceeded a memory resource limit",
                ),
                source="https://github.com/nf-core/sarek/issues/541",
            ),
            Form(
                cause="walltime",
                texts=("PBS: job killed: walltime {} exceeded limit", "exceeded its walltime limit"),
                source="https://github.com/adaptivecomputing/torque",
            ),
            Form(
                cause="disk-full",
                texts=(
                    "killed due to exceeding jobfs quota",
                    "job killed: file size exceeded",
                    "exceeded scratch_local",
                ),
                source="https://github.com/payu-org/payu/issues/587",
                means="the job used more local storage than it had requested",
                next="ask for more local storage (`resources.node_local`), or write less there",
            ),
            Form(
                cause="memory-limit",
                texts=(
                    "=>> PBS: job killed: mem {} exceeded limit {}",
                    "=>> PBS: job killed: vmem {} exceeded limit {}",
                    "=>> PBS: job killed: pmem {} exceeded limit {}",
                    "=>> PBS: job killed: pvmem {} exceeded limit {}",
                    "Cgroup mem limit exceeded",
                    "Cgroup memsw limit exceeded",
                    "job killed due to exceeding mem",
                ),
                source=_PBS + "linux/mom_mach.c",
            ),
            Form(
                cause="walltime",
                texts=("=>> PBS: job killed: walltime {} exceeded limit {}",),
                source=_PBS + "mom_main.c",
            ),
            Form(
                cause="cpu-time",
                texts=(
                    "=>> PBS: job killed: cput {} exceeded limit {}",
                    "=>> PBS: job killed: pcput {} exceeded limit {}",
                ),
                source=_PBS + "mom_main.c",
            ),
            Form(
                cause="node",
                texts=(
                    "=>> PBS: job killed: node {1} requested job terminate",
                    "=>> PBS: job killed: node {1}",
                ),
                source=_PBS + "mom_comm.c",
            ),
            Form(
                cause="scheduler",
                texts=(
                    "=>> PBS: job killed: {1}",
                    "PBS: chdir to {1} failed",
                    "job held, too many failed attempts to run",
                ),
                source=_PBS + "mom_main.c",
            ),
            Form(
                cause="launcher",
                texts=("pbs_tmrsh: {1}", "pbsdsh: error {1}", "tm_spawn: error {1}", "tm_init: {1}"),
                source="https://github.com/openpbs/openpbs/blob/master/src/cmds/pbs_tmrsh.c",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="Grid Engine",
        source="https://github.com/grisu48/gridengine",
        forms=(
            Form(
                cause="memory-limit",
                texts=(
                    'exceeds job hard limit "h_vmem"',
                    'exceeds job hard limit "h_rss"',
                    "h_vmem limit reached",
                    "exceeded hard limit h_vmem",
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/queue_conf.html",
            ),
            Form(
                cause="walltime",
                texts=(
                    "exceeded hard wallclock time",
                    'exceeds job hard limit "h_rt"',
                    'exceeds job soft limit "s_rt"',
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/queue_conf.html",
            ),
            Form(
                cause="cpu-time",
                texts=('exceeds job hard limit "h_cpu"',),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/queue_conf.html",
            ),
            Form(
                cause="node",
                texts=(
                    "commlib error: got select error ({1})",
                    "got select error (Connection refused)",
                    "commlib error: got read error ({1})",
                    "execd on host {1} not reachable",
                    "can't get connection to qlogin",
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman1/qrsh.html",
                means="the node's Grid Engine daemon did not answer",
                consequence=True,
            ),
            Form(
                cause="launcher",
                texts=(
                    "executing task of job {} failed: {1}",
                    "didn't accept task",
                    "a slave task of job {} failed",
                    'Your "qrsh" request could not be scheduled',
                    "could not get execution daemon",
                    "poll: protocol failure in circuit setup",
                    "error: executing task of job",
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman1/qrsh.html",
                next=_NEAR,
                passing=True,
            ),
            Form(
                cause="scheduler",
                texts=(
                    "failed changing into working directory:{1}",
                    "error: can't chdir to {1}",
                    "can't open output file",
                    "shepherd exited with exit status {1}",
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/accounting.html",
                passing=True,
            ),
            Form(
                cause="memory-limit",
                texts=(
                    'exceeds job hard limit "s_vmem"',
                    'exceeds job soft limit "s_vmem"',
                    'exceeds job hard limit "h_data"',
                    'exceeds job master hard limit "h_vmem"',
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/queue_conf.html",
            ),
            Form(
                cause="scheduler",
                texts=(
                    "failed assumedly before job:{1}",
                    "failed before prolog:{1}",
                    "failed opening input/output file:{1}",
                    "failed searching requested shell:{1}",
                    "failed in prolog:{1}",
                    "failed in pestart:{1}",
                ),
                source="https://gridscheduler.sourceforge.net/htmlman/htmlman5/sge_status.html",
            ),
        ),
    ),
    Writer(
        name="Flux",
        # Programs, the shell, and the log of a broker; its word about a closed connection or a missing file is not the program's.
        line=r"^(?:\d+\.\d+s: )?(?:flux-[\w.-]+(?:\[\d+\])?: |job\.exception .* node failure on )|^(?:[A-Z][a-z]{2} +\d+ [\d:.]+ \w+ \d{4} |\d{4}-\d\d-\d\d[T ]\S+ )?[\w-]+\.(?:emerg|alert|crit|err|warning|notice|info|debug)\[\d+\]: ",
        source="https://github.com/flux-framework/flux-core",
        forms=(
            Form(
                cause="command-missing",
                anywhere=True,
                texts=(
                    "start failed: {1}: No such file or directory",
                    "start failed: {1}: Permission denied",
                    "start failed: {1}: Exec format error",
                ),
                source="https://github.com/flux-framework/flux-core/issues/4195",
            ),
            Form(
                cause="command-missing",
                texts=("flux: `{1}' is not a flux command",),
                anywhere=True,
                next="have one installation of Flux in the job's environment, and unset `FLUX_EXEC_PATH` and `FLUX_MODULE_PATH` of another",
            ),
            Form(
                cause="scheduler",
                anywhere=True,
                texts=("job shell exec error on broker {1} (rank",),
                source="https://github.com/flux-framework/flux-core/issues/6568",
            ),
            Form(
                cause="memory",
                anywhere=True,
                texts=("oom: Memory cgroup out of memory: killed",),
                source="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-shell.html",
            ),
            Form(
                cause="terminated",
                anywhere=True,
                texts=(
                    "task rank {1} failed (Exit 143) and exit-on-error is set",
                    "task rank {1} failed (Terminated) and exit-on-error is set",
                ),
                source="https://github.com/flux-framework/flux-core/issues/7328",
                means="rank {1} was asked to end (SIGTERM) by something outside the job, and the launcher ended the others",
                consequence=True,
            ),
            Form(
                cause="mpi-ended",
                anywhere=True,
                texts=("task rank {1} and exit-on-error is set",),
                source="https://github.com/flux-framework/flux-core/issues/7328",
                means="rank {1}, and the launcher ended the others",
                consequence=True,
            ),
            Form(
                cause="mpi-ended",
                anywhere=True,
                texts=("failed and exit-on-error is set", "exit-timeout expired"),
                regex=r"(?i)exited (?:\(Exit [1-9]\d*\) )?and exit-timeout=\S+ has expired",
                source="https://github.com/flux-framework/flux-core/issues/7328",
                means="a rank ended, and the launcher ended the others",
                consequence=True,
            ),
            Form(
                cause="walltime",
                anywhere=True,
                texts=(
                    "job.exception type=timeout severity=0 resource allocation expired",
                    "resource allocation expired",
                ),
                source="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-run.html",
            ),
            Form(
                cause="node",
                anywhere=True,
                texts=(
                    "node failure on {1} (",
                    "node failure on {1}",
                    "lost contact with job shell on {1}",
                    "job.exception type=node-failure",
                    "lost connection to broker",
                ),
                source="https://github.com/flux-framework/flux-core/tree/master/src/modules/job-exec",
                means="Flux counts {1} as lost: the node died, or the job's broker or shell there was killed",
            ),
            # A broker of the job's own instance; a dead node is in the log of the instance above it.
            Form(
                cause="node",
                anywhere=True,
                texts=("dead to Flux: {1} (rank",),
                source="https://github.com/flux-framework/flux-core/blob/master/src/broker/state_machine.c",
                means="the job's broker of Flux on {1} ended before the job did: a signal or a crash ended it, or the node",
                check="the system log of that node, and `flux resource list`",
                next="find what ended it: a signal to `flux-broker` or `flux-shell` there, or an error of the node; then submit again",
                consequence=True,
            ),
            Form(
                cause="launcher",
                anywhere=True,
                texts=(
                    'type="unsatisfiable"',
                    "type=alloc note={1}unsatisfiable",
                    "unsatisfiable constraint",
                ),
                source="https://github.com/flux-framework/flux-sched/blob/master/qmanager/",
                means="more nodes, cores or GPUs were requested than this instance of Flux has",
                check="`flux resource list` in the job",
                next="request fewer, or correct the constraint; `flux resource list` shows what there is; if each node has an instance of its own, start one for all nodes (`srun --mpi=none flux start`)",
                passing=True,
            ),
            Form(
                cause="launcher",
                anywhere=True,
                texts=(
                    "flux-job: task(s) exited with exit code {}: {1}",
                    "alloc denied due to type=",
                    "Unable to connect to Flux",
                ),
                source="https://github.com/flux-framework/flux-core/blob/master/src/cmd/flux-job.c",
                passing=True,
            ),
            Form(
                cause="cancelled",
                anywhere=True,
                texts=("job.exception type=cancel severity=0",),
                source="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-cancel.html",
                consequence=True,
            ),
            Form(
                cause="killed",
                anywhere=True,
                texts=(
                    "task {}: exited signal: Killed",
                    "Killed: job shell",
                    "task(s) Killed",
                    "task(s) killed",
                ),
                source="https://github.com/flux-framework/flux-core/tree/master/src/shell",
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                anywhere=True,
                texts=("task(s) Segmentation fault",),
                source="https://github.com/flux-framework/flux-core/tree/master/src/shell",
                consequence=True,
            ),
            # A function of Flux's own library fails where its broker is gone.
            Form(
                cause="launcher",
                anywhere=True,
                texts=(),
                regex=r"\bflux-(?:shell|job|run|broker)(?:\[\d+\])?: (?:FATAL|ERROR): (?!task-exit: |(?:\S+: )?flux_\w+: )(.+)",
                source="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-shell.html",
                consequence=True,
            ),
            Form(
                cause="launcher",
                anywhere=True,
                texts=("job.exception type=exec severity=0 {1}",),
                source="https://github.com/flux-framework/flux-core/blob/master/src/cmd/flux-job.c",
                consequence=True,
            ),
        ),
    ),
)
