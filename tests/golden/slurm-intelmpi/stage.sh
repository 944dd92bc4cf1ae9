#!/bin/bash
# What each node of job intel runs once: bring its data to node-local storage, and take it away.
# The launcher (intelmpi) starts it, one on each node: stage.sh in|clean|leave|keep

# shellcheck disable=SC1091,SC2016 # lib/ is checked by itself; literal dollars are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"

case $1 in
keep) DLRUN_INDEX=$SLURM_PROCID ;; # a step of the scheduler's own
*) DLRUN_INDEX="$PMI_RANK" ;;
esac
dlrun_stage_on "$DLRUN_INDEX"

dlrun_bring_data() {
  # its 100GB fits the 400GB of node-local storage ($TMPDIR/fast), and is then read once from the shared file system instead of by 2 nodes in every epoch
  dlrun_get_with_others --name set --source /scratch/set --strategy copy --keep job --lasting 1800s --expect 100000000000
}
dlrun_do "$1" dlrun_bring_data
