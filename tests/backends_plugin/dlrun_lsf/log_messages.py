"""What LSF writes into the log of a job, for `dlrun why`.

Source: https://www.ibm.com/docs/SSWRJV_10.1.0/lsf_admin/termination_reasons_lsf.html.
"""

from __future__ import annotations

from dlrun.schedulers.log_forms import Form, Writer

_SOURCE = "https://www.ibm.com/docs/SSWRJV_10.1.0/lsf_admin/termination_reasons_lsf.html"
WRITERS = (
    Writer(
        name="LSF",
        source=_SOURCE,
        forms=(
            Form(
                cause="cancelled",
                texts=("TERM_BUCKET_KILL: {1}",),
                means="it was cancelled together with others: {1}",
            ),
        ),
    ),
)
