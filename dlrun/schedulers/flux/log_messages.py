"""What Flux writes into the log of a job."""

from __future__ import annotations

from dlrun.schedulers.log_forms import Form, Writer

# ruff: noqa: E501 - a table
WRITERS = (
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
                ),
                source="https://github.com/flux-framework/flux-core/tree/master/src/modules/job-exec",
                means="Flux counts {1} as lost: the node died, or the job's broker or shell there was killed",
            ),
            Form(
                cause="node",
                anywhere=True,
                texts=("job.exception type=node-failure", "lost connection to broker"),
                source="https://github.com/flux-framework/flux-core/tree/master/src/modules/job-exec",
                means="Flux counts a node as lost: it died, or the job's broker or shell there was killed",
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
                    "unsatisfiable request",
                ),
                source="https://github.com/flux-framework/flux-sched/blob/master/qmanager/",
                means="this instance of Flux does not have the nodes, cores or GPUs that were requested",
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
            Form(
                cause="fabric",
                anywhere=True,
                texts=("flux-slingshot: {1}: cxil_alloc_svc",),
                source="https://github.com/flux-framework/flux-coral2/issues/407",
                means="Flux could not reserve the Slingshot adapter {1} of a node for the job",
                check="`fi_info -p cxi` on the node, and its log of the prolog",
                next="exclude the node (`resources.exclude`) and report it to the centre: its driver of Slingshot rejects what Flux asks for",
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
            Form(
                cause="left-early",
                anywhere=True,
                texts=("task rank {1} exited (Exit 0) and exit-timeout={} has expired",),
                source="https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man1/flux-run.html",
                means="rank {1} ended with exit code 0 while others ran on, and Flux ended these a while later (`exit-timeout`)",
                next="give every rank the same number of steps; where ranks may end at different times, let the launcher wait: `launcher: {name: flux, arguments: [-o, exit-timeout=none]}` in the site profile",
            ),
        ),
    ),
)
