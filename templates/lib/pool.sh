# shellcheck shell=bash disable=SC2154,SC2034 # variables of the page's own part
# A sweep inside one job: the job runs pool.py, which runs job.sh for each point, with the point and its place as arguments.

dlrun_pool_hosts() { # COMMAND...: it prints the granted hosts; for the words of the next line, DLRUN_FIRST_HOST is a mark for one of them
  _dlrun_expect_own_directory
  read -r _dlrun_host </proc/sys/kernel/hostname
  _dlrun_host=${_dlrun_host%%.*}
  mapfile -t _dlrun_pool_hosts < <("$@")
  if ((${#_dlrun_pool_hosts[@]} == 0)); then dlrun_log 'the scheduler names no granted node' && exit 1; fi
  DLRUN_FIRST_HOST='{host}'
}

dlrun_pool() { # POINTS PLACES AT_ONCE WALLTIME BEFORE SIGNAL TIMES REQUEUE [START...]: become pool.py; START begins a point on its host
  local list
  printf -v list '%s,' "${_dlrun_pool_hosts[@]}"
  exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/pool.py" "${@:1:8}" "${list%,}" "${@:9}"
}
