# shellcheck shell=bash disable=SC2154 # variables of the page and of python.sh
# In a rank: data sets that are one SquashFS image, and that this job's ranks see as a directory. The first rank of a node to come mounts
# one, in no process of the job, since the others may outlive it; `clean` of the node program unmounts it at the end, or for the next job.

dlrun_mount() { # NAME; the reason why it cannot be is in the rank's log
  dlrun_python "$DLRUN_JOB_DIR/node.pyz" mount --to "$DLRUN_STAGE" --name "$1" --job "${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}" >/dev/null || dlrun_fail 1
}
