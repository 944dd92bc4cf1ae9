# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A sweep inside one job: the job runs pool.py, which runs job.sh for each point, with the point and its place as arguments.

dlrun_pool() { # POINTS PLACES AT_ONCE WALLTIME BEFORE SIGNAL TIMES REQUEUE [START...]: become pool.py; START begins a point on its host
  exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/pool.py" "${@:1:8}" "${_dlrun_granted%,}" "${@:9}"
}
