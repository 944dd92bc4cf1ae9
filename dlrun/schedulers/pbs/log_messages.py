"""What PBS writes into the log of a job."""

from __future__ import annotations

from dlrun.schedulers.log_forms import Form, Writer

_PBS = "https://github.com/openpbs/openpbs/blob/master/src/resmom/"

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
)
