# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# Before the end of the walltime ranks save their state, or are ended; and the job is requeued to continue from there.

_dlrun_carrier=   # the signal that carries the early warning to each rank.sh
_dlrun_warning_sent=      # the time at which the ranks were warned, in seconds since the start
_dlrun_warn_at=   # the time at which to warn them; empty: unknown, or never
_dlrun_before=0   # seconds between the warning and the end of the walltime
_dlrun_requeues=0 # maximum number of runs after the first
_dlrun_causes=    # the causes after which the job is requeued
_dlrun_requeue_command=()   # the command that requeues the job
_dlrun_saves=     # the directory or file of the checkpoints
_dlrun_on_event second _dlrun_check_time

dlrun_end_before() { # SECONDS DUE: the ranks are ended DUE seconds after the start, SECONDS before the walltime is over
  _dlrun_before=$1 _dlrun_due=$2 _dlrun_warn_at=$2
}

dlrun_end_at() { # SIGNAL SECONDS: the ranks are ended when it comes, SECONDS before the job has to be over
  _dlrun_end_signal=$1 _dlrun_before=$2 _dlrun_due=
  _dlrun_on_event arm _dlrun_trap_end
  _dlrun_event arm
}

_dlrun_trap_end() { trap _dlrun_warned "$_dlrun_end_signal"; }

dlrun_checkpoint() { # SIGNAL CARRIER SECONDS DUE FROM TO: the early signal; FROM is `scheduler` if that sends CARRIER, else `job`
  _dlrun_signal=$1 _dlrun_carrier=$2 _dlrun_before=$3 _dlrun_due=$4 _dlrun_to=$6
  if [[ $5 == scheduler ]]; then
    _dlrun_on_event arm _dlrun_trap_warning
  else
    _dlrun_warn_at=$4
    _dlrun_on_event arm _dlrun_pass_warning_on
  fi
  _dlrun_event arm
}

_dlrun_trap_warning() { trap _dlrun_warned "$_dlrun_carrier"; }
_dlrun_pass_warning_on() { # ignored, it could not reach the ranks
  case $(trap -p "$_dlrun_carrier") in
    '' | *_dlrun_foreign_signal*) trap : "$_dlrun_carrier" ;;
  esac
}

_dlrun_warned() { # the scheduler has sent its signal
  if [[ -n $_dlrun_warn_at ]]; then return 0; fi
  _dlrun_read_clock
  _dlrun_warn_at=$_dlrun_now
  if [[ -n $_dlrun_due ]] && ((_dlrun_due > _dlrun_now && _dlrun_due <= _dlrun_now + 60)); then
    _dlrun_warn_at=$_dlrun_due # schedulers may send it a minute too early
  fi
}

_dlrun_check_time() { # about once a second while the ranks run
  local margin=$((_dlrun_before / 2 < 20 ? _dlrun_before / 2 : 20)) # of those seconds, what it takes to end the ranks
  _dlrun_read_clock
  if [[ -z $_dlrun_warning_sent && -n $_dlrun_warn_at ]] && ((_dlrun_now >= _dlrun_warn_at && _dlrun_now >= _dlrun_launched_at + 5)); then
    _dlrun_warning_sent=$_dlrun_now
    if [[ -n $_dlrun_carrier ]]; then
      dlrun_log "the walltime ends in about $_dlrun_before s: SIG$_dlrun_signal to $_dlrun_to"
      kill -s "$_dlrun_carrier" "$_dlrun_main" 2>/dev/null || true
    fi
  fi
  if [[ -n $_dlrun_warning_sent ]] && ((_dlrun_now - _dlrun_warning_sent >= (${#_dlrun_carrier} ? _dlrun_before - margin : 0))); then
    dlrun_log 'the walltime is over: ending the ranks'
    _dlrun_grace=$((margin / 2))
    exit 124
  fi
}

# --- Another run --------------------------------------------------------------------------------------------

dlrun_saves_to() { # PATH of the checkpoints: after a run without a newer file there, the job is not requeued
  _dlrun_saves=$1
  _dlrun_saved=$(_dlrun_newest)
}

_dlrun_newest() { # print the time and the size of the newest file
  find "$_dlrun_saves" -type f -printf '%T@ %s\n' 2>/dev/null | sort -n | tail -n 1 || true
}

dlrun_requeue() { # TIMES CAUSES COMMAND...: after one of these causes, at most so many times, the command requeues the job
  _dlrun_requeues=$1 _dlrun_causes=" $2 " _dlrun_requeue_command=("${@:3}")
}

_dlrun_on_event next _dlrun_decide_next
_dlrun_decide_next() {
  local cause=user_error
  if [[ -n $_dlrun_warning_sent ]] && ((_dlrun_status == 0)); then _dlrun_status=124; fi # it was saved, not done
  ((_dlrun_status)) || return 0
  if [[ -n $_dlrun_warning_sent ]]; then _dlrun_reason='timed out'; fi
  if [[ -n $_dlrun_reason ]]; then cause=${_dlrun_reason// /_}; fi
  if [[ $_dlrun_causes != *" $cause "* ]]; then return 0; fi
  if ((DLRUN_RESTART >= _dlrun_requeues)); then
    dlrun_log "this was run $((DLRUN_RESTART + 1)) of $((_dlrun_requeues + 1)): no other follows"
    return 0
  fi
  if [[ -n $_dlrun_saves && $(_dlrun_newest) == "$_dlrun_saved" ]]; then
    dlrun_log 'there is no newer checkpoint than when this run began: no other follows'
    return 0
  fi
  _dlrun_record requeued "$_dlrun_status" "$_dlrun_reason"
  dlrun_log "run $((DLRUN_RESTART + 1)) of at most $((_dlrun_requeues + 1)) ends (${cause//_/ }); another follows"
  if "${_dlrun_requeue_command[@]}"; then
    _dlrun_event requeued
    exit "$_dlrun_status"
  fi
  dlrun_log 'the job could not be started again'
}

_dlrun_on_event start _dlrun_count_earlier
_dlrun_count_earlier() { # add up the seconds of earlier runs, from their records; for a killed run until its last log line
  local line='' seen=0 log
  [[ -f $DLRUN_RUN_DIR/state.json ]] && read -r line <"$DLRUN_RUN_DIR/state.json"
  [[ $line =~ \"started\":\ ([0-9]+),\ \"ended\":\ ([0-9]+|null) ]] || return 0
  local started=${BASH_REMATCH[1]} ended=${BASH_REMATCH[2]}
  if [[ $line =~ \"state\":\ \"requeued\".*\"ran\":\ ([0-9]+) ]]; then
    ended=$((started + BASH_REMATCH[1]))
  elif [[ $ended == null ]]; then # killed: it could not write its end
    for log in "$DLRUN_RUN_DIR"/logs/{job,rank-0}.log; do
      if [[ -f $log ]] && log=$(stat -c %Y "$log") && ((log > seen)); then seen=$log; fi
    done
    ended=$((seen > started ? seen : started))
  fi
  if [[ $line =~ \"earlier\":\ ([0-9]+) ]]; then _dlrun_earlier=${BASH_REMATCH[1]}; fi
  _dlrun_earlier=$((_dlrun_earlier + ended - started))
}
