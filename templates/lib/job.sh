# shellcheck shell=bash
# Functions of job.sh: its directory and state, the launch, the wait for the ranks, and every kind of end.
#
# The same file in every job directory. Every name begins with dlrun_, _dlrun_ or DLRUN_, because module files, activation
# scripts and set-up lines run in this shell, too. Needs bash 4.2, coreutils and grep. This file sources the parts that
# every job uses; job.sh sources the parts that only some jobs use. Parts add functions to the events below.

\unset -f unset command builtin compgen enable declare || : # in POSIX mode `unset` is bash's own, whatever functions there are
# shellcheck source=shell.sh
\. "$DLRUN_JOB_DIR/lib/shell.sh"
_dlrun_own_names
# shellcheck source=processes.sh
source "$DLRUN_JOB_DIR/lib/processes.sh"
# shellcheck source=failures.sh
source "$DLRUN_JOB_DIR/lib/failures.sh"
# shellcheck source=records.sh
source "$DLRUN_JOB_DIR/lib/records.sh"
# shellcheck source=python.sh
source "$DLRUN_JOB_DIR/lib/python.sh"
# shellcheck source=code.sh
source "$DLRUN_JOB_DIR/lib/code.sh"

_dlrun_steps=()  # process ids of the ranks' launcher, services and staging
_dlrun_beside=() # process ids of watchers, which are ended last
_dlrun_main=     # process id of the launcher: when it ends, the job ends
_dlrun_may_end=  # services that may end before the ranks do
_dlrun_over=     # set when the job ends by itself: its ranks have ended, or it was given up
_dlrun_asked=    # set when the scheduler or the user has requested the end of the job
_dlrun_status=0  # the job's exit code, once it ends
_dlrun_reason=   # why it ended, for state.json
_dlrun_launched_at=0 _dlrun_unrecorded= # set until the launch is in the record, a second later: many points have ended by then
export DLRUN_PATH=$PATH # where every node finds the system's Python (python.sh)
_dlrun_path=$PATH # for the commands at the end of the job, even if set-up lines replace PATH
_dlrun_inherited=:$PATH:${LD_LIBRARY_PATH-}
_dlrun_stepped=0 # seconds by which this node's clock was set since the launch
_dlrun_used=0    # seconds that the job had run before this start, on nodes that were replaced
_dlrun_launched_when=null _dlrun_staging=null _dlrun_returning=null # launch in seconds since 1970; seconds for data and for results
_dlrun_earlier=0 # seconds that the earlier runs of this job took
_dlrun_failing=0 # seconds since a process failed; the others get three seconds to end by themselves
_dlrun_own_log=  # set if the scheduler would deliver the log only at the end
declare -A _dlrun_on=(
  [arm]=''    # signals are trapped
  [start]=''  # the run's directory is there, with the record of the run before
  [begun]=''  # the log has the line with which the run begins
  [chosen]='' # the good nodes are chosen, in jobs with spare ones
  [launch]='' # the ranks are about to start
  [second]='' # about once a second while the ranks run
  [asked]=''  # the job was asked to end, and the ranks still run
  [gone]=''   # the ranks have ended; may set _dlrun_status
  [cause]=''  # the job failed and was not asked to end; may set _dlrun_reason
  [next]=''   # the cause is known; may requeue the job
  [requeued]='' # another run follows
  [over]=''   # the end is recorded; may set _dlrun_status, which the scheduler sees
)
unset -v DLRUN_COPIES DLRUN_HELD_BY DLRUN_POINT DLRUN_PLACE DLRUN_STAGE DLRUN_STAGE_ALONE DLRUN_RESULTS # inherited if another job has submitted this one

_dlrun_on_event() { _dlrun_on[$1]+=" $2"; } # EVENT FUNCTION

_dlrun_event() { # EVENT: call its functions
  local what
  for what in ${_dlrun_on[$1]}; do "$what"; done
}

# shellcheck source=ports.sh
source "$DLRUN_JOB_DIR/lib/ports.sh" # after the definition of events, to which it adds a function

dlrun_source() { # PART...: of lib/
  local part
  # shellcheck disable=SC1090 # the parts that the page names
  for part in "$@"; do source "$DLRUN_JOB_DIR/lib/$part.sh"; done
}

dlrun_log() { printf 'dlrun: %s\n' "$*" 2>/dev/null || true; } # what reads it may be on a lost node

dlrun_this_host() { printf '%s\n' "$_dlrun_host"; } # the one host of a local job
dlrun_this_process() { # print the id of a local job that was started by hand: process id and start time
  _dlrun_stat $$ && printf '%s.%s' $$ "${_dlrun_fields[19]}"
}

dlrun_own_log() { _dlrun_own_log=1; } # the scheduler delivers the log only at the end: job.sh writes it to logs/job.log itself

# --- The beginning ----------------------------------------------------------------------------------------

dlrun_start() { # COMMAND...: it prints the granted hosts; creates logs/, hosts and state.json; from here on the end is handled
  _dlrun_expect_own_directory
  export DLRUN_RUN_DIR=$DLRUN_JOB_DIR${DLRUN_POINT+/points/$DLRUN_POINT} # each point of a sweep has its own directory
  export DLRUN_RUN_ID=$DLRUN_JOB_ID${DLRUN_POINT+-$DLRUN_POINT}${_dlrun_of_role-}.$DLRUN_RESTART # changes with every start
  export DLRUN_HOSTS=$DLRUN_RUN_DIR/hosts
  _dlrun_name_user
  _dlrun_begin_clock
  read -r _dlrun_host </proc/sys/kernel/hostname # $HOSTNAME may be inherited from where the job was submitted
  _dlrun_host=${_dlrun_host%%.*}
  _dlrun_create_empty failures ended placement
  if [[ -n $_dlrun_own_log ]]; then exec >>"$DLRUN_RUN_DIR/logs/job.log" 2>&1; fi
  _dlrun_arm
  # shellcheck disable=SC2046 # words
  readonly -f $(compgen -A function -X '!*dlrun_*') # all parts are sourced; set-up lines, which follow, must not replace them
  "$@" >"$DLRUN_HOSTS"
  read -r DLRUN_FIRST_HOST <"$DLRUN_HOSTS" || { dlrun_log 'the scheduler names no granted node' && exit 1; }
  printf '%s\n' "$DLRUN_FIRST_HOST" >"$DLRUN_HOSTS-first"
  _dlrun_keep_names
  _dlrun_event start
  _dlrun_record running
  dlrun_log "job $DLRUN_JOB_ID starts; rank 0 is on $DLRUN_FIRST_HOST; each rank's output is in $DLRUN_RUN_DIR/logs"
  _dlrun_event begun
}

# --- The launch -------------------------------------------------------------------------------------------

dlrun_launch() { # COMMAND...: start the ranks
  _dlrun_event launch
  _dlrun_expect_environment
  printf -v _dlrun_launched_when '%(%s)T' -1
  _dlrun_unrecorded=1
  _dlrun_stepped=0
  dlrun_service "$@"
  _dlrun_read_clock
  _dlrun_main=$! _dlrun_launched_at=$_dlrun_now
}

_dlrun_expect_environment() { # export the environments and directories of this node, which ranks compare with their nodes
  local place
  local -a places
  export DLRUN_ENVIRONMENT='' DLRUN_PYTHON='' DLRUN_PYTHON3='' DLRUN_DIRECTORIES=''
  for place in "${VIRTUAL_ENV-}" "${CONDA_PREFIX-}"; do
    if [[ -n $place && -d $place/bin ]]; then DLRUN_ENVIRONMENT+=$place:; fi
  done
  IFS=: read -ra places <<<"$PATH:${LD_LIBRARY_PATH-}"
  for place in "${places[@]}"; do # the directories that modules and set-up lines have added, except node-local ones
    if [[ $_dlrun_inherited:$DLRUN_DIRECTORIES == *":$place:"* || $place != /* || ! -d $place ]]; then continue; fi
    case $place in /tmp/* | /var/tmp/* | /dev/shm/* | "${TMPDIR:-/tmp}"/* | "${DLRUN_STAGE:-/tmp}"/*) continue ;; esac
    DLRUN_DIRECTORIES+=:$place:
  done
  _dlrun_find_program DLRUN_PYTHON python
  _dlrun_find_program DLRUN_PYTHON3 python3
  if [[ -n ${_dlrun_copied-} ]]; then # a venv of which this node, if no ranks run on it, has no copy
    DLRUN_PYTHON=${DLRUN_PYTHON/#"$_dlrun_copied"/"$VIRTUAL_ENV"} DLRUN_PYTHON3=${DLRUN_PYTHON3/#"$_dlrun_copied"/"$VIRTUAL_ENV"}
  fi
}

dlrun_expect_image() { # PATH: the image of a container, which must have the same size on each node
  local size
  size=$(stat -Lc %s -- "$1" 2>/dev/null) || return 0 # the container runtime reports a missing image
  if [[ -d $1 ]]; then size=-; fi
  export DLRUN_IMAGE="$size $1"
}

dlrun_service() { # COMMAND...: start a process that must run as long as the ranks do; if it ends earlier, the job has failed
  dlrun_check_code record
  export DLRUN_LAUNCHED=${EPOCHREALTIME:+${EPOCHREALTIME//[!0-9]/}000} # ns on this node's clock, to correct other nodes' clocks
  _dlrun_arm # set the traps again: a set-up line may have changed them
  _dlrun_read_clock
  _dlrun_until=$((_dlrun_now + 300)) # an engine's first start from a cold file system takes minutes
  trap '' HUP # also for what is started
  "$@" </dev/null &
  _dlrun_steps+=("$!")
  _dlrun_event arm
}

dlrun_service_that_ends() { # COMMAND...: a service that may end by itself
  dlrun_service "$@"
  _dlrun_may_end+=" $! "
}

dlrun_start_watcher() { # COMMAND...: start a watcher, which the job does not depend on
  trap '' HUP
  "$@" </dev/null &
  _dlrun_beside+=("$!")
  _dlrun_event arm
}

dlrun_still_waiting() { # NAME: wait a moment for that service; give up after its timeout, or if it has ended
  _dlrun_read_clock
  if ((_dlrun_now > _dlrun_until)) || _dlrun_some_failed || ! kill -0 "${_dlrun_steps[-1]}" 2>/dev/null; then
    _dlrun_give_up "$1 did not come up"
  fi
  sleep 0.05
}

dlrun_wait() { # wait until the ranks have ended; then exit with the exit code of the process that failed first
  local status=0 daemon=
  { read -r daemon </proc/$PPID/comm; } 2>/dev/null || true
  while kill -0 "$_dlrun_main" 2>/dev/null; do
    _dlrun_pause
    if _dlrun_clock_was_set || { [[ -n $_dlrun_unrecorded ]] && kill -0 "$_dlrun_main" 2>/dev/null; }; then
      _dlrun_record running
      _dlrun_unrecorded=
    fi
    _dlrun_event second
    if [[ $daemon == slurmstepd ]] && _dlrun_stat $$ && ((_dlrun_fields[1] != PPID)); then _dlrun_daemon_lost; fi
    _dlrun_watch_services
    if _dlrun_some_failed && ((++_dlrun_failing > 3)); then
      _dlrun_give_up 'a process failed and the rest did not end by themselves'
    fi
  done
  _dlrun_reap "$_dlrun_main" 1 || status=$?
  if ((status == 0)) && ! _dlrun_some_began; then _dlrun_give_up 'the launcher ended with exit code 0, and no rank has begun'; fi
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
  if kill "$tick" 2>/dev/null; then wait "$tick" 2>/dev/null || true; fi # only of one that is there: see `_dlrun_is_forgotten`
}

_dlrun_watch_services() { # a service that ends before the ranks do has failed
  local step
  for step in ${_dlrun_steps[@]+"${_dlrun_steps[@]}"}; do # bash 4.2 takes an empty array for one that is not set
    if [[ $step == "$_dlrun_main" ]] || kill -0 "$step" 2>/dev/null || ! kill -0 "$_dlrun_main" 2>/dev/null; then continue; fi
    if [[ $_dlrun_may_end == *" $step "* ]] && _dlrun_reap "$step" 0; then continue; fi # what fails has left a note
    _dlrun_give_up 'a service of the job ended early'
  done
}

# --- The end ------------------------------------------------------------------------------------------------

_dlrun_end_by() { # TEXT STATUS [REASON]: a signal asks for the end of the job
  trap '' TERM INT HUP USR1 USR2 PIPE # the next one, in the first moment of `_dlrun_finish`, would end this shell without a record
  if ((BASHPID != $$)); then exit "$2"; fi # in a child that got it before its exec
  dlrun_log "$1"
  _dlrun_asked=1
  if (($# > 2)); then _dlrun_reason=$3; fi
  exit "$2"
}

_dlrun_foreign_signal() { # NAME STATUS
  trap '' TERM INT HUP USR1 USR2 PIPE
  dlrun_log "$1 ended this script: something outside the job sent it"
  _dlrun_reason=signalled # it may end the scheduler's processes on other nodes, too: these nodes are not lost
  exit "$2"
}

_dlrun_arm() {
  trap - DEBUG RETURN
  trap '_dlrun_line_failed "$?" "$LINENO" "$BASH_COMMAND" "${BASH_SOURCE[0]}"' ERR
  trap _dlrun_finish EXIT
  trap '_dlrun_end_by "asked to end" 143 "asked to end"' TERM
  trap '_dlrun_end_by "interrupted" 130' INT
  trap '' HUP
  trap '_dlrun_foreign_signal SIGUSR1 138' USR1 # what the job itself sends has a trap of its own
  trap '_dlrun_foreign_signal SIGUSR2 140' USR2
  _dlrun_event arm
}

_dlrun_line_failed() { # STATUS LINE COMMAND FILE: a line of job.sh, or of a file that it sources, ends the job
  local what=${3%%$'\n'*} where=${4##*/}
  [[ $- == *e* ]] || return 0 # after `set +e` in a set-up line the job continues
  if [[ $4 == "$0" ]]; then where=job.sh; fi # schedulers run a copy of another name
  dlrun_log "$where, line $2: \`${what:0:200}\` failed with exit code $1"
}

_dlrun_give_up() { # WHY
  dlrun_log "$1"
  _dlrun_exit 1
}

_dlrun_finish() { # [STATUS]: the EXIT trap: runs at every end of this script
  _dlrun_status=${1:-$?}
  trap '' TERM INT HUP USR1 USR2 PIPE
  if ((BASHPID != $$)); then exit "$_dlrun_status"; fi # in a child that got a signal before its exec
  trap - EXIT
  IFS=$' \t\n'
  set +eu -h # whatever fails from here on, the end is recorded
  hash -r
  PATH=${PATH:+$PATH:}$_dlrun_path
  if [[ -n $_dlrun_asked ]]; then _dlrun_event asked; fi
  if ((_dlrun_status == 0)) && [[ -z $_dlrun_over ]]; then
    dlrun_log 'a line of job.sh ended it before the ranks did' # `exit` in a module file; old versions of bash after an error
    _dlrun_status=1
  fi
  _dlrun_terminate ${_dlrun_steps[@]+"${_dlrun_steps[@]}"}
  _dlrun_terminate ${_dlrun_beside[@]+"${_dlrun_beside[@]}"} # at SIGTERM they still report what they have found
  if ((_dlrun_status)); then _dlrun_report_first_failure; fi
  _dlrun_event gone
  if [[ -z $_dlrun_asked ]]; then
    _dlrun_find_cause
    _dlrun_event next
  fi
  _dlrun_record ended "$_dlrun_status" "$_dlrun_reason"
  dlrun_log "job $DLRUN_JOB_ID ended with exit code $_dlrun_status"
  _dlrun_event over
  exit "$_dlrun_status"
}
