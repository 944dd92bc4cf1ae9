# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# What PBS does not do for a job: count its starts, and put it back into the queue when its script asks.

dlrun_pbs() { # COMMAND...: one of PBS's clients, which are not on a job's PATH
  (
    # shellcheck source=/dev/null
    if [[ -r /etc/pbs.conf ]]; then . /etc/pbs.conf; fi # says where they are
    PATH=${PBS_EXEC:-/opt/pbs}/bin:$PATH
    "$@"
  )
}

dlrun_pbs_restarts() { # ATTRIBUTE: print how often the job was started before; PBS tells that only through qstat
  dlrun_pbs qstat -f "$PBS_JOBID" 2>/dev/null | awk -v attribute="$1" '$1 == attribute && $3 > 1 {n = $3 - 1} END {print n + 0}'
}

dlrun_unless_followed() { # end here if another job follows this one; else count the runs before
  local earlier
  if grep -qsxF -- "$DLRUN_JOB_ID" "$DLRUN_JOB_DIR/.followed"; then # a node died, and PBS has put it back all the same
    echo "dlrun: job $DLRUN_JOB_ID has ended, and another has followed it: nothing is to be done"
    exit
  fi
  if read -r earlier 2>/dev/null <"$DLRUN_JOB_DIR/.restarts"; then DLRUN_RESTART=$((DLRUN_RESTART + earlier)); fi
}

dlrun_resubmit() { # QSUB...: the same script as a new job, which goes on counting
  local id
  if [[ -n ${DLRUN_POINT+set} ]]; then
    dlrun_say 'one point of an array cannot be submitted again by itself'
    return 1
  fi
  echo "$DLRUN_JOB_ID" >>"$DLRUN_JOB_DIR/.followed" # both must never run
  echo $((DLRUN_RESTART + 1)) >"$DLRUN_JOB_DIR/.restarts"
  id=$(cd -- "$DLRUN_JOB_DIR" && dlrun_pbs "$@") || {
    rm -f "$DLRUN_JOB_DIR/.followed"
    return 1
  }
  printf '%s\n' "$id" >"$DLRUN_JOB_DIR/job-id"
}
