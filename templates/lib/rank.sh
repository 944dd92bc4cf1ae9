# shellcheck shell=bash
# Functions of rank.sh: who this process is, its log, its cores and memory, its program, and its end.
#
# Every name begins with dlrun_, _dlrun_ or DLRUN_. Needs bash 4.2, coreutils and grep. In a job directory the other parts
# that its ranks use follow in the same file: each further file costs every rank one open on the shared file system.

_dlrun_memory=()   # numactl and its option, where memory is bound (bind.sh)
_dlrun_wrap=()     # the command that starts the program inside a container
_dlrun_ending=     # set when this process was asked to end
_dlrun_unheard=    # set when the program did not end after SIGTERM
_dlrun_child=      # process id of the program
_dlrun_labeller=   # process id of the writer to a log that ranks share
_dlrun_carrier=    # the signal that carries the early warning
_dlrun_watch=      # functions that run beside the program
_dlrun_watching=() # their process ids
_dlrun_standby=    # process id of this node's standby (standby.sh)
_dlrun_ignored=()  # signals that are ignored when the program starts
_dlrun_makes_way=  # set if SIGTERM may mean a preemption: the program gets its signal to save instead
_dlrun_warning_sent=       # set when the program has got its signal to save
_dlrun_misplaced=  # where the plan has this process, if it is another place
_dlrun_is_agent=   # set if the ranks are children of the program
_dlrun_own_socket= # number of a socket that only this process and what it starts hold (socket.sh)
_dlrun_holders=()  # the processes that hold it

dlrun_identify() { # ROLE RANK LOCAL_RANK LOCAL_SIZE NODE PER_NODE COUNT [node]: set DLRUN_*; from here on all output goes to a log (`node`: that of its node)
  _dlrun_late=${EPOCHREALTIME:+${DLRUN_LAUNCHED:+$((${EPOCHREALTIME//[!0-9]/}000 - DLRUN_LAUNCHED))}} # ns since its launch, if clocks agree
  _dlrun_read_up
  _dlrun_began=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000} _dlrun_began_up=$_dlrun_up
  read -r DLRUN_HOST </proc/sys/kernel/hostname # $HOSTNAME may be inherited from another host
  export DLRUN_ROLE=$1 DLRUN_RANK=$2 DLRUN_LOCAL_RANK=$3 DLRUN_WORLD_SIZE=$7 DLRUN_THREADS=1 DLRUN_HOST=${DLRUN_HOST%%.*}
  _dlrun_locate "$4" "$5" "$6"
  if [[ -n ${DLRUN_OWN_SOCKET-} ]]; then _dlrun_take_own_socket "$DLRUN_OWN_SOCKET"; fi
  _dlrun_open_log "$7" "${8-}"
  if ((${DLRUN_RESTART:-0})); then echo "dlrun: run $((DLRUN_RESTART + 1))"; fi # the text above it is from earlier runs
}

_dlrun_open_log() { # COUNT [node]: sets _dlrun_log to the file that all output of this process goes to
  local first=$DLRUN_RANK name=$DLRUN_ROLE-$DLRUN_RANK shared=
  if [[ $2 == node && -z $_dlrun_misplaced ]] && ((DLRUN_LOCAL_SIZE > 1)); then
    shared=1 first=$((DLRUN_RANK - DLRUN_LOCAL_RANK))
    name=$DLRUN_ROLE-$first-$((first + DLRUN_LOCAL_SIZE - 1))
  fi
  if (($1 > 1000)); then name=$((first / 1000))/$name; fi # directories that job.sh has made
  _dlrun_log=$DLRUN_RUN_DIR/logs/$name.log
  exec {_dlrun_launcher}>&1
  if [[ -n $shared ]]; then _dlrun_share_log; else exec >>"$_dlrun_log" 2>&1; fi
}

_dlrun_share_log() { # whole lines, each with its rank before it, to a file in which other ranks write as well
  coproc _dlrun_labels {
    trap '' HUP INT TERM USR1 USR2 # it ends when its last writer does
    unset -v GREP_OPTIONS
    if [[ -n $_dlrun_own_socket ]]; then _dlrun_close_own_socket; fi
    LC_ALL=C exec grep -a -H --line-buffered --label="$DLRUN_ROLE $DLRUN_RANK" '' >>"$_dlrun_log" 2>&1
  }
  # shellcheck disable=SC2154 # coproc sets it
  _dlrun_labeller=$_dlrun_labels_PID
  exec >&"${_dlrun_labels[1]}" 2>&1
  eval "exec ${_dlrun_labels[0]}<&- ${_dlrun_labels[1]}>&-"
  trap _dlrun_close_log EXIT
}

_dlrun_close_log() { # wait until all output is in the shared log: launchers kill processes that a rank leaves behind
  local waited
  [[ -n $_dlrun_labeller ]] || return 0
  exec >/dev/null 2>&1
  for ((waited = 0; waited < 250; waited++)); do # a process that nothing could end may still hold it
    kill -0 "$_dlrun_labeller" 2>/dev/null || break
    sleep 0.02
  done
}

dlrun_fail() { # EXIT_CODE [REASON]: write a failure file for job.sh, then end; what a check has noted before is why the program ended
  local file=$DLRUN_RUN_DIR/failures/$DLRUN_ROLE-$DLRUN_RANK
  trap '' TERM # another rank may fail at the same time and end this one, which must not leave an incomplete file
  [[ -s $file ]] || printf '%s %s %s %s %s%s\n%s' "${_dlrun_ended:-$(date +%s%N)}" "$DLRUN_ROLE" "$DLRUN_RANK" "$DLRUN_HOST" "$1" "${2:+ $2}" \
    "${_dlrun_late-}" >"$file"
  exit "$1"
}

dlrun_missing_secret() { # NAME WHAT: a secret could not be read
  echo "dlrun: rank $DLRUN_RANK: secret $1 could not be read: $2"
  dlrun_fail 1
}

dlrun_no_such_point() {
  echo "dlrun: rank $DLRUN_RANK: the sweep has no point '$DLRUN_POINT'"
  dlrun_fail 2
}

dlrun_continue_wandb() { # rank 0 of each start names the same Weights & Biases run, unless the user has named one
  if ((DLRUN_RANK == 0)) && [[ -z ${WANDB_RUN_ID-} ]]; then
    _dlrun_name_run
    export WANDB_RUN_ID=$DLRUN_TRACK_ID WANDB_RESUME=allow
  fi
}

_dlrun_name_run() { # set DLRUN_TRACK_ID: the same in every start of the job, another one for each point or role; W&B takes 64 characters
  local whole=$DLRUN_JOB_DIR role='' first='' name
  if [[ $whole == */roles/* && -e ${whole%/roles/*}/roles.json ]]; then role=-${whole##*/} whole=${whole%/roles/*}; fi
  name=${whole##*/}
  if [[ ! $name =~ -[0-9]{8}-[0-9]{6}-[0-9a-f]{4}$ ]]; then # a directory that the user has named: others may have the same name
    if read -r first <"$whole/.dlrun-written" && [[ $first =~ \"token\":\ *\"([0-9a-f]{8}) ]]; then name+=-${BASH_REMATCH[1]}; fi
  fi
  name=${name//[!A-Za-z0-9_.-]/-}$role${DLRUN_POINT:+-$DLRUN_POINT}
  if ((${#name} > 64)); then name=${name:0:30}-${name: -33}; fi
  DLRUN_TRACK_ID=$name
}

dlrun_run_point() { # runs its line of the `case` in the next line of the page, which has one for each point: bash would parse all of them first
  local line=() number=$DLRUN_POINT
  if [[ ! $number =~ ^(0|[1-9][0-9]*)$ ]]; then return 0; fi
  { mapfile -t -s "$((BASH_LINENO[0] + 1 + number))" -n 1 line <"$0"; } 2>/dev/null || true
  if [[ ${line[0]-} =~ ^\ *"$number) dlrun_run " ]]; then eval "case $number in ${line[0]}"$'\n''esac'; fi
}

# --- The program -----------------------------------------------------------------------------------------------

_dlrun_check_environment() { # PROGRAM: as on the first node? Without it another Python further down PATH would run, for hours
  local place found wanted=
  local -a places=()
  if ((${#_dlrun_wrap[@]})); then return 0; fi # a container has its own (container.sh)
  IFS=: read -ra places <<<"${DLRUN_ENVIRONMENT-}"
  for place in ${places[@]+"${places[@]}"}; do
    if [[ ! -d $place/bin ]]; then dlrun_fail 1 "environment: $place is not there"; fi
  done
  case $1 in
  python) wanted=${DLRUN_PYTHON-} ;;
  python3) wanted=${DLRUN_PYTHON3-} ;;
  esac
  if [[ -n $wanted ]]; then
    found=$(type -P "$1") || true
    if [[ $found != "$wanted" ]]; then dlrun_fail 1 "environment: $1 is ${found:-not there}, on the first node $wanted"; fi
  fi
  if ((DLRUN_LOCAL_RANK)); then return 0; fi # one process of each node is enough
  IFS=: read -ra places <<<"${DLRUN_DIRECTORIES-}"
  for place in ${places[@]+"${places[@]}"}; do
    if [[ -n $place && ! -d $place ]]; then dlrun_fail 1 "environment: $place is not there, and modules or set-up lines have put it into PATH or LD_LIBRARY_PATH"; fi
  done
}

dlrun_run() { # PROGRAM...: run it, forward SIGTERM, end all processes that it leaves behind, and record a failure
  _dlrun_check_environment "$1"
  export DLRUN_PROCESS="$DLRUN_RUN_ID $DLRUN_ROLE $DLRUN_RANK" # marks all that the program starts
  exec {_dlrun_launcher}>&-
  trap _dlrun_end TERM
  trap _dlrun_clean_up EXIT
  _dlrun_count_memory_kills
  _dlrun_killed=$_dlrun_kills
  set -- ${_dlrun_memory[@]+"${_dlrun_memory[@]}"} ${_dlrun_wrap[@]+"${_dlrun_wrap[@]}"} "$@"
  if ((${#_dlrun_ignored[@]})); then
    (
      trap '' "${_dlrun_ignored[@]}" # a handler of the program's own still works
      exec "$@"
    ) &
  else
    "$@" &
  fi
  _dlrun_child=$!; if [[ -n $_dlrun_ending ]]; then _dlrun_end; fi # SIGTERM arrived while it was being started
  if [[ -n $_dlrun_carrier ]]; then trap _dlrun_warn "$_dlrun_carrier"; fi
  _dlrun_start_standby
  for _dlrun_what in $_dlrun_watch; do
    { if [[ -n $_dlrun_own_socket ]]; then _dlrun_close_own_socket; fi && "$_dlrun_what"; } &
    _dlrun_watching+=("$!")
  done
  _dlrun_wait_for_program
}

_dlrun_wait_for_program() {
  local status waited until ended
  while :; do
    wait "$_dlrun_child"
    status=$?
    kill -0 "$_dlrun_child" 2>/dev/null || break # a trapped signal ends `wait`, not the program
    if [[ -n $_dlrun_ending ]]; then # after a grace period, kill it and all processes that it started
      _dlrun_read_up
      until=$((_dlrun_up + 6 * ${DLRUN_GRACE:-10} * 100000000)) # 6 s: with `_dlrun_end_left_processes` still less than the 10 s that job.sh waits
      while ((_dlrun_up < until)) && kill -0 "$_dlrun_child" 2>/dev/null; do
        sleep 0.1
        _dlrun_read_up
      done
      if kill -0 "$_dlrun_child" 2>/dev/null; then
        _dlrun_unheard=1
        _dlrun_find_descendants
        kill -KILL "${_dlrun_found[@]}" 2>/dev/null
      fi
    fi
  done
  _dlrun_note_end
  if ((status > 128)); then # a signal may have ended `wait` just before the program ended by itself
    # shellcheck source=processes.sh
    declare -F _dlrun_tree >/dev/null || source "$DLRUN_JOB_DIR/lib/processes.sh"
    if ! _dlrun_is_forgotten "$_dlrun_child"; then
      wait "$_dlrun_child"
      ended=$?
      if ((ended >= 0)); then status=$ended; fi # -1: bash had no other child, and has forgotten this one
    fi
  fi
  if [[ $_dlrun_watch == *_dlrun_watch_progress* && -e $DLRUN_RUN_DIR/idle/dump ]]; then # job.sh ends this one when the others have shown where they are, too
    for ((waited = 0; waited < 120; waited++)); do
      [[ -z $_dlrun_ending ]] || break
      sleep 0.5
    done
  fi
  if ((status)) && [[ -z $_dlrun_ending ]]; then
    _dlrun_count_memory_kills
    if [[ $_dlrun_kills != "$_dlrun_killed" ]]; then dlrun_fail "$status" 'out of memory'; fi
    dlrun_fail "$status"
  fi
  if ((status == 0)) && [[ -z $_dlrun_ending ]]; then # early against the others, it is why they fail
    _dlrun_ended=${_dlrun_ended:-$(date +%s%N)}
    if ((DLRUN_WORLD_SIZE <= 1000 || DLRUN_RANK == 0)); then
      printf '%s %s %s %s 0\n%s' "$_dlrun_ended" "$DLRUN_ROLE" "$DLRUN_RANK" "$DLRUN_HOST" "${_dlrun_late-}" \
        >"$DLRUN_RUN_DIR/ended/$DLRUN_ROLE-$DLRUN_RANK"
    else # in its log, which is open: so many files more would burden the file system
      echo "dlrun: $DLRUN_ROLE $DLRUN_RANK on $DLRUN_HOST, which began ${_dlrun_late:-0} ns after its launch, ended with exit code 0 at $_dlrun_ended ns"
    fi
  fi
  exit "$status"
}

_dlrun_nap() { # SECONDS: a pause, without a process where bash has sockets: nothing comes from this one, and it sends nothing
  local quiet
  if { exec {quiet}<>/dev/udp/127.0.0.1/9; } 2>/dev/null; then
    read -r -t "$1" -u "$quiet" || true
    exec {quiet}<&-
  else
    sleep "$1"
  fi
}

_dlrun_read_up() { # sets _dlrun_up: the ns since this node's boot, in steps of 10 ms, by a clock that cannot be set; pauses are longer on a busy node
  local up
  read -r up _ </proc/uptime
  _dlrun_up=$((10#${up/./} * 10000000))
}

_dlrun_note_end() { # sets _dlrun_ended: now in ns, since the first failure and its consequences are milliseconds apart
  local step
  _dlrun_ended=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000}
  if [[ -z $_dlrun_ended || -z $_dlrun_began ]]; then return 0; fi # before bash 5
  _dlrun_read_up
  step=$((_dlrun_ended - _dlrun_began - (_dlrun_up - _dlrun_began_up)))
  if ((step > 2000000000 || step < -2000000000)); then # this node's clock was set meanwhile: as it was, like other nodes' times
    _dlrun_ended=$((_dlrun_ended - step))
  fi
}

_dlrun_end() { # at SIGTERM: forward it to the program; if nothing has failed and it may be a preemption, send the signal to save
  local failed=("$DLRUN_RUN_DIR"/failures/*-*[0-9])
  if ((BASHPID != $$)); then exit 143; fi # in a child, as in _dlrun_clean_up
  _dlrun_ending=1
  if [[ -n $_dlrun_makes_way && -z $_dlrun_warning_sent && ! -e ${failed[0]} ]]; then
    _dlrun_warn
  else
    kill -TERM "$_dlrun_child" 2>/dev/null
  fi
}

_dlrun_find_descendants() { # set _dlrun_found to the program and all its descendants, and _dlrun_parent
  # shellcheck source=processes.sh
  declare -F _dlrun_tree >/dev/null || source "$DLRUN_JOB_DIR/lib/processes.sh"
  _dlrun_tree "$_dlrun_child"
}

_dlrun_count_memory_kills() { # set _dlrun_kills to the number of processes of this cgroup that the kernel's OOM killer has killed
  local controllers path base file name count
  _dlrun_kills=
  while IFS=: read -r _ controllers path; do
    case ,$controllers, in
    ,,) base=/sys/fs/cgroup file=memory.events ;;
    *,memory,*) base=/sys/fs/cgroup/memory file=memory.oom_control ;;
    *) continue ;;
    esac
    while [[ ! -r $base$path/$file && $path == /*/* ]]; do path=/${path#/*/}; done # a container sees a part of the tree
    [[ -r $base$path/$file ]] || continue
    while read -r name count; do
      if [[ $name == oom_kill ]]; then _dlrun_kills+=" $count"; fi
    done <"$base$path/$file"
  done </proc/self/cgroup
}
