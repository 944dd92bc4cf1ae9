# shellcheck shell=bash disable=SC2154 # variables of the page and of python.sh
# Functions of stage.sh, which runs once on each node: data to node-local storage, results from it, and cleaning up.

dlrun_stage_on() { # INDEX of this node in the job; from here on all output goes to the node's own log
  _dlrun_index=$1
  read -r _dlrun_host </proc/sys/kernel/hostname
  exec >>"$DLRUN_RUN_DIR/logs/stage-$1.log" 2>&1
  export DLRUN_STAGE_EVENTS=$DLRUN_RUN_DIR/logs/stage-$1.jsonl # the same in machine-readable form
  _dlrun_job=${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-} # an array's id may have brackets
  _dlrun_started=$DLRUN_RUN_DIR/early/$1
  _dlrun_home='' _dlrun_results='' _dlrun_time=''
}

dlrun_results_to() { # DIRECTORY WHEN SECONDS: copy results there, always or after success (ok), in so many seconds; without DIRECTORY only work/
  _dlrun_home=$1 _dlrun_results=$2 _dlrun_time=$3
}

dlrun_stage_action() { # ACTION FUNCTION: `in` calls the function, which copies data; out, clean, leave and keep handle the end
  case $1 in
  in)
    if _dlrun_is_foreign; then exit 1; fi
    trap 'trap "" TERM; kill "$!" 2>/dev/null; wait "$!"; _dlrun_node clean --job "$_dlrun_job"; exit 143' TERM # what has come goes
    _dlrun_choose_python || _dlrun_failed "$?"
    if [[ -n $_dlrun_home ]]; then _dlrun_node results --name "$_dlrun_job" || exit; fi
    _dlrun_node clean # what jobs that are gone left behind
    "$2"
    ;;
  out) trap '' TERM && { _dlrun_has_left || _dlrun_copy_out work results; } ;; # where the job is asked to end, this is what is still to be done
  work) trap '' TERM && _dlrun_copy_out work ;;
  clean) trap '' TERM && _dlrun_clean ;;
  leave) trap '' TERM && { _dlrun_standby_did_it || _dlrun_leave_and_note; } ;;
  keep) _dlrun_keep ;;
  esac
}

dlrun_hold() { # DIRECTORY: holders.py runs this on each node; once the job is over, or asked to end, its use of the data ends, which points may still have
  local asked=''
  export DLRUN_STAGE=$1
  trap '' HUP INT USR1 USR2
  trap 'asked=1' TERM
  while [[ -z $asked ]]; do
    read -r -t 2 _ || (($? > 128)) || break # above 128: nothing came within two seconds
  done
  trap '' TERM
  _dlrun_node clean --job "${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}" >/dev/null
}

dlrun_missing_secret() { # NAME WHAT: a secret could not be read
  echo "dlrun: secret $1 could not be read: $2"
  _dlrun_failed 1
}

dlrun_stage_data_set() { # ARGUMENTS...: of `node.pyz stage`: one data set
  if [[ -n ${DLRUN_STAGE_ALONE-} ]]; then
    set -- "$@" --keep job # no other job would find it
  elif [[ -n ${DLRUN_HELD_BY-} && " $* " == *' --keep job '* ]]; then
    set -- "$@" --held-by "${DLRUN_HELD_BY//[!A-Za-z0-9._-]/-}" # for the other points of the job
  fi
  _dlrun_node stage "$@" --job "$_dlrun_job" || _dlrun_failed $?
}

_dlrun_is_foreign() { # true, with a note for job.sh, if another user has taken the name of the directory here
  local owner
  owner=$(stat -c %u -- "$DLRUN_STAGE" 2>/dev/null) || return 1
  if [[ $owner == "$EUID" ]]; then return 1; fi
  echo "$DLRUN_STAGE belongs to another user (uid $owner)"
  echo "${_dlrun_host%%.*} $owner" >"$DLRUN_RUN_DIR/foreign-$_dlrun_index"
}

_dlrun_clean() { # this job's use of the data ends; a directory that is this job's alone goes as well, once it is empty
  _dlrun_node clean --job "$_dlrun_job"
  if [[ -n ${DLRUN_STAGE_ALONE-} && $(ls -A -- "$DLRUN_STAGE" 2>/dev/null) == .dlrun ]]; then rm -rf -- "$DLRUN_STAGE"; fi
}

dlrun_relay_data_set() { # ARGUMENTS...: the same, with nodes that send the data to one another
  dlrun_stage_data_set "$@" --hosts "$DLRUN_HOSTS" --index "$_dlrun_index" --port "$DLRUN_STAGE_PORT" --secret "$DLRUN_RUN_DIR/stage-secret"
}

dlrun_seed_caches() { # BASE KEY: what the user's store has for the compilers' caches of this node; without it they compile
  local machine digest archive place words=()
  if [[ -z ${DLRUN_COMPILED-} ]]; then return 0; fi
  read -r machine digest archive <<<"$DLRUN_COMPILED"
  if [[ -n ${DLRUN_STAGE_PORT-} ]]; then
    words=(--hosts "$DLRUN_HOSTS" --index "$_dlrun_index" --port "$DLRUN_STAGE_PORT" --secret "$DLRUN_RUN_DIR/stage-secret")
  fi
  _dlrun_place_caches "$1" || return 0
  _dlrun_node compiled-seed --into "$place/$2" --machine "$machine" --digest "$digest" --archive "$archive" \
    --run "$DLRUN_CACHES_RUN" --name "caches-$_dlrun_job" ${words[@]+"${words[@]}"} || echo "$?" >"$DLRUN_RUN_DIR/not-seeded-$_dlrun_index"
}

dlrun_fix_venv() { # NAME SOURCE: scripts of a staged virtual environment start its own interpreter
  if [[ ! -e $DLRUN_RUN_DIR/in-place-$1 ]]; then _dlrun_node fix-venv --name "$1" --source "$2"; fi
}

dlrun_lay_out_code() { # NAME: this node's work/, from the staged copy; that of an earlier start on this node stays
  local work=$DLRUN_STAGE/.results-code-$_dlrun_job/work
  if [[ -e $DLRUN_RUN_DIR/in-place-$1 || -d $work ]]; then return 0; fi
  # No hard links: the program may change each file, and what it has not changed is known by its time.
  if ! { _dlrun_node results --name "code-$_dlrun_job" && rm -rf -- "$work.new" &&
    cp -a --no-preserve=links -- "$DLRUN_STAGE/$1-$_dlrun_job/data" "$work.new" && mv -T -- "$work.new" "$work"; }; then
    _dlrun_failed 1
  fi
}

_dlrun_node() { # COMMAND...: the node program, which needs nothing but a Python from 3.6 on; a signal does not wait for it
  _dlrun_choose_python || return "$?"
  "${_dlrun_python[@]}" "$DLRUN_JOB_DIR/node.pyz" "$@" --to "$DLRUN_STAGE" &
  wait "$!"
}

_dlrun_failed() { # CODE: note it for job.sh, and end
  trap '' TERM # another node may have failed as well and ends this one now: the note is complete, or not there
  printf '%s stage %s %s %s\n' "$(date +%s%N)" "$_dlrun_index" "${_dlrun_host%%.*}" "$1" >"$DLRUN_RUN_DIR/failures/stage-$_dlrun_index"
  exit "$1"
}

# --- The end ------------------------------------------------------------------------------------------------

_dlrun_copy_out() { # work|results...: to the shared file system, and then they go from here
  local what code=0
  if ! _dlrun_copy_back "$@"; then return 1; fi
  for what; do
    what=${what/#work/code-$_dlrun_job}
    _dlrun_node results --name "${what/#results/$_dlrun_job}" --remove || code=1
  done
  return "$code"
}

_dlrun_copy_back() { # work|results...: to the shared file system, in the time that there is for all of them; false if one did not arrive
  local what from to options code=0 end=$((SECONDS + _dlrun_time))
  for what; do
    if [[ $what == results ]]; then
      from=$DLRUN_RESULTS to=$_dlrun_home options=()
    else
      from=$DLRUN_STAGE/.results-code-$_dlrun_job/work to=$DLRUN_RUN_DIR/work
      options=(--known "$DLRUN_JOB_DIR/code/snapshot.sha256" --known-time 946684800) # in each copy
      if [[ ! -d $from ]]; then continue; fi
    fi
    dlrun_python "$DLRUN_JOB_DIR/node.pyz" stage-out --source "$from" --to "$to" --update --sync set --skip-special \
      --deadline "$((end > SECONDS ? end - SECONDS : 1))s" ${options[@]+"${options[@]}"} || code=1
  done
  return "$code"
}

_dlrun_leave() { # the job was asked to end: do all that remains on this node at once; false if results remain here
  local code=0 grace=${DLRUN_GRACE:-10} wanted=(work)
  # shellcheck source=standby.sh
  declare -F _dlrun_find_ranks >/dev/null || source "$DLRUN_JOB_DIR/lib/standby.sh"
  if [[ -n $_dlrun_home && $_dlrun_results == always && -d $DLRUN_RESULTS ]]; then wanted+=(results); fi
  if ! _dlrun_ranks_gone $((3 * grace)); then # they were asked to end, too
    _dlrun_copy_back "${wanted[@]}" # there may be no time for more
    _dlrun_ranks_gone $((4 * grace)) || _dlrun_end_ranks 0
  fi
  _dlrun_copy_out "${wanted[@]}" || code=1
  _dlrun_clean
  return "$code"
}

_dlrun_keep() { # the step beside the training that waits for the end: in a job that is cancelled no step can be started, but this one runs already
  local asked='' code=255 starts
  if [[ -n ${_dlrun_step-} ]]; then # the standby itself, in a session of its own
    _dlrun_standby
    return 0
  fi
  trap '' HUP USR1 USR2 # meant for the program; without this step the node would do its part too early
  trap 'asked=1; kill -TERM "$!" 2>/dev/null' TERM
  _dlrun_note_standby
  for ((starts = 0; code > 128 && starts < 9; starts++)); do # another one, where somebody kills it
    _dlrun_step="$$ $PPID $asked" setsid "$BASH" -p "$DLRUN_JOB_DIR/stage.sh" keep </dev/null &
    while :; do
      wait "$!"
      code=$?
      kill -0 "$!" 2>/dev/null || break # a trapped signal ends `wait`
    done
  done
}

_dlrun_note_standby() { # once no process of this run is here any more, its uses of data are over, whatever was killed (dlrun/node/store/uses.py)
  if [[ -d $DLRUN_STAGE/.dlrun ]] && grep -qszxF -e "DLRUN_RUN_ID=$DLRUN_RUN_ID" "/proc/$$/environ"; then # it would be seen
    printf '{"boot": "%s", "names": "%s"}\n' "$(</proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/pid)" \
      >"$DLRUN_STAGE/.dlrun/standby.$_dlrun_job"
  fi
}

_dlrun_standby() { # until the job is asked to end, or the step or its daemon is gone: then all that remains on this node
  local pid parent
  # shellcheck source=standby.sh
  source "$DLRUN_JOB_DIR/lib/standby.sh"
  read -r pid parent _dlrun_leaving <<<"$_dlrun_step"
  trap '_dlrun_leaving=1' TERM
  _dlrun_detach
  _dlrun_await_gone "$pid" "$parent"
  [[ ! -e $DLRUN_RUN_DIR/kept/none ]] || exit 0
  trap '' TERM # it may come twice
  if [[ -n $_dlrun_leaving ]]; then
    touch "$DLRUN_RUN_DIR/kept/notice-$_dlrun_index"
  else # this node alone: its ranks have a standby of their own, which may have been killed, too
    until _dlrun_ranks_gone 300 || ((${#_dlrun_shells[@]} == 0)); do :; done
  fi
  _dlrun_leave_and_note
}

_dlrun_has_left() { # true if this node's standby has done all that remained here
  local code
  { read -r code <"$DLRUN_RUN_DIR/kept/$_dlrun_index"; } 2>/dev/null && [[ $code == 0 ]]
}

_dlrun_standby_did_it() { # the same, once it is not at work any more; it is asked to begin, for its request may be lost
  local file first alive=1 asked='' found
  while [[ -n $alive ]]; do
    if _dlrun_has_left; then return 0; fi
    alive=
    mapfile -t found < <(grep -lszxF -e "$DLRUN_JOB_DIR/stage.sh" /proc/[0-9]*/cmdline)
    while read -r file; do # of this run; not the launcher, whose arguments these are, too
      { read -r -d '' first <"$file"; } 2>/dev/null || continue
      if [[ ${first##*/} == *bash ]] && grep -qszxF -e "DLRUN_RUN_ID=$DLRUN_RUN_ID" "${file%cmdline}environ"; then
        alive=1
        [[ -n $asked ]] || kill -TERM "${file//[!0-9]/}" 2>/dev/null
      fi
    done < <(grep -lszxF -e keep /dev/null ${found[@]+"${found[@]}"})
    asked=1
    [[ -z $alive ]] || sleep 0.2
  done
  _dlrun_has_left # it may have done it, and ended, between the two looks
}

_dlrun_leave_and_note() { # the same, and a note for job.sh that it is done
  local code=0
  _dlrun_leave || code=1
  _dlrun_remove_brokers
  if [[ -d $DLRUN_RUN_DIR/kept ]]; then
    echo "$code" >"$DLRUN_RUN_DIR/kept/new-$_dlrun_index-$$"
    mv -f "$DLRUN_RUN_DIR/kept/new-$_dlrun_index-$$" "$DLRUN_RUN_DIR/kept/$_dlrun_index"
  fi
  return "$code"
}
