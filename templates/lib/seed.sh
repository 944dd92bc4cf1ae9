# shellcheck shell=bash disable=SC1091 # files of the job
# On each node of a job that stages no data: `bash lib/seed.sh BASE KEY INDEX` adds what earlier jobs have compiled to the caches.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"
source "$DLRUN_JOB_DIR/lib/caches.sh"
eval "dlrun_stage_on $3" # the launcher's expansion for the number of this node
dlrun_seed_caches "$1" "$2"
