# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# What Grid Engine does differently: hosts of slots, a flag where others count restarts, and a requeue by exit code.

dlrun_ge_hosts() { # print the granted hosts, the script's own first
  if [[ -r ${PE_HOSTFILE-} ]]; then
    awk '!seen[$1]++ {print $1}' "$PE_HOSTFILE"
  else
    printf '%s\n' "${HOSTNAME%%.*}" # one slot, and no parallel environment
  fi | {
    mapfile -t _dlrun_granted
    if ((${#_dlrun_granted[@]} < DLRUN_NODES)); then
      dlrun_log "granted ${#_dlrun_granted[@]} hosts, and the job needs $DLRUN_NODES: the parallel environment's rule is not a fixed number of slots per host" >&2
      exit 1
    fi
    printf '%s\n' "${_dlrun_granted[@]}"
  }
}

dlrun_ge_restarts() { # print how often this job, or task, was started before
  local file=$DLRUN_JOB_DIR/.restarts job='' count=0
  if [[ ${SGE_TASK_ID:-undefined} != undefined ]]; then file+=-$SGE_TASK_ID; fi
  if [[ ${RESTARTED:-0} != 0 ]]; then
    read -r job count 2>/dev/null <"$file" || true
    if [[ $job != "$JOB_ID" ]]; then count=0; fi # of an earlier submission of this directory
    count=$((count + 1))
    echo "$JOB_ID $count" >"$file"
  fi
  echo "$count"
}

dlrun_ge_requeue() { _dlrun_status=99; } # sge_conf(5): a job that exits with 99 is put back

_dlrun_ge_plain_end() { # to Grid Engine, 99 of a training would mean: run it again; and 100: hold it as an error
  if ((_dlrun_status == 99 || _dlrun_status == 100)); then _dlrun_status=1; fi
}
_dlrun_on_event over _dlrun_ge_plain_end

_dlrun_ge_signals() { # s_rt sends SIGUSR1, -notify SIGUSR2 a minute before qdel ends the job: this shell survives them
  trap 'dlrun_log "the soft limit of the walltime (s_rt) is reached"; _dlrun_read_clock; _dlrun_soft_at=$_dlrun_now' USR1
  trap '_dlrun_end_by "asked to end" 143 cancelled' USR2 # accounting will have only the 143
}
_dlrun_on_event arm _dlrun_ge_signals

_dlrun_ge_soft_limit() { # it ends what qrsh has started: the program above that does not survive SIGUSR1
  _dlrun_read_clock
  if [[ -z $_dlrun_reason && -n ${_dlrun_soft_at-} ]] && ((_dlrun_now - _dlrun_soft_at < 20)); then _dlrun_reason='timed out'; fi
}
_dlrun_on_event cause _dlrun_ge_soft_limit
