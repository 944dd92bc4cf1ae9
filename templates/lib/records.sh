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

_dlrun_create_empty() { # NAME...: create directories for this start; of those with dlrun's mark, what an earlier start wrote is removed
  local place places=() old=() new=()
  for place; do
    place=$DLRUN_RUN_DIR/$place
    places+=("$place")
    if [[ -e $place/.dlrun ]]; then
      old+=("$place")
      continue
    elif [[ -e $place || -L $place ]]; then
      dlrun_log "this job needs the name $place, which something that is not dlrun's has: move that" && exit 1
    fi
    new+=("$place")
  done
  for place in ${old[@]+"${old[@]}"}; do _dlrun_remove_own "$place"; done
  if [[ ! -d $DLRUN_RUN_DIR/logs ]]; then new+=("$DLRUN_RUN_DIR/logs"); fi
  if [[ -e $DLRUN_JOB_DIR/usage.py && ! -e $DLRUN_RUN_DIR/usage && ! -L $DLRUN_RUN_DIR/usage ]]; then new+=("$DLRUN_RUN_DIR/usage"); fi
  if ((${#new[@]})); then mkdir -p -- "${new[@]}"; fi # here once, not on each node; pool.py has made those of a point
  for place in "${places[@]}"; do : >"$place/.dlrun"; done
}

_dlrun_remove_own() { # DIRECTORY: remove what an earlier start wrote in it, by name and content; anything else is the user's, and stays
  local file first host own=()
  for file in "$1"/*; do
    if [[ ! -f $file || -L $file ]]; then continue; fi
    first=''
    { read -r first; } 2>/dev/null <"$file" || true
    case ${1##*/}/${file##*/} in
    failures/* | ended/*) _dlrun_is_note "$file" ;;
    idle/dump | idle/abort | idle/*-*[0-9] | idle/*-*[0-9].ended | kept/none | kept/notice-*[0-9]) [[ ! -s $file ]] ;;
    stacks/*-*[0-9].txt | stacks/*-*[0-9].txt.new) [[ -z $first || "${first%% on *}" =~ ^[^\ ]+\ [0-9]+$ && ${file##*/} == "${first%% *}-"* ]] ;;
    kept/*[0-9]) [[ ${file##*/} =~ ^(new-)?[0-9]+$ && $first =~ ^[01]?$ ]] ;;
    early/*[0-9]) [[ ${file##*/} =~ ^[0-9]+$ && $first =~ ^([0-9]+\ [0-9]+)?$ ]] ;;
    placement/*) [[ $first == '{"version": 1, "host": "'"${file##*/}"'", '* ]] ;;
    nodes/best) true ;;
    *) false ;;
    esac && own+=("$file")
  done
  if [[ ${1##*/} == nodes && -f $1/hosts ]]; then
    while read -r host; do
      if [[ $host == */* || -z $host ]]; then continue; fi
      for file in hosts hosts-first log {port,done,report.json}{,.new}; do own+=("$1/$host/$file"); done
      rm -f -- "${own[@]}" && own=()
      rmdir -- "$1/$host" 2>/dev/null || true
    done <"$1/hosts"
    own+=("$1/hosts")
  fi
  if ((${#own[@]})); then rm -f -- "${own[@]}"; fi
}

dlrun_spread_logs() { # COUNT: directories for the logs of so many ranks, a thousand in each
  local i
  for ((i = 0; i * 1000 < $1; i++)); do mkdir -p "$DLRUN_RUN_DIR/logs/$i"; done
}

_dlrun_begin_clock() { # sets _dlrun_started, and from when both clocks count
  printf -v _dlrun_started '%(%s)T' -1
  _dlrun_zero=0
  _dlrun_read_clock
  _dlrun_zero=$((_dlrun_now - _dlrun_used))
  _dlrun_epoch=$((_dlrun_started - _dlrun_used)) # the wall time at which _dlrun_now was 0
}

_dlrun_read_clock() { # sets _dlrun_now: the seconds that the job has run, by a clock that cannot be set, unlike $SECONDS
  local up # of this call: a trap may read the clock in the middle of it, and be interrupted by a second one
  read -r up _ </proc/uptime
  _dlrun_now=$((${up%%.*} - _dlrun_zero))
}

_dlrun_clock_was_set() { # true if this node's clock was set: wall times move with it, so that their differences remain durations
  local wall step how=forward
  printf -v wall '%(%s)T' -1
  _dlrun_read_clock
  step=$((wall - _dlrun_now - _dlrun_epoch))
  ((step > 2 || step < -2)) || return 1 # both clocks are read in whole seconds
  _dlrun_epoch=$((_dlrun_epoch + step)) _dlrun_started=$((_dlrun_started + step)) _dlrun_stepped=$((_dlrun_stepped + step))
  if [[ $_dlrun_launched_when != null ]]; then _dlrun_launched_when=$((_dlrun_launched_when + step)); fi
  ((step > 0)) || how=back
  dlrun_log "the clock of $_dlrun_host was set $how by ${step#-} s; durations are counted by one that cannot be set"
}

_dlrun_name_user() { # set DLRUN_USER, for names on storage that all users of a node share
  local text='\u' # expanded as in a prompt, without a process; $USER may be inherited from elsewhere
  if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then text=${text@P}; else text=$(id -un); fi
  export DLRUN_USER=$text
}

_dlrun_record() { # STATE [EXIT_CODE [REASON]]: write state.json atomically
  local ended=null exit_code=null reason=null text
  _dlrun_clock_was_set || true
  if [[ $1 == ended ]]; then
    printf -v ended '%(%s)T' -1
    exit_code=$2
  fi
  if [[ -n ${3-} ]]; then reason='"'$3'"'; fi
  printf -v text '{"version": 1, "state": "%s", "job_id": "%s", "host": "%s", "started": %s, "ended": %s, "exit_code": %s, "reason": %s, "restarts": %s, "ran": %s, "earlier": %s, "launched": %s, "staging": %s, "results": %s}' \
    "$1" "$DLRUN_JOB_ID" "$_dlrun_host" "$_dlrun_started" "$ended" "$exit_code" "$reason" "${DLRUN_RESTART:-0}" "$((_dlrun_now - _dlrun_used))" "$_dlrun_earlier" \
    "$_dlrun_launched_when" "$_dlrun_staging" "$_dlrun_returning"
  if [[ ! -e $DLRUN_RUN_DIR/state.json ]] && printf '%s\n' "$text" >"$DLRUN_RUN_DIR/state.json"; then
    return 0 # the first: until it is there, there is none, as if it were empty
  elif printf '%s\n' "$text" >"$DLRUN_RUN_DIR/.state.$$"; then
    mv -f "$DLRUN_RUN_DIR/.state.$$" "$DLRUN_RUN_DIR/state.json"
  else # the disk is full: the file that is there has its block
    rm -f "$DLRUN_RUN_DIR/.state.$$"
    printf '%-500s\n' "$text" 1<>"$DLRUN_RUN_DIR/state.json"
  fi
} 2>/dev/null
