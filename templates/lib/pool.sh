# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# A sweep inside one job: the job runs pool.py, which runs job.sh for each point, with the point and its place as arguments.

dlrun_pool() { # POINTS PLACES AT_ONCE WALLTIME BEFORE SIGNAL TIMES REQUEUE [START...]: become pool.py; START begins a point on its host
  exec bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/pool.py" "${@:1:8}" "${_dlrun_granted%,}" "${@:9}"
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

_dlrun_watch_pool() { # FIRST: pool.py runs this on another node: with --no-kill, Slurm lets a job run on that has lost its first one
  local beat='' last='' unchanged=0 nodes=
  while [[ -z $nodes || " $nodes" == *" $1 "* ]] && sleep 10; do
    { read -r beat <"$DLRUN_JOB_DIR/.alive"; } 2>/dev/null || true
    if [[ $beat == "$last" ]]; then unchanged=$((unchanged + 1)); else unchanged=0; fi
    last=$beat
    if ((unchanged && unchanged % 6 == 0)); then # a minute
      nodes=$(squeue -h -j "$SLURM_JOB_ID" -o %N) && nodes=$(scontrol show hostnames "$nodes" | tr '\n' ' ')
    fi
  done
  printf '{"version": 1, "state": "ended", "job_id": "%s", "ended": %(%s)T, "exit_code": 1, "reason": "node failed", "lost": ["%s"]}\n' \
    "$DLRUN_JOB_ID" -1 "$1" >"$DLRUN_JOB_DIR/.state.pool" && mv -f "$DLRUN_JOB_DIR/.state.pool" "$DLRUN_JOB_DIR/state.json"
  echo "dlrun: node $1, which started the points, is lost: the job ends" >>"$DLRUN_JOB_DIR/logs/job.log"
  scontrol requeue "$SLURM_JOB_ID" 2>/dev/null || scancel --quiet "$SLURM_JOB_ID"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then _dlrun_watch_pool "$1"; fi
