# shellcheck shell=bash disable=SC2154 # variables of lib/job.sh
# The records in the job's directory: the directories of each start, and state.json; also clock and user name.
# Sourced by lib/job.sh.

_dlrun_expect_own_directory() { # a copy of a job directory would write to the one that it was copied from
  local place=${PBS_O_WORKDIR:-$PWD} # where a script that the scheduler has spooled was submitted
  if [[ $0 == */job.sh ]]; then place=${0%/*}; fi
  if [[ ! -e $place/job.sh || ! -e $place/plan.json || $place -ef $DLRUN_JOB_DIR ]]; then return 0; fi
  if [[ $(<"$0") != "$(<"$place/job.sh")" ]]; then return 0; fi # another job's directory
  # One directory that is mounted at two paths, as automounters do: another device, the same file.
  if [[ $(stat -c %i -- "$place/job.sh") == "$(stat -c %i -- "$DLRUN_JOB_DIR/job.sh" 2>/dev/null)" ]]; then return 0; fi
  dlrun_log "$place/job.sh is a copy: its DLRUN_JOB_DIR is $DLRUN_JOB_DIR, whose logs and state it would overwrite; set it to $place"
  exit 1
}

_dlrun_create_empty() { # NAME...: create empty directories for this start; those of an earlier start are removed if they have dlrun's mark
  local place places=() old=() usage=
  for place; do
    place=$DLRUN_RUN_DIR/$place
    places+=("$place")
    if [[ -e $place/.dlrun ]]; then
      old+=("$place")
    elif [[ -e $place || -L $place ]]; then
      dlrun_log "this job needs the name $place, which something that is not dlrun's has: move that" && exit 1
    fi
  done
  if ((${#old[@]})); then rm -rf -- "${old[@]}"; fi
  if [[ -e $DLRUN_JOB_DIR/usage.py && ! -e $DLRUN_RUN_DIR/usage && ! -L $DLRUN_RUN_DIR/usage ]]; then usage=$DLRUN_RUN_DIR/usage; fi
  mkdir -p -- "${places[@]}" "$DLRUN_RUN_DIR/logs" ${usage:+"$usage"} # here once, not on each node
  for place in "${places[@]}"; do : >"$place/.dlrun"; done
}

dlrun_spread_logs() { # COUNT: directories for the logs of so many ranks, a thousand in each
  local i
  for ((i = 0; i * 1000 < $1; i++)); do mkdir -p "$DLRUN_RUN_DIR/logs/$i"; done
}

_dlrun_read_clock() { # sets _dlrun_now: the seconds that the job has run, by a clock that cannot be set, unlike $SECONDS
  read -r _dlrun_now _ </proc/uptime
  _dlrun_now=$((${_dlrun_now%%.*} - _dlrun_zero))
}

_dlrun_name_user() { # set DLRUN_USER, for names on storage that all users of a node share
  local text='\u' # expanded as in a prompt, without a process; $USER may be inherited from elsewhere
  if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then text=${text@P}; else text=$(id -un); fi
  export DLRUN_USER=$text
}

_dlrun_record() { # STATE [EXIT_CODE [REASON]]: write state.json atomically
  local ended=null exit_code=null reason=null text
  if [[ $1 == ended ]]; then
    printf -v ended '%(%s)T' -1
    exit_code=$2
  fi
  if [[ -n ${3-} ]]; then reason='"'$3'"'; fi
  printf -v text '{"version": 1, "state": "%s", "job_id": "%s", "host": "%s", "started": %s, "ended": %s, "exit_code": %s, "reason": %s, "restarts": %s, "earlier": %s, "launched": %s, "staging": %s, "results": %s}' \
    "$1" "$DLRUN_JOB_ID" "$_dlrun_host" "$_dlrun_started" "$ended" "$exit_code" "$reason" "${DLRUN_RESTART:-0}" "$_dlrun_earlier" \
    "$_dlrun_launched_when" "$_dlrun_staging" "$_dlrun_returning"
  if printf '%s\n' "$text" >"$DLRUN_RUN_DIR/.state.$$"; then
    mv -f "$DLRUN_RUN_DIR/.state.$$" "$DLRUN_RUN_DIR/state.json"
  else # the disk is full: the file that is there has its block
    rm -f "$DLRUN_RUN_DIR/.state.$$"
    printf '%-500s\n' "$text" 1<>"$DLRUN_RUN_DIR/state.json"
  fi
} 2>/dev/null
