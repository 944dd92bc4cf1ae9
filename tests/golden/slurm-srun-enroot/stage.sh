#!/bin/bash
# contained, each node: data to node-local storage.
# The launcher (srun) starts it once on each node: stage.sh in|clean|leave|keep

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"
source "$DLRUN_JOB_DIR/lib/caches.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
dlrun_stage_on "$DLRUN_INDEX"

dlrun_stage_all() {
  dlrun_seed_caches "${TMPDIR}" 5b754f588a20 # what earlier jobs have compiled
  dlrun_relay_data_set --name set --source '/scratch/my set' --strategy copy --keep job --lasting 1800s --expect 10000000000
}
dlrun_stage_action "$1" dlrun_stage_all
