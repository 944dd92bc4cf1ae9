#!/bin/bash
# staged, each node: data to node-local storage, results from it.
# The launcher (srun) starts it once on each node: stage.sh in|out|clean|leave|keep

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"
source "$DLRUN_JOB_DIR/lib/caches.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
dlrun_stage_on "$DLRUN_INDEX"
dlrun_results_to '/scratch/my results' always 540 # where to, when, in how many seconds

dlrun_stage_all() {
  dlrun_seed_caches /local dd78600e5e9a # what earlier jobs have compiled
  dlrun_relay_data_set --name imagenet --source /scratch/imagenet --strategy copy --keep cache --lasting 14400s --expect 150000000000 --readers 2 --shape tree --quota 800000000000 --rate 2000000000 --low-priority --verify
  dlrun_relay_data_set --name open --source /scratch/open --strategy part --keep job --lasting 14400s --quota 800000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-open
  dlrun_relay_data_set --name environment --source /home/ada/env --strategy copy --keep cache --lasting 14400s --quota 800000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-environment
  dlrun_fix_venv environment /home/ada/env
  dlrun_relay_data_set --name part --source /scratch/part --strategy shard --keep job --lasting 14400s --exclude '*.tmp' --balance bytes --start 10% --started "$_dlrun_started" --quota 800000000000
}
dlrun_stage_action "$1" dlrun_stage_all
