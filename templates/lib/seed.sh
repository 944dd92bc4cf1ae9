# shellcheck shell=bash disable=SC1091 # files of the job
# On each node, where no data is staged: `bash lib/seed.sh BASE KEY` brings what earlier jobs have compiled to its caches.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"
source "$DLRUN_JOB_DIR/lib/caches.sh"
eval "DLRUN_INDEX=$DLRUN_INDEX" # the launcher's expansion for the number of this node
dlrun_stage_on "$DLRUN_INDEX"
dlrun_seed_caches "$1" "$2"
