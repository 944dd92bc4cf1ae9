"""What PBS writes into the log of a job."""

from __future__ import annotations

from dlrun.schedulers.log_forms import Form, Writer

_PBS = "https://github.com/openpbs/openpbs/blob/master/src/resmom/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="PBS and Torque around a job",
        source="https://github.com/adaptivecomputing/torque",
        forms=(
            Form(
                cause="launcher",
                texts=(
                    "tm_init failed, rc = {1}",
                    "tm_spawn failed, rc = {1}",
                    "tm_poll failed, rc = {1}",
                ),
                # `pbsdsh -v` also prints what it has started.
                regex=r"(?<!\w)TM_[A-Z_]+ error on (\S.*)|(?<!\w)pbsdsh: (?!spawned |rescinfo |.* exit status 0$)(\S.*)|\b(TM_E(?:SYSTEM|NOEVENT|NOTCONNECTED|UNKNOWNCMD|NOTIMPLEMENTED|BADENVIRONMENT|NOTFOUND|BADINIT|PERM|SESSION|USERERR|NOTPARENT))\b",
                source="https://github.com/adaptivecomputing/torque/blob/master/src/cmds/pbsdsh.c",
                means="PBS could not start the processes on the job's other nodes (its TM interface): {1}",
                check="`pbsnodes NODE`, and `echo $PBS_NODEFILE $PBS_JOBID` where the command runs (not in a container without them)",
                next="start it directly from the job's script; if it comes back on one node, exclude it (`resources.exclude`) and report it to the centre",
                passing=True,
            ),
            Form(
                cause="scheduler",
                texts=(
                    "prologue error{1}",
                    "PBS: prologue {1}",
                    "epilogue error{1}",
                    "PBS: job could not be started{1}",
                    "pbs_mom: {1}",
                    "prolog exited with exit status {1}",
                    "Execution server rejected request",
                    "Aborted by PBS Server",
                    "Job cannot be executed",
                    "Bad UID for job execution",
                ),
                source="https://github.com/adaptivecomputing/torque/blob/master/src/resmom/prolog.c",
                means="what the scheduler does on a node before a job failed there",
                next="exclude the node (`resources.exclude`), submit again, and report it to the centre",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="qsub",
        source="https://github.com/openpbs/openpbs/blob/master/src/cmds/qsub.c",
        forms=(
            Form(
                cause="scheduler",
                texts=(
                    "qsub: submit error ({1})",
                    "qsub: Job exceeds {1}",
                    "qsub: Job rejected by {1}",
                    "qsub: Unknown queue{1}",
                    "qsub: Illegal attribute or resource value {1}",
                ),
                regex=r"^qsub: (?!waiting for job|job \S+ (?:ready|completed)|Unauthorized)(\w.*)",
                source="https://github.com/cBio/cbio-cluster/issues/93",
                means="a command of the job submitted another one, which the scheduler rejected: {1}",
                check="`qstat -Qf QUEUE` shows the queue's limits (where `qstat` has no such option, `qconf -sq QUEUE`)",
                next="correct what that job requests (`#PBS` or `#$` lines and options of `qsub`), and whether this node may submit",
                passing=True,
            ),
        ),
    ),
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
                    "=>> PBS: job killed: pmem {} exceeded limit {}",
                    "=>> PBS: job killed: pvmem {} exceeded limit {}",
                    "Cgroup mem limit exceeded",
                    "Cgroup memsw limit exceeded",
                    "job killed due to exceeding mem",
                ),
                source=_PBS + "linux/mom_mach.c",
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
                texts=("pbs_tmrsh: {1}", "tm_spawn: error {1}", "tm_init: {1}"),
                source="https://github.com/openpbs/openpbs/blob/master/src/cmds/pbs_tmrsh.c",
                passing=True,
            ),
        ),
    ),
)
