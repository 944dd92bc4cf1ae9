# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A sweep inside one job: the job runs pool.py, which runs job.sh for each point, with the point and its place as arguments.

dlrun_pool() { # POINTS PLACES AT_ONCE WALLTIME BEFORE SIGNAL TIMES REQUEUE [START...]: become pool.py; START begins a point on its host
  _dlrun_name_user
  exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/pool.py" "${@:1:8}" "${_dlrun_granted%,}" "${@:9}"
}

dlrun_point_hosts() { printf '%s\n' "${DLRUN_CHOSEN_HOSTS//,/$'\n'}"; } # of a point on several nodes, by pool.py

_dlrun_on_event launch _dlrun_await_page
_dlrun_await_page() { # a point that was added later is in a later page, which NFS may show here a minute late (nfs(5), acdirmax)
  local waited page=$DLRUN_JOB_DIR/rank.sh
  if [[ -z ${DLRUN_POINT_ADDED-} ]]; then return 0; fi # pool.py sets it
  for ((waited = 0; waited < 70; waited++)); do
    if grep -q "^ *$DLRUN_POINT) " "$page" || ! grep -q dlrun_no_such_point "$page"; then break; fi
    sleep 1
  done
}

_dlrun_on_event launch _dlrun_end_if_asked
_dlrun_on_event second _dlrun_end_if_asked
_dlrun_end_if_asked() { # in a point with results: srun, asked to end, would kill this shell before it has copied them
  local what=''
  if [[ -z ${DLRUN_COPIES-} ]]; then return 0; fi
  { read -r what <"$DLRUN_RUN_DIR/.asked"; } 2>/dev/null || true
  if [[ $what == end ]]; then _dlrun_end_by 'asked to end' 143 'asked to end'; fi
}

_dlrun_looks=0
_dlrun_on_event second _dlrun_end_if_given_away
_dlrun_end_if_given_away() { # in a point: its node counts as lost, so that another start of the point has its directory and its record
  local record=''
  ((_dlrun_looks++ % 10 == 9)) || return 0
  { read -r record <"$DLRUN_RUN_DIR/state.json"; } 2>/dev/null || true
  if [[ $record == *'"state": "requeued"'* || ($record =~ \"restarts\":\ ([0-9]+) && ${BASH_REMATCH[1]} -gt $DLRUN_RESTART) ]]; then
    kill -KILL $$ # each node's standby ends the ranks
  fi
}
