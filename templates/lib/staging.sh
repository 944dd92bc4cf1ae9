# shellcheck shell=bash disable=SC2154 # variables of the page's own part
# In job.sh: copy data to every node before the training, and results from every node after it. Each node runs stage.sh.

_dlrun_in_place=   # set once all data is on the nodes, and ranks may write results
_dlrun_keeper=     # the standby step: in a job that Slurm cancels no other step can start
_dlrun_keeps=()    # the command that starts it
_dlrun_kept_nodes= # the number of nodes that it runs on
_dlrun_missing=    # those that have not said that all is done
_dlrun_to=         # the destination of results
_dlrun_results=    # when they are copied: always or ok
_dlrun_away=       # the directory on each node in which ranks run, if that is a copy of work/
_dlrun_sets=()     # the variables with the paths of data sets
_dlrun_early=0     # the number of nodes that must have enough of the data, if the training does not wait for all of it

dlrun_results() { # DIRECTORY WHEN: files that ranks write to DLRUN_RESULTS are copied there, always or after success (ok)
  _dlrun_to=$1 _dlrun_results=$2
  mkdir -p -- "$1" # now, not when they are to be copied there
  export DLRUN_RESULTS=$DLRUN_STAGE/.results-${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}
}

dlrun_data() { # VARIABLE NAME SOURCE: where ranks find a data set (SOURCE is empty for what is unpacked); dlrun_data.py is on PYTHONPATH
  _dlrun_sets+=("$1")
  if [[ :${PYTHONPATH-}: != *:"$DLRUN_JOB_DIR/python":* ]]; then
    export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$DLRUN_JOB_DIR/python"
  fi
  export "$1=$DLRUN_STAGE/$2/data"
  if [[ -f $3 ]]; then export "$1=$DLRUN_STAGE/$2/data/${3##*/}"; fi # one file, under its own name
  rm -f -- "$DLRUN_RUN_DIR/in-place-$2"
}

dlrun_data_image() { # VARIABLE NAME SOURCE: the same, where each node mounts it for this job (lib/mount.sh)
  dlrun_data "$1" "$2" ''
  export "$1=$DLRUN_STAGE/.dlrun/mounts/$2@${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}"
}

dlrun_data_early() { # VARIABLE NAME SOURCE: the same, where files appear one by one
  local there=$DLRUN_STAGE/.early-${DLRUN_RUN_ID//[!A-Za-z0-9._-]/-}/$2/data
  dlrun_data "$@"
  export "$1=$there"
  if [[ -f $3 ]]; then export "$1=$there/${3##*/}"; fi
}

dlrun_in_place_if_too_large() { # VARIABLE NAME SOURCE: where a data set turned out not to fit, it is read in place
  local reason
  if { read -r reason <"$DLRUN_RUN_DIR/in-place-$2"; } 2>/dev/null; then
    export "$1=$3"
    dlrun_log "data set \`$2\` is read in place: $reason"
  fi
}

dlrun_use_staged_venv() { # NAME PATH: as its `activate` would; the copy's own scripts first, they start its interpreter
  if [[ -e $DLRUN_RUN_DIR/in-place-$1 ]]; then return 0; fi
  _dlrun_copied=${VIRTUAL_ENV-}
  export VIRTUAL_ENV=$2
  PATH=${VIRTUAL_ENV%/data}/bin:$VIRTUAL_ENV/bin:$PATH
}

dlrun_start_early() { # NODES: the training begins when this number of nodes has enough of the data
  _dlrun_early=$1
}

dlrun_standby_step() { # NODES COMMAND...: start stage.sh beside the training: it copies results and cleans up if Slurm cancels the job
  _dlrun_kept_nodes=$1 _dlrun_keeps=("${@:2}")
}

dlrun_stage() { # WHAT COMMAND...: start stage.sh on each node, and wait until the data is there
  local what=$1 begun
  _dlrun_starts=("${@:2}")
  _dlrun_read_clock
  begun=$_dlrun_now
  _dlrun_on_event asked _dlrun_leave
  _dlrun_on_event gone _dlrun_unstage
  if [[ $what == data ]]; then dlrun_log "staging in; each node's report is in $DLRUN_RUN_DIR/logs/stage-*.log"; fi
  if ! _dlrun_stage_in && ! { _dlrun_use_other_directory && _dlrun_stage_in; }; then
    if [[ $what == data ]]; then dlrun_log 'the data did not reach every node'; else dlrun_log 'the results could not be kept on every node'; fi
    exit 1
  fi
  _dlrun_read_clock
  _dlrun_staging=$((_dlrun_now - begun))
  if declare -F _dlrun_seeded >/dev/null; then _dlrun_seeded; fi # compiled entries came with the data
  if ((${#_dlrun_keeps[@]})); then
    _dlrun_create_empty kept
    "${_dlrun_keeps[@]}" bash -p "$DLRUN_JOB_DIR/stage.sh" keep </dev/null & # the training's step may have taken all memory of the job
    _dlrun_keeper=$!
  fi
  _dlrun_in_place=1
}

_dlrun_stage_in() { # true if each node has its data, or enough of it for the training to start
  local step starts=("${_dlrun_starts[@]}")
  if ((_dlrun_early)); then
    if ((${#_dlrun_keeps[@]})); then starts=("${_dlrun_keeps[@]}"); fi # a step beside which others can start
    _dlrun_create_empty early
  fi
  "${starts[@]}" bash -p "$DLRUN_JOB_DIR/stage.sh" in </dev/null &
  step=$!
  _dlrun_steps=("$step")
  if _dlrun_await_enough "$step"; then
    dlrun_log 'enough of the data is on each node for the training to start; the rest follows'
    _dlrun_may_end+=" $step "
  else
    wait "$step" && _dlrun_steps=()
  fi
}

_dlrun_await_enough() { # STEP: wait until each node has what the training starts with; false if there is no such amount, or the step ended
  local node there=0
  while ((_dlrun_early)); do
    for ((there = 0, node = 0; node < _dlrun_early; node++)); do # each by its name: a list of the directory may be an old one
      if [[ -e $DLRUN_RUN_DIR/early/$node ]]; then ((++there)); fi
    done
    if ((there == _dlrun_early)); then return 0; fi
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.2
  done
  return 1
}

_dlrun_use_other_directory() { # where another user has taken the directory's name on some node, all nodes use a random one; false if none has
  local noted name letters host owner
  noted=("$DLRUN_RUN_DIR"/foreign-*)
  [[ -e ${noted[0]} ]] || return 1
  letters=$(od -An -N8 -tx1 /dev/urandom)
  letters=$DLRUN_STAGE-${letters//[!0-9a-f]/}
  read -r host owner <"${noted[0]}"
  dlrun_log "$DLRUN_STAGE on $host belongs to another user (uid $owner): this job's data lies in $letters"
  for name in DLRUN_RESULTS ${_dlrun_sets[@]+"${_dlrun_sets[@]}"}; do
    if [[ ${!name-} == "$DLRUN_STAGE"/* ]]; then export "$name=$letters${!name#"$DLRUN_STAGE"}"; fi
  done
  export DLRUN_STAGE=$letters DLRUN_STAGE_ALONE=1
  printf '%s\n' "$DLRUN_STAGE" >"$DLRUN_RUN_DIR/stage-directory"
  rm -f -- "${noted[@]}" "$DLRUN_RUN_DIR"/failures/stage-*
}

# --- The end ------------------------------------------------------------------------------------------------

_dlrun_on_each_node() { # TENTHS ACTION: a step of stage.sh that may take so long; false if it fails
  _dlrun_within "$1" "${_dlrun_starts[@]}" bash -p "$DLRUN_JOB_DIR/stage.sh" "$2"
}

_dlrun_leave() { # the job was asked to end and has little time: end ranks, copy results and clean up on all nodes at once
  kill -TERM ${_dlrun_steps[@]+"${_dlrun_steps[@]}"} 2>/dev/null
  if [[ -n ${DLRUN_POINT-} && -e $DLRUN_RUN_DIR/.cancel ]]; then _dlrun_left_to_end=''; fi # the other points run on, and so there is time
  if [[ -n $_dlrun_in_place ]]; then _dlrun_announce_copies 1; fi
  if ((${#_dlrun_keeps[@]})); then
    if [[ -z $_dlrun_keeper ]] || _dlrun_await_standby; then return 0; fi # what is on its way in goes by itself
    if [[ -n ${_dlrun_left_to_end-} ]]; then # no step can be started
      _dlrun_name_missing
      return 0
    fi
  fi
  _dlrun_on_each_node $((10 * ${DLRUN_COPIES:-100})) leave || [[ $_dlrun_results != always && -z $_dlrun_away || -z $_dlrun_in_place ]] || _dlrun_results_left
}

_dlrun_announce_copies() { # STATUS: what is copied from the nodes after an end with this exit code
  if [[ -n $_dlrun_away ]]; then dlrun_log "copying what the ranks wrote beside the code to $DLRUN_RUN_DIR/work"; fi
  if [[ $_dlrun_results == always || $_dlrun_results == ok && $1 == 0 ]]; then
    dlrun_log "copying the results to $_dlrun_to"
  elif [[ -n $_dlrun_results ]]; then
    dlrun_log "the results stay on the nodes, in $DLRUN_RESULTS: the job did not end well"
  fi
}

_dlrun_await_standby() { # wait for what each node's standby does then; false if something did not arrive, or the step is gone
  local waited some=0 ask=100 most=$((10 * ${_dlrun_left_to_end:-100}))
  if [[ -n ${_dlrun_left_to_end-} || -z ${SLURM_JOB_ID-} ]]; then ask=0; fi # only Slurm asks them itself
  for ((waited = 0; some < _dlrun_kept_nodes && waited < most; waited++)); do
    if ! kill -0 "$_dlrun_keeper" 2>/dev/null; then
      if ((ask)); then break; fi
      # Elsewhere the standbys outlive it, unless they were killed, too: where there is time, `leave` then waits for those that were not.
      if [[ -z ${_dlrun_left_to_end-} ]] && ((most > waited + 50)); then most=$((waited + 50)); fi
    fi
    if ((waited == ask)) && ! _dlrun_matches kept 'notice-*' >/dev/null; then # the request was not Slurm's: a second SIGTERM would end it too early
      kill -TERM "$_dlrun_keeper" 2>/dev/null
    fi
    sleep 0.1
    some=$(_dlrun_matches kept '[0-9]*' | wc -l)
  done
  _dlrun_find_missing
  [[ -z $_dlrun_missing ]]
}

_dlrun_find_missing() { # sets _dlrun_missing: the nodes that have not said that all is done, each after a blank
  local hosts node code
  _dlrun_missing=
  mapfile -t hosts <"$DLRUN_HOSTS"
  for ((node = 0; node < ${_dlrun_kept_nodes:-0}; node++)); do # each by its name: a list of the directory may be an old one
    { read -r code <"$DLRUN_RUN_DIR/kept/$node"; } 2>/dev/null && [[ $code == 0 ]] || _dlrun_missing+=" ${hosts[node]-}"
  done
}

_dlrun_name_missing() { # the nodes that have not said that all is done
  local places
  places=${DLRUN_RESULTS-}${DLRUN_RESULTS:+${_dlrun_away:+ and }}$_dlrun_away
  if [[ -n $_dlrun_results$_dlrun_away && -n $_dlrun_in_place ]]; then
    dlrun_log "no word yet of the results on:$_dlrun_missing; its standby continues, else they stay in $places; see $DLRUN_RUN_DIR/logs/stage-*.log"
  else
    dlrun_log "no word yet of the data on:$_dlrun_missing; each node's standby removes it, else the next job there does"
  fi
}

_dlrun_unstage() { # copy results, then end this job's use of the data; if that fails, the next job on the node cleans up
  if [[ -n $_dlrun_asked ]]; then return 0; fi
  if [[ -n $_dlrun_keeper ]] && _dlrun_matches kept 'notice-*' >/dev/null; then # the scheduler ends the job: its steps get the signal first
    _dlrun_leave
    # Or a node is lost, for which the launcher, where it is not the scheduler's own, has asked the standbys of the others.
    if [[ -z ${SLURM_JOB_ID-}${_dlrun_left_to_end-} ]]; then _dlrun_find_cause; fi
    if [[ $_dlrun_reason != 'node failed' ]]; then _dlrun_asked=1; fi
    return 0
  fi
  # Elsewhere: its standbys began by themselves, as what had started them is gone. Another copy would find their work half done.
  if [[ -n $_dlrun_keeper && -z ${SLURM_JOB_ID-}${_dlrun_left_to_end-} ]] && ((_dlrun_status)) && _dlrun_has_lost_keeper; then
    _dlrun_leave
    return 0
  fi
  # A node has lost the step's daemon, and done its part; or the launcher was killed, and its ranks go on: another step would wait for them.
  if [[ -n $_dlrun_keeper && -n ${SLURM_JOB_ID-} ]] &&
    { _dlrun_matches kept '[0-9]*' >/dev/null || { ((_dlrun_status == 137)) && ! _dlrun_some_failed; }; }; then
    scancel --quiet --signal=TERM "$SLURM_JOB_ID"
    _dlrun_leave
    return 0
  fi
  if [[ -n $_dlrun_in_place ]]; then _dlrun_copy_results; fi
  _dlrun_on_each_node 600 clean
  if [[ -n $_dlrun_keeper ]]; then
    touch "$DLRUN_RUN_DIR/kept/none" # it has nothing to do any more
    _dlrun_terminate "$_dlrun_keeper"
  fi
}

_dlrun_has_lost_keeper() { # true if what had started the standbys is gone, or goes now, with the launcher that something has killed
  local waited
  for ((waited = 0; waited < 30; waited++)); do
    kill -0 "$_dlrun_keeper" 2>/dev/null || return 0
    if ((_dlrun_status <= 128)) || _dlrun_some_failed; then break; fi
    sleep 0.1
  done
  return 1
}

_dlrun_copy_results() { # sets _dlrun_status if they do not arrive
  local begun what=out
  _dlrun_announce_copies "$_dlrun_status"
  if [[ -z $_dlrun_results ]] || { [[ $_dlrun_results == ok ]] && ((_dlrun_status)); }; then what=work; fi
  if [[ $what == work && -z $_dlrun_away ]]; then return 0; fi
  _dlrun_read_clock
  begun=$_dlrun_now
  "${_dlrun_starts[@]}" bash -p "$DLRUN_JOB_DIR/stage.sh" "$what" </dev/null &
  wait "$!" || { [[ -n $_dlrun_keeper ]] && _dlrun_await_standby; } || _dlrun_results_left
  _dlrun_read_clock
  _dlrun_returning=$((_dlrun_now - begun))
}

_dlrun_results_left() { # log where the remaining results are, and let the job fail
  local places
  places=${DLRUN_RESULTS-}${DLRUN_RESULTS:+${_dlrun_away:+ and }}$_dlrun_away
  if _dlrun_matches kept '[0-9]*' >/dev/null; then _dlrun_find_missing; fi # only standbys leave such notes
  dlrun_log "not all results were copied; the rest is on${_dlrun_missing:- the nodes}, in $places; each node's report is in $DLRUN_RUN_DIR/logs/stage-*.log"
  if ((_dlrun_status == 0)); then _dlrun_status=1; fi
}
