# shellcheck shell=bash disable=SC1091,SC2154 # files of the job and their variables
# On each node: `bash lib/seed.sh add BASE KEY INDEX`, in a job that stages no data, adds what earlier jobs have compiled to the caches;
# where job.sh runs on another host, `save BASE KEY INDEX STORE --settled TIME` adds the entries of the first node to the store.

set -uo pipefail
source "$DLRUN_JOB_DIR/lib/stage.sh"
source "$DLRUN_JOB_DIR/lib/python.sh"
source "$DLRUN_JOB_DIR/lib/caches.sh"
if [[ $1 == save ]]; then
  eval "_dlrun_index=$4" # the launcher's expansion for the number of this node
  if ((_dlrun_index)); then exit 0; fi
  source "$DLRUN_JOB_DIR/lib/compiled.sh"
  dlrun_save_here "${@:2}"
else
  eval "dlrun_stage_on $4"
  dlrun_seed_caches "$2" "$3"
fi
