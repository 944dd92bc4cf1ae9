# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# For schedulers that do not requeue a job when its script asks: the same script is submitted again, by dlrun_client.

dlrun_exit_if_resubmitted() { # exit if another job has followed this one; else count the earlier runs
  local earlier
  if grep -qsxF -- "$DLRUN_JOB_ID" "$DLRUN_JOB_DIR/.followed"; then # a node died, and the scheduler has put it back all the same
    echo "dlrun: job $DLRUN_JOB_ID has ended, and another has followed it: nothing needs to be done"
    exit
  fi
  if read -r earlier 2>/dev/null <"$DLRUN_JOB_DIR/.restarts"; then DLRUN_RESTART=$((DLRUN_RESTART + earlier)); fi
}

dlrun_resubmit() { # CLIENT...: the same script as a new job, which continues the count
  local id
  if [[ -n ${DLRUN_POINT+set} ]]; then
    dlrun_log 'one point of an array cannot be submitted again by itself'
    return 1
  fi
  echo "$DLRUN_JOB_ID" >>"$DLRUN_JOB_DIR/.followed" # both must never run
  echo $((DLRUN_RESTART + 1)) >"$DLRUN_JOB_DIR/.restarts"
  id=$(cd -- "$DLRUN_JOB_DIR" && dlrun_client "$@") || {
    rm -f "$DLRUN_JOB_DIR/.followed"
    return 1
  }
  printf '%s\n' "$id" >"$DLRUN_JOB_DIR/job-id"
}
