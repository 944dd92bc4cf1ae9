"""What Grid Engine writes into the log of a job."""

from __future__ import annotations

from dlrun.schedulers.log_forms import EXCLUDE_THE_NODE, Form, Writer

WRITERS = (
    Writer(
        name="Grid Engine: output and submission",
        source="https://github.com/grisu48/gridengine",
        forms=(
            Form(
                cause="permission",
                texts=(
                    'can\'t open output file "{1}": Permission denied',
                    'can\'t open file "{1}": Permission denied',
                ),
                source="https://github.com/grisu48/gridengine/blob/master/source/daemons/shepherd/",
                means="the scheduler may not write the job's output: {1}",
                check="`ls -ld` of its directory on a compute node, as this user",
                next="keep the job directories (`DLRUN_JOBS`) where the compute nodes may write them",
            ),
            Form(
                cause="scheduler",
                texts=("Unable to run job: {1}",),
                source="https://github.com/grisu48/gridengine/blob/master/source/clients/qsub/",
                means="a command of the job submitted another one, which the scheduler rejected: {1}",
                check="`qconf -sq QUEUE` shows the queue's limits",
                next="correct what that job requests (`#$` lines and options of `qsub`), and whether this node may submit",
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
                next=EXCLUDE_THE_NODE,
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
)
