#!/bin/bash
# intel, each node: data to node-local storage.
# The launcher (intelmpi) starts it once on each node: stage.sh in|clean|leave|keep

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"

case $1 in
keep) DLRUN_INDEX=$SLURM_PROCID ;; # a step of the scheduler's own
*) DLRUN_INDEX="$PMI_RANK" ;;
esac
dlrun_stage_on "$DLRUN_INDEX"

dlrun_stage_all() {
  dlrun_relay_data_set --name set --source /scratch/set --strategy copy --keep job --lasting 1800s --expect 100000000000
}
dlrun_stage_action "$1" dlrun_stage_all
