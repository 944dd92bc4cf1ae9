#!/bin/bash
# What each node of job contained runs once: bring its data to node-local storage, and take it away.
# The launcher (srun) starts it, one on each node: stage.sh in|clean|leave|keep

# shellcheck disable=SC1091,SC2016 # lib/ is checked by itself; literal dollars are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
dlrun_stage_on "$DLRUN_INDEX"

dlrun_bring_data() {
  # from the spec
  dlrun_get_with_others --name images --source /scratch/images --strategy copy --keep job --lasting 1800s --expect 10000000000
}
dlrun_do "$1" dlrun_bring_data
