"""What further batch systems write into the log of a job: LSF, Fujitsu's job manager."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_LSF = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bhist-termination-reasons"


WRITERS = (
    Writer(
        name="LSF",
        source=_LSF,
        forms=(
            Form(
                cause="memory-limit",
                texts=("TERM_MEMLIMIT: {1}", "TERM_SWAP: {1}"),
                source=_LSF,
            ),
            Form(cause="walltime", texts=("TERM_RUNLIMIT: {1}", "TERM_DEADLINE: {1}"), source=_LSF),
            Form(cause="cpu-time", texts=("TERM_CPULIMIT: {1}",), source=_LSF),
            Form(
                cause="too-many-threads",
                texts=("TERM_PROCESSLIMIT: {1}", "TERM_THREADLIMIT: {1}"),
                source=_LSF,
            ),
            Form(cause="preempted", texts=("TERM_PREEMPT: {1}",), source=_LSF),
            Form(cause="cancelled", texts=("TERM_OWNER: {1}", "TERM_FORCE_OWNER: {1}"), source=_LSF),
            Form(
                cause="cancelled",
                texts=("TERM_ADMIN: {1}", "TERM_FORCE_ADMIN: {1}"),
                source=_LSF,
                means="an administrator cancelled it",
                next="ask the centre, then `dlrun resubmit JOB`",
            ),
        ),
    ),
)
