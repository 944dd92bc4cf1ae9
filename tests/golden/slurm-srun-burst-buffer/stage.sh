#!/bin/bash
# What each node of job burst runs once: bring its data to node-local storage, and take it away.
# The launcher (srun) starts it, one on each node: stage.sh in|out|clean|leave|keep

# shellcheck disable=SC1091,SC2016 # lib/ is checked by itself; literal dollars are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
if ((DLRUN_INDEX)); then exit 0; fi # the nodes share the storage: one works for all
dlrun_stage_on "$DLRUN_INDEX"
dlrun_bring_home /scratch/results always 270 # where to, when, in how many seconds

dlrun_bring_data() {
  # its 150GB goes to node-local storage if it fits ($DW_JOB_STRIPED), and is then read once from the shared file system instead of by 4 nodes in every epoch
  dlrun_get --name imagenet --source /scratch/imagenet --strategy copy --keep job --lasting 14400s --expect 150000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-imagenet
}
dlrun_do "$1" dlrun_bring_data
