# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# For jobs with spare nodes: choose the good ones, and after a node's failure start again if enough good ones are left.

_dlrun_chosen=() # the nodes that are used
_dlrun_excluded=
_dlrun_away= # without a connection to this node from the start
_dlrun_on_event cause _dlrun_replace_nodes

dlrun_count_replacements() { # this script may have begun again on other nodes of the same job
  if [[ ${DLRUN_REPLACED-} != "$DLRUN_JOB_ID "* ]]; then return 0; fi
  read -r _ _dlrun_replaced _dlrun_used <<<"$DLRUN_REPLACED" # how often, and the seconds until then
  DLRUN_RESTART=$((DLRUN_RESTART + _dlrun_replaced))
}

dlrun_choose_nodes() { # COUNT SECONDS: of the granted nodes; job.sh's dlrun_on_node starts a program on DLRUN_FIRST_HOST
  local left granted
  _dlrun_count=$1 _dlrun_patience=$2
  mapfile -t granted <"$DLRUN_HOSTS"
  _dlrun_find_left
  if [[ -n $_dlrun_excluded$_dlrun_away ]] && ((${#left[@]} < ${#granted[@]})); then
    dlrun_log "granted, but to be left out: $((${#granted[@]} - ${#left[@]})) of ${#granted[@]} nodes"
  fi
  _dlrun_check_nodes '' ${left[@]+"${left[@]}"}
  _dlrun_find_best
  if ((${#_dlrun_best[@]} < _dlrun_count)); then
    printf '%s node 0 %s 1 node failed: only %s of %s nodes are good, and the job needs %s\n' "$(date +%s%N)" "$_dlrun_host" \
      "${#_dlrun_best[@]}" "${#granted[@]}" "$_dlrun_count" >"$DLRUN_RUN_DIR/failures/node-0"
    exit 1
  fi
  _dlrun_chosen=("${_dlrun_best[@]}")
  printf '%s\n' "${_dlrun_chosen[@]}" >"$DLRUN_HOSTS"
  printf '%s\n' "${granted[@]}" >"$DLRUN_HOSTS-granted"
  DLRUN_FIRST_HOST=${_dlrun_chosen[0]}
  printf '%s\n' "$DLRUN_FIRST_HOST" >"$DLRUN_HOSTS-first"
  printf -v DLRUN_CHOSEN_HOSTS '%s,' "${_dlrun_chosen[@]}"
  DLRUN_CHOSEN_HOSTS=${DLRUN_CHOSEN_HOSTS%,}
  dlrun_log "of ${#granted[@]} nodes these are used: $DLRUN_CHOSEN_HOSTS"
  _dlrun_event chosen
}

dlrun_exclude() { _dlrun_excluded=" $* "; } # HOST...: the scheduler cannot exclude them

dlrun_restart_on_node_failure() { _dlrun_starts_again=1; } # there are checkpoints: after a node's failure continue if enough nodes are left
_dlrun_starts_again=

dlrun_exclude_on_requeue() { # [HOSTS]: exclude the bad nodes and these from the next run of this Slurm job
  _dlrun_listed=${1-}
  _dlrun_on_event requeued _dlrun_exclude_bad
}

_dlrun_check_host() { # HOST [quick]: at the start of a job for half a minute, where no program could be started: a controller may be busy
  local begun
  _dlrun_read_clock
  begun=$_dlrun_now
  until _dlrun_check_one "$@" || [[ -n ${2-} ]]; do
    _dlrun_read_clock
    if ((_dlrun_now - begun >= 30)); then break; fi
    sleep 2
  done
}

_dlrun_check_one() { # HOST [quick]: it writes its report
  local DLRUN_FIRST_HOST=$1 DLRUN_HOSTS=$DLRUN_RUN_DIR/nodes/$1/hosts
  printf '%s\n' "$1" >"$DLRUN_HOSTS-first"
  printf '%s\n' "$1" >"$DLRUN_HOSTS"
  # In a shell of its own: dlrun_openmpi is replaced by mpirun, and nothing would follow on it.
  (dlrun_on_node bash -p "$DLRUN_JOB_DIR/lib/python.sh" "$DLRUN_JOB_DIR/node_checks.py" check "$@" </dev/null >"$DLRUN_RUN_DIR/nodes/$1/log" 2>&1)
}

_dlrun_check_nodes() { # HOW HOST...: all of them, many at a time; one that does not answer delays the others only briefly
  local how=$1 host pid alive pids=() deadline
  _dlrun_read_clock
  deadline=$((_dlrun_now + _dlrun_patience))
  shift
  _dlrun_create_empty nodes
  printf '%s\n' "$@" >"$DLRUN_RUN_DIR/nodes/hosts"
  for host; do
    mkdir -p "$DLRUN_RUN_DIR/nodes/$host"
    _dlrun_check_host "$host" ${how:+"$how"} &
    pids+=("$!")
  done
  while ((${#pids[@]})); do
    alive=()
    for pid in "${pids[@]}"; do
      if kill -0 "$pid" 2>/dev/null; then alive+=("$pid"); else wait "$pid" || true; fi
    done
    pids=(${alive[@]+"${alive[@]}"})
    _dlrun_read_clock
    if ((_dlrun_now > deadline)); then
      _dlrun_terminate ${pids[@]+"${pids[@]}"}
      break
    fi
    sleep 0.2
  done
}

_dlrun_find_best() { # sets _dlrun_best, and notes the bad ones
  dlrun_python "$DLRUN_JOB_DIR/node_checks.py" choose "$_dlrun_count" >"$DLRUN_RUN_DIR/nodes/best"
  mapfile -t _dlrun_best <"$DLRUN_RUN_DIR/nodes/best"
}

_dlrun_find_left() { # sets left: the granted nodes that are not known to be bad
  local host until now bad=$_dlrun_excluded$_dlrun_away
  printf -v now '%(%s)T' -1
  if [[ -e $DLRUN_JOB_DIR/bad-nodes ]]; then
    while read -r host until _; do
      if ((until > now)); then bad+=" $host "; fi
    done <"$DLRUN_JOB_DIR/bad-nodes"
  fi
  left=()
  for host in "${granted[@]}"; do
    if [[ $bad != *" $host "* ]]; then left+=("$host"); fi
  done
}

_dlrun_exclude_bad() {
  local host until now id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} listed=$_dlrun_listed
  printf -v now '%(%s)T' -1
  while read -r host until _; do
    if ((until > now)); then listed+=,$host; fi
  done <"$DLRUN_JOB_DIR/bad-nodes"
  if [[ -n $listed ]]; then scontrol update "JobId=$id" "ExcNodeList=${listed#,}"; fi
}

_dlrun_replace_nodes() { # after a failure: was it a node's? Then, if enough others are left, start again on those
  local granted left
  if ((${#_dlrun_chosen[@]} == 0)) || [[ -n $_dlrun_reason || -n ${_dlrun_warning_sent-} ]]; then return 0; fi
  _dlrun_check_nodes quick "${_dlrun_chosen[@]}"
  _dlrun_find_best
  if ((${#_dlrun_best[@]} == ${#_dlrun_chosen[@]})); then return 0; fi
  _dlrun_reason='node failed'
  if [[ -z $_dlrun_starts_again ]]; then return 0; fi
  mapfile -t granted <"$DLRUN_HOSTS-granted"
  _dlrun_find_left
  if ((${#left[@]} < _dlrun_count)); then
    dlrun_log "only ${#left[@]} good nodes are left, and the job needs $_dlrun_count"
    return 0
  fi
  _dlrun_record requeued "$_dlrun_status" "$_dlrun_reason"
  dlrun_log "${#left[@]} good nodes are left: starting again on $_dlrun_count of them"
  _dlrun_read_clock
  export DLRUN_REPLACED="$DLRUN_JOB_ID $((${_dlrun_replaced:-0} + 1)) $_dlrun_now" # how often, and what the job has used
  trap - TERM INT HUP USR1 USR2 # what is ignored now could not be trapped then
  exec bash "$DLRUN_JOB_DIR/job.sh"
}
