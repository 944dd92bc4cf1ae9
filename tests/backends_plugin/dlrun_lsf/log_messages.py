"""What LSF writes into the log of a job, for `dlrun why`.

Source: https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=problems-error-messages.
"""

from __future__ import annotations

from dlrun.schedulers.log_forms import Form, Writer

_SOURCE = "https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=problems-error-messages"
WRITERS = (
    Writer(
        name="LSF",
        source=_SOURCE,
        forms=(
            Form(
                cause="scheduler",
                texts=("LSF daemon (LIM) not responding ... still trying",),
                means="the daemon of LSF on a node did not answer a command of the job",
            ),
        ),
    ),
)
