"""Points inside one job where the scheduler passes no signals on: the line of `job.sh`, and how the job starts again."""

from __future__ import annotations

import pytest

from tests.making import plan_of, scripts_of

SPEC = """\
command: [train, '{{ x }}']
sweep: {nodes: 2, points_per_node: 2, x: [1, 2, 3]}
resources: {walltime: 1h}
on_failure: {requeue: 1}
checkpoint: {signal: USR1, before_end: 2m}
"""
SITE = """\
name: s
scheduler: {type: %s, exclusive: true}
launcher: %s
partitions: {work: {default: true, node_type: n}}
node_types: {n: {memory: 180GiB, topology: {packages: 2, cores: 8}}}
"""
START = 'bash -p "$DLRUN_JOB_DIR"/lib/step.sh "$DLRUN_FIRST_HOST" \'{signal}\' '


@pytest.mark.parametrize(
    ("scheduler", "launcher", "command", "again"),
    [
        ("openpbs", "{name: ssh}", "1 ssh", "qsub"),
        ("openpbs", "{name: ssh, program: pbs_tmrsh}", "1 pbs_tmrsh", "qsub"),
        ("openpbs", "{name: pals}", "3 ssh -o BatchMode=yes", "qsub"),
        ("flux", "{name: flux}", "4 bash -c 'rank=$(", "flux batch"),
    ],
)
def test_a_shell_on_the_host_gets_the_point_and_its_signals(tmp_path, scheduler, launcher, command, again):
    scripts = scripts_of(plan_of(tmp_path, SPEC, SITE % (scheduler, launcher)))
    text = scripts["job.sh"].replace("\\\n    ", "")
    assert f"{START}{command}" in text
    assert f"dlrun_resubmit {again} job.sh' " in text
    assert "\n(($#)) || dlrun_exit_if_resubmitted" in text, (
        "the job alone: its points have the number of their own starts"
    )
    assert f"`{again} job.sh`" in text
