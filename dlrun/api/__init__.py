"""The Python interface: `from dlrun import api`, then `api.submit("spec.yaml").wait()`.

It prints nothing; what the commands report as an error is raised as `dlrun.errors.DlrunError`, with `message` and `help`. Begin
with `calls` (plan, submit, run, jobs), then `job` and `planned`; `spec` reads what may be a spec, `html` is for notebooks.
"""

from dlrun.api.calls import jobs, plan, run, submit
from dlrun.api.job import Job
from dlrun.api.planned import Planned

__all__ = ["Job", "Planned", "jobs", "plan", "run", "submit"]
