#!/bin/bash
# burst, each node: data to node-local storage, results from it.
# The launcher (srun) starts it once on each node: stage.sh in|out|clean|leave|keep

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
if ((DLRUN_INDEX)); then exit 0; fi # the nodes share the storage: one works for all
dlrun_stage_on "$DLRUN_INDEX"
dlrun_results_to /scratch/results always 270 # where to, when, in how many seconds

dlrun_stage_all() {
  dlrun_stage_data_set --name imagenet --source /scratch/imagenet --strategy part --keep job --lasting 14400s --expect 150000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-imagenet
}
dlrun_stage_action "$1" dlrun_stage_all
