#!/bin/bash
# What each node of job staged runs once: bring its data to node-local storage, and take it away.
# The launcher (srun) starts it, one on each node: stage.sh in|out|clean|leave|keep

# shellcheck disable=SC1091,SC2016 # lib/ is checked by itself; literal dollars are meant
set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"

DLRUN_INDEX="$SLURM_PROCID" # which of the nodes this is
dlrun_stage_on "$DLRUN_INDEX"
dlrun_bring_home '/scratch/my results' always 540 # where to, when, in how many seconds

dlrun_bring_data() {
  # its 150GB fits the 1TB of node-local storage (/local), and is then read once from the shared file system instead of by 2 nodes in every epoch
  dlrun_get_with_others --name imagenet --source /scratch/imagenet --strategy copy --keep cache --lasting 14400s --expect 150000000000 --readers 2 --shape tree --quota 800000000000 --rate 2000000000 --low-priority --verify
  # its size is unknown here: when the job starts, it is copied if it fits every node, else read in place
  dlrun_get_with_others --name open --source /scratch/open --strategy copy --keep job --lasting 14400s --quota 800000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-open
  # from the spec
  dlrun_get_with_others --name part --source /scratch/part --strategy shard --keep job --lasting 14400s --exclude '*.tmp' --quota 800000000000
  # imports from node-local storage relieve the shared file system
  dlrun_get_with_others --name environment --source /home/ada/env --strategy copy --keep cache --lasting 14400s --quota 800000000000 --else-in-place "$DLRUN_RUN_DIR"/in-place-environment
  dlrun_fix_venv environment /home/ada/env
}
dlrun_do "$1" dlrun_bring_data
