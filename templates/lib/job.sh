# shellcheck shell=bash
# Functions of job.sh: its directory and state, the launch, the wait for the ranks, and the end, however it comes.
#
# The same file in every job directory. Every name begins with dlrun_, _dlrun_ or DLRUN_, for job.sh shares this shell with
# module files, activation scripts and set-up lines. Needs bash 4.2, coreutils and grep. Other parts of lib/ are sourced
# by job.sh where it uses them; they add functions of their own to the events below.

# shellcheck source=processes.sh
source "$DLRUN_JOB_DIR/lib/processes.sh"
# shellcheck source=failures.sh
source "$DLRUN_JOB_DIR/lib/failures.sh"
# shellcheck source=shell.sh
source "$DLRUN_JOB_DIR/lib/shell.sh"

_dlrun_steps=()  # process ids of what was started: the ranks, services, staging
_dlrun_beside=() # of what only watches, and is taken down last
_dlrun_main=     # the one whose end is the end of the job
_dlrun_may_end=  # services that may end before the ranks do
_dlrun_asked=    # set when the scheduler or the user ended the job
_dlrun_status=0  # the job's exit code, once it ends
_dlrun_reason=   # why it ended, for state.json
_dlrun_launched_at=0
_dlrun_failing=0 # seconds since a process failed; the others get three to end by themselves
_dlrun_own_log=  # set where the scheduler would bring the log only at the end
declare -A _dlrun_on=(
  [arm]=''    # signals are trapped
  [second]='' # about once a second while the ranks run
  [asked]=''  # the job was asked to end, and the ranks still run
  [gone]=''   # the ranks are gone; may set _dlrun_status
  [cause]=''  # it failed and was not asked to end; may set _dlrun_reason
  [next]=''   # the cause is known: does another run follow?
  [requeued]='' # another run follows
)
unset -v DLRUN_POINT DLRUN_STAGE DLRUN_RESULTS # of another job, which submitted this one

_dlrun_when() { _dlrun_on[$1]+=" $2"; } # EVENT FUNCTION

_dlrun_event() { # EVENT: call its functions
  local what
  for what in ${_dlrun_on[$1]}; do "$what"; done
}

dlrun_use() { # PART...: of lib/
  local part
  for part in "$@"; do source "$DLRUN_JOB_DIR/lib/$part.sh"; done
}

dlrun_say() { printf 'dlrun: %s\n' "$*"; }

dlrun_this_host() { printf '%s\n' "$_dlrun_host"; } # the one host of a local job

dlrun_this_process() { # the id of a local job that was started by hand: the process and when it began
  _dlrun_stat $$ && printf '%s.%s' $$ "${_dlrun_fields[19]}"
}

dlrun_own_log() { _dlrun_own_log=1; } # the scheduler brings the log only at the end: write it where it is read

# --- The beginning ----------------------------------------------------------------------------------------

dlrun_start() { # COMMAND...: prints the granted hosts; makes logs/, hosts and state.json, and from here on cleans up
  export DLRUN_RUN_DIR=$DLRUN_JOB_DIR${DLRUN_POINT+/points/$DLRUN_POINT} # a point of a sweep has its own
  export DLRUN_RUN_ID=$DLRUN_JOB_ID${DLRUN_POINT+-$DLRUN_POINT}.$DLRUN_RESTART # changes with every start
  export DLRUN_HOSTS=$DLRUN_RUN_DIR/hosts
  _dlrun_name_user
  printf -v _dlrun_started '%(%s)T' -1
  _dlrun_used=$SECONDS # before this start, on nodes that were replaced
  read -r _dlrun_host </proc/sys/kernel/hostname # $HOSTNAME may be inherited from where the job was submitted
  _dlrun_host=${_dlrun_host%%.*}
  if [[ -d $DLRUN_RUN_DIR/failures ]]; then rm -rf "$DLRUN_RUN_DIR/failures" "$DLRUN_RUN_DIR/ended"; fi # of an earlier start
  mkdir -p "$DLRUN_RUN_DIR/logs" "$DLRUN_RUN_DIR/failures" "$DLRUN_RUN_DIR/ended"
  if [[ -n $_dlrun_own_log ]]; then exec >>"$DLRUN_RUN_DIR/logs/job.log" 2>&1; fi
  _dlrun_arm
  "$@" >"$DLRUN_HOSTS"
  read -r DLRUN_FIRST_HOST <"$DLRUN_HOSTS" || { dlrun_say 'the scheduler names no granted node' && exit 1; }
  printf '%s\n' "$DLRUN_FIRST_HOST" >"$DLRUN_HOSTS-first"
  _dlrun_record running
  dlrun_say "job $DLRUN_JOB_ID starts; rank 0 is on $DLRUN_FIRST_HOST; each rank's output is in $DLRUN_RUN_DIR/logs"
}

_dlrun_name_user() { # DLRUN_USER, for names on storage that all users of a node share
  local text='\u' # as in a prompt, which takes no process; $USER may be inherited
  if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then text=${text@P}; else text=$(id -un); fi
  export DLRUN_USER=$text
}

_dlrun_record() { # STATE [EXIT_CODE [REASON]]: write state.json, whole or not at all
  local ended=null exit_code=null reason=null
  if [[ $1 == ended ]]; then
    printf -v ended '%(%s)T' -1
    exit_code=$2
  fi
  if [[ -n ${3-} ]]; then reason='"'$3'"'; fi
  printf '{"version": 1, "state": "%s", "job_id": "%s", "host": "%s", "started": %s, "ended": %s, "exit_code": %s, "reason": %s, "restarts": %s}\n' \
    "$1" "$DLRUN_JOB_ID" "$_dlrun_host" "$_dlrun_started" "$ended" "$exit_code" "$reason" "${DLRUN_RESTART:-0}" \
    >"$DLRUN_RUN_DIR/.state.$$"
  mv -f "$DLRUN_RUN_DIR/.state.$$" "$DLRUN_RUN_DIR/state.json"
}

# --- The launch -------------------------------------------------------------------------------------------

dlrun_launch() { # COMMAND...: start the ranks
  _dlrun_expect_environment
  dlrun_service "$@"
  _dlrun_main=$! _dlrun_launched_at=$SECONDS
}

_dlrun_expect_environment() { # what each node must have as this one does: ranks compare it before they start
  local place
  export DLRUN_ENVIRONMENT='' DLRUN_PYTHON=''
  for place in "${VIRTUAL_ENV-}" "${CONDA_PREFIX-}"; do
    if [[ -n $place && -d $place/bin ]]; then DLRUN_ENVIRONMENT+=$place:; fi
  done
  DLRUN_PYTHON=$(type -P python) || true
}

dlrun_service() { # COMMAND...: start what runs as long as the ranks do; if it ends earlier, the job has failed
  export DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000} # ns by this node's clock: later, others' can be put right
  _dlrun_arm # a variable or a set-up line cannot have changed them since
  _dlrun_until=$((SECONDS + 300)) # an engine's first start from a cold file system takes minutes
  "$@" </dev/null &
  _dlrun_steps+=("$!")
}

dlrun_service_that_ends() { # COMMAND...: a service that may end by itself
  dlrun_service "$@"
  _dlrun_may_end+=" $! "
}

dlrun_beside() { # COMMAND...: start what only watches
  "$@" </dev/null &
  _dlrun_beside+=("$!")
}

dlrun_still_waiting() { # NAME: that service is not up yet
  if ((SECONDS > _dlrun_until)) || _dlrun_some_failed || ! kill -0 "${_dlrun_steps[-1]}" 2>/dev/null; then
    _dlrun_give_up "$1 did not come up"
  fi
  sleep 0.05
}

dlrun_wait() { # until the ranks have ended; then exit with the code of what failed first
  local status=0
  while kill -0 "$_dlrun_main" 2>/dev/null; do
    _dlrun_pause
    _dlrun_event second
    _dlrun_watch_services
    if _dlrun_some_failed && ((++_dlrun_failing > 3)); then
      _dlrun_give_up 'a process failed and the rest did not end by themselves'
    fi
  done
  wait "$_dlrun_main" || status=$?
  _dlrun_exit "$status"
}

_dlrun_pause() { # a second, or until something ends or a signal comes
  local tick
  sleep 1 &
  tick=$!
  if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 403)); then
    wait -n || true
  else
    while kill -0 "$tick" 2>/dev/null && kill -0 "$_dlrun_main" 2>/dev/null; do sleep 0.1; done
  fi
  kill "$tick" 2>/dev/null || true
  wait "$tick" 2>/dev/null || true
}

_dlrun_watch_services() { # one that ends before the ranks do has failed
  local step
  for step in "${_dlrun_steps[@]}"; do
    if [[ $step == "$_dlrun_main" ]] || kill -0 "$step" 2>/dev/null || ! kill -0 "$_dlrun_main" 2>/dev/null; then continue; fi
    if [[ $_dlrun_may_end == *" $step "* ]] && wait "$step"; then continue; fi
    _dlrun_give_up 'a service of the job ended early'
  done
}

# --- The end ------------------------------------------------------------------------------------------------

_dlrun_arm() {
  trap - DEBUG RETURN
  trap '_dlrun_line_failed "$?" "$LINENO" "$BASH_COMMAND" "${BASH_SOURCE[0]}"' ERR
  trap _dlrun_finish EXIT
  trap 'dlrun_say "asked to end"; _dlrun_asked=1; exit 143' TERM
  trap 'dlrun_say "interrupted"; _dlrun_asked=1; exit 130' INT
  trap '' HUP
  _dlrun_event arm
}

_dlrun_line_failed() { # STATUS LINE COMMAND FILE: a line of job.sh, or of a file that it sources, ends the job
  local what=${3%%$'\n'*} where=${4##*/}
  if [[ $4 == "$0" ]]; then where=job.sh; fi # schedulers run a copy of another name
  dlrun_say "$where, line $2: \`${what:0:200}\` failed with exit code $1"
}

_dlrun_give_up() { # WHY
  dlrun_say "$1"
  _dlrun_exit 1
}

_dlrun_exit() { # STATUS: exit with the code of what failed first; the launcher's own may be a later one's
  local first status=$1
  if first=$(_dlrun_failed_first); then read -r _ _ _ _ status _ <<<"$first"; fi
  exit "$status"
}

_dlrun_finish() { # whenever this script ends, however it ends
  _dlrun_status=$?
  if ((BASHPID != $$)); then exit; fi # a child that was signalled before it became its own program
  trap '' TERM INT HUP USR1 USR2
  trap - EXIT
  IFS=$' \t\n'
  set +eu # whatever fails from here on, the end is recorded
  if [[ -n $_dlrun_asked ]]; then _dlrun_event asked; fi
  _dlrun_take_down "${_dlrun_steps[@]}"
  _dlrun_take_down "${_dlrun_beside[@]}" # they report what they still find
  if ((_dlrun_status)); then _dlrun_report_first_failure; fi
  _dlrun_event gone
  if [[ -z $_dlrun_asked ]]; then
    _dlrun_find_cause
    _dlrun_event next
  fi
  _dlrun_record ended "$_dlrun_status" "$_dlrun_reason"
  dlrun_say "job $DLRUN_JOB_ID ended with exit code $_dlrun_status"
  exit "$_dlrun_status"
}

_dlrun_find_cause() {
  local note
  if ((_dlrun_status == 0)); then return 0; fi
  if [[ -z $_dlrun_reason ]] && grep -qs 'out of memory$' "$DLRUN_RUN_DIR"/failures/*; then _dlrun_reason='out of memory'; fi
  if [[ -z $_dlrun_reason ]]; then
    read -r _ _ _ _ _ note < <(_dlrun_failed_first)
    if [[ $note =~ ^([a-z ]+):\  ]]; then _dlrun_reason=${BASH_REMATCH[1]}; fi # a check of the job's own
  fi
  _dlrun_event cause
}
