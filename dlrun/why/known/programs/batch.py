"""How LSF names why it ended a job, and what schedulers print of a job's files, cores and clients."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_PBS = "https://github.com/openpbs/openpbs/blob/master/src/resmom/"
_LSF = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bhist-termination-reasons"


# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="schedulers about files and requests",
        source=_PBS,
        forms=(
            Form(
                cause="cpu-time",
                texts=(
                    "PBS: job killed: ncpus {} exceeded limit {}",
                    "PBS: job killed: cpupercent {} exceeded limit {}",
                ),
                source="https://github.com/openpbs/openpbs/blob/master/src/resmom/mom_main.c",
                means="the job used more cores than it had requested (ncpus), and the scheduler ended it",
                check="the number of threads of each rank (`OMP_NUM_THREADS`, data loaders), and `dlrun plan`",
                next="start as many ranks and threads as the job has cores (`environment.variables: {OMP_NUM_THREADS: 8}`), or ask for more: `resources.cpus_per_rank`",
            ),
            Form(
                cause="scheduler",
                texts=("Post job file processing error; job {1}", "Unable to copy file {} to {1}"),
                source=_PBS + "stage_func.c",
                means="PBS could not copy the job's output to its place, and has kept it on the node: {1}",
                check="`scp` from that node to the host that it names",
                next="let `ssh` between the hosts work without a prompt, or have PBS copy locally (`$usecp` of its MoM); the output is in the directory `undelivered` (or `spool`) of that node",
            ),
            Form(
                cause="scheduler",
                texts=("Unable to initialize environment because of error: {1}",),
                source="https://github.com/jgurtowski/ectools/issues/6",
                means="a client of Grid Engine does not find its master: {1}",
                check="`echo $SGE_ROOT $SGE_CELL` and `qhost` on the node",
                next="load the settings of Grid Engine there (`source $SGE_ROOT/default/common/settings.sh`), or submit on a login node",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="LSF",
        source=_LSF,
        forms=(
            Form(
                cause="memory-limit",
                texts=("TERM_MEMLIMIT: {1}", "TERM_SWAP: {1}"),
                source=_LSF,
                exact=True,
            ),
            Form(
                cause="walltime", texts=("TERM_RUNLIMIT: {1}", "TERM_DEADLINE: {1}"), source=_LSF, exact=True
            ),
            Form(cause="cpu-time", texts=("TERM_CPULIMIT: {1}",), source=_LSF, exact=True),
            Form(
                cause="too-many-threads",
                texts=("TERM_PROCESSLIMIT: {1}", "TERM_THREADLIMIT: {1}"),
                source=_LSF,
                exact=True,
            ),
            Form(cause="preempted", texts=("TERM_PREEMPT: {1}",), source=_LSF, exact=True),
            Form(
                cause="cancelled", texts=("TERM_OWNER: {1}", "TERM_FORCE_OWNER: {1}"), source=_LSF, exact=True
            ),
            Form(
                cause="cancelled",
                texts=("TERM_ADMIN: {1}", "TERM_FORCE_ADMIN: {1}"),
                source=_LSF,
                exact=True,
                means="an administrator cancelled it",
                next="ask the centre, then `dlrun resubmit JOB`",
            ),
            Form(
                cause="scheduler",
                texts=(
                    "TERM_CWD_NOTEXIST: {1}",
                    "TERM_PRE_EXEC_FAIL: {1}",
                    "TERM_LOAD: {1}",
                    "TERM_RMS: {1}",
                    "TERM_ZOMBIE: {1}",
                    "TERM_CSM_ALLOC: {1}",
                ),
                source=_LSF,
                exact=True,
                means="LSF could not run the job on a node, or gave it up: {1}",
                next="correct the directory if the line names it; otherwise exclude the node (`resources.exclude`), submit again, and report it to the centre",
            ),
            Form(
                cause="walltime",
                texts=("TERM_WINDOW: {1}", "TERM_ESTIMATED_RUNTIME: {1}"),
                source=_LSF,
                exact=True,
            ),
            Form(
                cause="preempted",
                texts=("TERM_RC_RECLAIM: {1}", "TERM_REQUEUE_ADMIN: {1}", "TERM_BUCKET_KILL: {1}"),
                source=_LSF,
                exact=True,
            ),
            Form(
                cause="terminated",
                texts=("TERM_EXTERNAL_SIGNAL: {1}",),
                source=_LSF,
                exact=True,
                consequence=True,
            ),
            Form(
                cause="killed",
                texts=(
                    "TERM_UNKNOWN: {1}",
                    "TERM_OTHER: {1}",
                    "Exited by signal 9.",
                    "Exited with exit code 137.",
                ),
                source=_LSF,
                exact=True,
                consequence=True,
            ),
            Form(
                cause="segmentation-fault",
                texts=("Exited by signal 11.", "Exited with exit code 139."),
                source=_LSF,
                consequence=True,
            ),
            Form(
                cause="abort",
                texts=("Exited by signal 6.", "Exited with exit code 134."),
                source=_LSF,
                consequence=True,
            ),
            Form(
                cause="terminated",
                texts=("Exited by signal 15.", "Exited with exit code 143."),
                source=_LSF,
                consequence=True,
            ),
        ),
    ),
)
